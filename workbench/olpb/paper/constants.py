"""What the calibrated constants rest on: readings of the paper weighed against each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt
import polars as pl

from workbench.figures import parts
from workbench.olpb.paper import calibration
from workbench.olpb.paper.testbed import READINGS, Constants
from workbench.reproduction.claims import claims_of, verdicts
from workbench.reproduction.figure import Figure
from workbench.reproduction.sweep import grid, sweep

EXPLAINED: dict[str, Any] = {
    **dict.fromkeys(("explanation", "claim", "role", "paper"), pl.String),
    "ours": pl.Float64,
    "verdict": pl.String,
}


def explanations() -> pl.DataFrame:
    """How each reading of Sec. IV fares, with the constants fitted for it, claim by claim.

    A row per reading (``explanation``) and claim of Figs. 9 to 12: ``role`` (``fit`` or
    ``predicted``), ``paper``, ``ours`` (null for an order) and ``verdict``.
    """
    return sweep(_explained, grid(explanation=READINGS), EXPLAINED, title="Readings")


def _explained(explanation: str) -> Iterator[dict[str, object]]:
    answers = calibration.answers_by(explanation, Constants.load(explanation))
    for claim, verdict in verdicts("olpb", answers).items():
        ours = answers[claim].ours
        yield {
            "claim": claim,
            "role": "fit" if claim in calibration.FITTED else "predicted",
            "paper": claims_of("olpb")[claim].value,
            "ours": None if isinstance(ours, bool) else ours,
            "verdict": verdict,
        }


def draw_explanations(frame: pl.DataFrame) -> alt.LayerChart:
    """Verdict on every claim of Figs. 9 to 12 under each reading."""
    title = ["Claims met by each reading (cost model)", "numbers: percent, x or ms"]
    return parts.verdicts(frame, "olpb.", {}).properties(height=200, title=title)


EXPLANATIONS = Figure(id="explanations", compute=explanations, chart=draw_explanations)
