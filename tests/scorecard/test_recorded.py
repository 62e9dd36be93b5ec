"""Which recorded results answer claims, and what the scorecard says of the others."""

from __future__ import annotations

import polars as pl
import pytest

from tests.scorecard.helpers import FIG1, Toy, recording
from workbench.claims import Answer
from workbench.experiments import recorded
from workbench.experiments.figure import Figure, JointClaims
from workbench.experiments.recorded import Recorded
from workbench.scorecard import Scorecard


def card(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, found: dict[str, Recorded], **faults: str
) -> Scorecard:
    monkeypatch.setattr(recorded, "load_all", lambda *_: (found, faults))
    return toy.judge({})


def answered(made: Scorecard) -> set[str]:
    return {row.name for row in made.rows if row.evidence}


@pytest.mark.parametrize(
    ("other", "together"),
    [
        ({}, True),
        ({"scale": "smoke"}, False),
        ({"data": "digits"}, False),
        ({"seeds": (1, 2)}, False),
    ],
)
def test_recordings_answer_together_what_is_of_the_same_data_and_seeds(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, other: dict[str, str], together: bool
) -> None:
    toy.change("fig1", answers={"toy.fig2.order": lambda _: None})
    both = tuple(toy.figures.values())
    toy.together = JointClaims(both, {"toy.fig2.order": lambda *_: Answer(True)})
    toy.figures["fig3"] = Figure(
        id="fig3",
        of=both,
        compute=lambda *frames: pl.concat(frames),
        answers={"toy.fig3.accuracy": lambda of_both: Answer(float(of_both.height))},
    )
    found = recording("fig1") | recording("fig2", **other)  # type: ignore[arg-type]
    names = answered(card(toy, monkeypatch, found))
    assert {"fig1.best", "fig1.second"} <= names
    assert ("fig2.order" in names) is ("fig3.accuracy" in names) is together


@pytest.mark.parametrize(
    ("scale", "judged"),
    [
        ("paper", (39.0, "recorded at paper, 3 seeds, mnist", 30.0)),
        ("default", (30.0, "this run, smoke scale", 21.0)),
    ],
)
def test_what_was_recorded_at_default_is_weaker_than_this_run(
    toy: Toy,
    monkeypatch: pytest.MonkeyPatch,
    scale: str,
    judged: tuple[float, str, float],
) -> None:
    reductions = {"paper": pl.Series([39.0, 20.0]), "default": pl.Series([21.0, 20.0])}
    found = recording("fig1", FIG1.with_columns(reduction=reductions[scale]), scale=scale)
    monkeypatch.setattr(recorded, "load_all", lambda *_: (found, {}))
    best, *_ = toy.judge({"fig1": FIG1}, scale="smoke").rows
    assert (best.ours, best.evidence, best.beside) == judged


def test_what_only_default_answers_is_judged_by_it(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = card(toy, monkeypatch, recording("fig1", scale="default", seeds=(1,)))
    assert made.rows[0].verdict == "trend"
    assert made.rows[0].evidence == "recorded at default, 1 seed, mnist"
    assert any(one.startswith("toy fig1: recorded at default") for one in made.notes())


@pytest.mark.parametrize("made_by", [{"dirty": True}, {"revision": None, "dirty": None}])
def test_what_no_commit_has_answers_no_claim(
    made_by: dict[str, object], toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = card(toy, monkeypatch, recording("fig1", **made_by))  # type: ignore[arg-type]
    assert answered(made) == set()
    assert any(one.startswith("toy fig1:") and "answers no claim" in one for one in made.notes())


def test_what_cannot_be_read_is_noted(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    older = recording("fig1", FIG1.rename({"reduction": "saved"}))
    made = card(toy, monkeypatch, older, fig2="fig2.parquet is missing")
    assert answered(made) == set()
    notes = list(made.notes())
    assert "toy fig2: fig2.parquet is missing." in notes
    assert any(one.startswith("toy fig1, recorded: of another version") for one in notes)
