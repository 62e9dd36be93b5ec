"""Ctrl-C in an experiment loses the rows in progress, not those before them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from workbench.runtime import Run


class ExperimentInterrupted(KeyboardInterrupt):
    """Ctrl-C ended an experiment before its last row; `frame` has the finished ones, maybe none.

    ``except ExperimentInterrupted as stopped: frame = stopped.frame`` goes on with these; without
    it, the error is in ``sys.last_value``.
    """

    def __init__(self, frame: pl.DataFrame) -> None:
        rows = "1 finished row is" if len(frame) == 1 else f"{len(frame)} finished rows are"
        super().__init__(f"interrupted; {rows} in `frame` of this error")
        self.frame = frame


@contextmanager
def keeping(frame: Callable[[], pl.DataFrame]) -> Iterator[None]:
    """Turn Ctrl-C into `ExperimentInterrupted`, with the rows that `frame` returns by then."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise ExperimentInterrupted(frame()) from error


def whole(run: Run) -> Run:
    """Return a simulation that ran to its end; raise KeyboardInterrupt for one that did not.

    A simulation returns normally at Ctrl-C, and half of one is no row.
    """
    if run.interrupted:
        raise KeyboardInterrupt
    return run
