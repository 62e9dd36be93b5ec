"""A training run that ends says why, what to do, and where its epochs are."""

from __future__ import annotations

import math

from workbench.training.diverged import DivergedError
from workbench.training.why_ended import why_ended


def failed(message: str, cause: Exception | None = None) -> RuntimeError:
    error = RuntimeError(message)
    error.__cause__ = cause
    return error


def test_a_loss_that_is_no_number_has_a_way_out() -> None:
    error = failed("program of a failed", DivergedError(math.nan, "for a in its step 2"))
    told = why_ended(error, learning_rate=1e20, done=2, planned=3)
    assert told == (
        "training diverged: the loss is nan for a in its step 2; use a smaller learning rate than "
        "1e+20, as in sgd=Sgd(learning_rate=...) "
        "(2 of 3 epochs were done: `trained` of this error has what there is)"
    )


def test_anything_else_keeps_its_words() -> None:
    error = failed("program of a failed", ValueError("of no matter"))
    told = why_ended(error, learning_rate=0.1, done=1, planned=6, what="epochs, over all nodes,")
    assert told == (
        "program of a failed "
        "(1 of 6 epochs, over all nodes, was done: `trained` of this error has what there is)"
    )


def test_several_lines_stay_apart() -> None:
    told = why_ended(failed("deadlock:\na waits"), learning_rate=0.1, done=0, planned=2)
    assert told.splitlines()[:2] == ["deadlock:", "a waits"]
    assert told.splitlines()[2].startswith("(0 of 2 epochs were done")
