"""Which recorded results answer claims, and what the scorecard says of the others."""

from __future__ import annotations

import pytest

from tests.claims.helpers import FIG1, TOY_ANSWERS, Toy, recording
from workbench import claims
from workbench.experiments import recorded
from workbench.experiments.recorded import Recorded

BOTH = TOY_ANSWERS.replace('("fig1", _order)', '(("fig1", "fig2"), lambda *both: Answer(True))')


def card(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, found: dict[str, Recorded], **faults: str
) -> claims.Scorecard:
    monkeypatch.setattr(recorded, "load_all", lambda system: (found, faults))
    return claims.of_frames("toy", {}, claims=toy.claims)


def answered(made: claims.Scorecard) -> set[str]:
    return {row.name for row in made.rows if row.recorded is not None}


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
    toy.answer_by(BOTH)
    found = recording("fig1") | recording("fig2", **other)  # type: ignore[arg-type]
    names = answered(card(toy, monkeypatch, found))
    assert {"fig1.best", "fig1.second"} <= names
    assert ("fig2.order" in names) is together


def test_claims_are_of_the_papers_scale(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    made = card(toy, monkeypatch, recording("fig1", scale="default"))
    assert answered(made) == set()
    (note,) = (one for one in made.notes() if one.startswith("toy fig1: recorded on 2026-01-01"))
    assert "scale default" in note
    assert "answers no claim" in note


def test_what_cannot_be_read_is_noted(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    older = recording("fig1", FIG1.rename({"reduction": "saved"}))
    made = card(toy, monkeypatch, older, fig2="fig2.parquet is missing")
    assert answered(made) == set()
    notes = list(made.notes())
    assert "toy fig2: fig2.parquet is missing." in notes
    assert any(one.startswith("toy fig1, recorded: of another version") for one in notes)
