"""What a claim without an answer waits for, and the command that brings it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reproduction.helpers import write_notebook
from tests.scorecard.helpers import FIG1, Toy
from workbench.parameters import Value
from workbench.utils import files

DEFAULTS: dict[str, Value] = {"scale": "default", "batch_size": 32, "overhead_ms": 13.0}
PARAMETERS_CELL = """
scale: str = "smoke"
batch_size: int = 32
overhead_ms: float = 13
output: str = ""
"""


@pytest.fixture
def notebook(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The toy system's notebook, in a clone of its own."""
    path = write_notebook(tmp_path / "notebooks" / "09_toy.ipynb", parameters=PARAMETERS_CELL)
    monkeypatch.setattr(files, "NOTEBOOKS", path.parent)
    return path


def waits_for(toy: Toy) -> str:
    """What the claim on Fig. 2 says, for which no frame is ever stored here."""
    reasons = {row.id: (row.verdict, row.reason) for row in toy.card().rows}
    assert reasons["toy.fig2.speedup"][0] == "not run"
    return reasons["toy.fig2.speedup"][1]


GAP = "the stored results have no answer to it: run `workbench reproduce 09_toy --force`"


@pytest.mark.usefixtures("notebook")
class TestOtherParameters:
    @pytest.mark.parametrize(
        ("given", "named"),
        [
            ({"batch_size": 16}, "batch_size=16"),
            ({"scale": "smoke"}, "scale=smoke"),  # the cell says so, `reproduce` does not
            ({"scale": "smoke", "batch_size": 16}, "batch_size=16, scale=smoke"),
        ],
    )
    def test_are_named_with_the_command_that_runs_the_defaults(
        self, toy: Toy, given: dict[str, Value], named: str
    ) -> None:
        toy.store({**DEFAULTS, **given}, fig1=FIG1)
        other = f"it is about other parameters than the run had ({named})"
        assert waits_for(toy) == f"{other}: run `workbench reproduce 09_toy`"
        assert toy.card().unanswered == ("toy.fig2.speedup",)
        said = "The stored results do not answer toy.fig2.speedup; the line of each says why."
        assert said in toy.card().notes()

    @pytest.mark.parametrize("parameters", [DEFAULTS, {**DEFAULTS, "gone": 1}, {}])
    def test_are_not_to_blame_where_there_are_none(
        self, toy: Toy, parameters: dict[str, Value]
    ) -> None:
        toy.store(parameters, fig1=FIG1)
        assert waits_for(toy) == GAP

    def test_are_not_named_for_frames_whose_parameters_are_unknown(self, toy: Toy) -> None:
        card = toy.judge({"fig1": FIG1}, scale="smoke")
        assert GAP in [row.reason for row in card.rows]

    def test_are_not_named_where_nothing_is_stored(self, toy: Toy) -> None:
        assert waits_for(toy) == "no stored results: run `workbench reproduce 09_toy`"

    def test_are_not_named_for_claims_that_say_what_they_wait_for(self, toy: Toy) -> None:
        toy.store({**DEFAULTS, "batch_size": 16}, fig1=FIG1)
        reasons = {row.id: row.reason for row in toy.card().rows}
        assert reasons["toy.fig3.accuracy"] == "needs the training runtime"


def test_a_broken_notebook_does_not_spoil_the_scorecard(toy: Toy, notebook: Path) -> None:
    notebook.write_text("{")
    toy.store({**DEFAULTS, "batch_size": 16}, fig1=FIG1)
    assert waits_for(toy) == GAP
