"""Ctrl-C in an experiment costs the rows that are being made, not those before them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from workbench.runtime import Run


class ExperimentInterrupted(KeyboardInterrupt):
    """Ctrl-C ended an experiment before its last row.

    A cell that is to go on with what there is catches it; after one that did not, it is
    ``sys.last_value``::

        from workbench.experiments import ExperimentInterrupted

        try:
            frame = experiments.replanning("paper")
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
    """Make `ExperimentInterrupted` of Ctrl-C, with the rows that `frame` returns by then."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise ExperimentInterrupted(frame()) from error


def whole(run: Run) -> Run:
    """Return a simulation that Ctrl-C has not ended early; pass the Ctrl-C on of one that it has.

    A simulation ends in order at Ctrl-C, and half of one is no row.
    """
    if run.interrupted:
        raise KeyboardInterrupt
    return run
