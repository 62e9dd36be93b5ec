"""What the calibrated constants rest on: readings of the paper weighed against each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt
import polars as pl

from workbench.claims import MET, claims_of, verdicts
from workbench.experiments import grid, sweep
from workbench.experiments.figure import Figure
from workbench.figures import parts
from workbench.olpb.costs.backward import FREE, MOVES
from workbench.olpb.paper import calibration
from workbench.olpb.paper.scan_times import met_of
from workbench.olpb.paper.testbed import DELAY_FACTORS, MODELS, Constants, stated_fig11_ms

EXPLAINED: dict[str, Any] = {
    **dict.fromkeys(("explanation", "claim", "role", "paper"), pl.String),
    "ours": pl.Float64,
    "verdict": pl.String,
}


def explanations() -> pl.DataFrame:
    """How each explanation of the open constants fares, claim by claim.

    A row per explanation and claim of Figs. 9 to 12: ``role`` (``fit`` or ``predicted``),
    ``paper``, ``ours`` (null for an order) and ``verdict``.
    """
    return sweep(
        _explained, grid(explanation=calibration.EXPLANATIONS), EXPLAINED, title="Explanations"
    )


def _explained(explanation: str, **_: object) -> Iterator[dict[str, object]]:
    answers = calibration.answers_by(
        calibration.EXPLANATIONS[explanation], Constants.load(explanation)
    )
    for claim, verdict in verdicts("olpb", answers).items():
        ours = answers[claim].ours
        yield {
            "claim": claim,
            "role": "fit" if claim in calibration.FITTED else "predicted",
            "paper": claims_of("olpb")[claim].value,
            "ours": None if isinstance(ours, bool) else ours,
            "verdict": verdict,
        }


READ: dict[str, Any] = {
    "moves": pl.String,
    **dict.fromkeys(("fitted_met", "fitted", "predicted_met", "predicted"), pl.Int64),
    **dict.fromkeys(("first_ms", "last_ms", "paper_first_ms", "paper_last_ms"), pl.Float64),
}


def readings(explained: pl.DataFrame) -> pl.DataFrame:
    """What Figs. 9 to 12 come to by each reading of what it costs to combine Jacobians.

    A row per reading in ``moves`` (`workbench.olpb.costs.backward.MOVES`), that of the figures
    first: of the claims in a frame of `explanations` how many are met, of those ``fitted`` on and
    of those ``predicted``; and milliseconds of OLPB (l = 2) on SqueezeNet at the ends of Fig. 11,
    with the paper's.
    """
    met = pl.col("verdict").is_in(MET)
    ends = min(DELAY_FACTORS), max(DELAY_FACTORS)
    rows: list[tuple[Any, ...]] = []
    for moves in sorted(MOVES, key=lambda moves: moves != FREE):
        counts: list[int] = []
        for role in ("fit", "predicted"):
            claims = explained.filter(explanation=moves, role=role)
            counts += [len(claims.filter(met)), len(claims)]
        explanation, constants = calibration.EXPLANATIONS[moves], Constants.load(moves)
        testbeds = [explanation.testbed(constants, delay_factor=p) for p in ends]
        took_ms = [1e3 * at.backward_s(MODELS["SqueezeNet"], "olpb_l2") for at in testbeds]
        rows.append((moves, *counts, *took_ms, *stated_fig11_ms()))
    return pl.DataFrame(rows, READ, orient="row")


def rests_on(read: pl.DataFrame) -> str:
    """A frame of `readings` in words."""
    rows = read.to_dicts()
    free, claims = rows[0], {role: rows[0][role] for role in ("fitted", "predicted")}
    met = [{role: row[f"{role}_met"] for role in claims} for row in rows]
    return (
        "Figures 9 to 12 rest on combining Jacobians at no cost: "
        f"{met_of(met[:1], claims)} claims are met.\n"
        f"Where combining costs something, {met_of(met[1:], claims)} claims are.\n"
        f"SqueezeNet takes {free['first_ms']:,.0f} to {free['last_ms']:,.0f} ms over the delays of "
        f"Figure 11, in the paper {free['paper_first_ms']:,.0f} to {free['paper_last_ms']:,.0f} ms."
    )


def draw_explanations(frame: pl.DataFrame) -> alt.LayerChart:
    """Verdict on every claim of Figs. 9 to 12 under each explanation of the open constants."""
    title = ["Claims met by each explanation (cost model)", "numbers: percent, or x"]
    return parts.verdicts(frame, "olpb.", {}).properties(height=200, title=title)


EXPLANATIONS = Figure(id="explanations", compute=explanations, chart=draw_explanations)
READINGS = Figure(id="readings", compute=readings, of=(EXPLANATIONS,))
