"""Ctrl-C in an experiment costs the row that is being made, not those before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import polars as pl


class ExperimentInterrupted(KeyboardInterrupt):
    """Ctrl-C ended an experiment before its last row.

    A cell that is to go on with what there is catches it; after one that did not, it is
    ``sys.last_value``::

        from workbench.interrupted import ExperimentInterrupted

        try:
            frame = simulations.replanning("paper")
        except ExperimentInterrupted as stopped:
            frame = stopped.frame

    Attributes
    ----------
    frame
        The finished rows, in the columns of the whole; there may be none.
    """

    def __init__(self, frame: pl.DataFrame) -> None:
        rows = "1 finished row is" if len(frame) == 1 else f"{len(frame)} finished rows are"
        super().__init__(f"interrupted; {rows} in `frame` of this error")
        self.frame = frame


@contextmanager
def keeping(frame: Callable[[], pl.DataFrame]) -> Iterator[None]:
    """Give a Ctrl-C the rows that `frame` then makes of what is finished.

    Raises
    ------
    ExperimentInterrupted
        In place of a `KeyboardInterrupt`.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        raise ExperimentInterrupted(frame()) from error
