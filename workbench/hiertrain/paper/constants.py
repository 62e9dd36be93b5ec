"""What the calibrated constants rest on: explanations weighed, and claims that contradict."""

from __future__ import annotations

from dataclasses import replace

import altair as alt
import polars as pl

from workbench.figures import parts
from workbench.hiertrain.paper import calibration
from workbench.hiertrain.paper.testbed import (
    DEVICE_EDGE_MBPS,
    EDGE_CLOUD_MBPS,
    EXPLANATION,
    LOW_MBPS,
    Constants,
)
from workbench.reproduction.claims import MET, paper_value, tolerance, verdicts
from workbench.reproduction.figure import Figure
from workbench.reproduction.sweep import grid, sweep

EXPLAINED = {
    "explanation": pl.String,
    "claim": pl.String,
    "role": pl.String,
    "paper": pl.Float64,
    "ours": pl.Float64,
    "verdict": pl.String,
}


def explanations() -> pl.DataFrame:
    """How each explanation of the open constants fares, claim by claim of Figs. 7 to 11.

    ``role`` is ``fit`` or ``predicted``; ``paper`` and ``ours`` are null for an order.
    """
    points = grid(explanation=calibration.EXPLANATIONS)
    return sweep(_explained, points, EXPLAINED, title="Explanations")


def _explained(explanation: str) -> list[dict[str, object]]:
    weighed = calibration.EXPLANATIONS[explanation]
    answers = weighed.answers(Constants.load(explanation))
    return [
        {
            "claim": claim,
            "role": "fit" if claim in weighed.fitted_on else "predicted",
            "paper": paper_value(claim) if claim in calibration.SPEEDUPS else None,
            "ours": float(answers[claim].ours or 0) if claim in calibration.SPEEDUPS else None,
            "verdict": verdict,
        }
        for claim, verdict in verdicts("hiertrain", answers).items()
    ]


def draw_explanations(frame: pl.DataFrame) -> alt.LayerChart:
    """Verdict on every claim of Figs. 7 to 11 under each explanation of the open constants."""
    titles = {"flops_only": "FLOPs only", "batch_32": "batch of 32"}
    title = ["Claims met by each explanation (cost model)", "numbers: our speed-ups"]
    return parts.verdicts(frame, "hiertrain.", titles).properties(height=220, title=title)


def explanation_scores(frame: pl.DataFrame) -> pl.DataFrame:
    """Claims that each explanation meets, in all and of each role, and how far its numbers are.

    ``constants`` counts the fitted ones; ``mean_factor`` is the geometric mean of how many times
    too large or small its four speed-ups are.
    """
    is_met = pl.col("verdict").is_in(MET)
    fit, predicted = (pl.col("role") == role for role in ("fit", "predicted"))
    counts = {name: len(weighed.ranges) for name, weighed in calibration.EXPLANATIONS.items()}
    return frame.group_by("explanation", maintain_order=True).agg(
        constants=pl.col("explanation").first().replace_strict(counts, default=None),
        fit_met=(is_met & fit).sum(),
        fit_claims=fit.sum(),
        predicted_met=(is_met & predicted).sum(),
        predicted_claims=predicted.sum(),
        met=is_met.sum(),
        trend=(pl.col("verdict") == "trend").sum(),
        mean_factor=(pl.col("ours") / pl.col("paper")).log().abs().mean().exp(),
    )


SHIFTS_PERCENT = (-10, -5, -2, 0, 2, 5, 10)

SHIFTED = {
    "constant": pl.String,
    "fitted": pl.Float64,
    **dict.fromkeys(("shift_percent", "met", "claims", "trend"), pl.Int64),
}


def sensitivity() -> pl.DataFrame:
    """How many claims of Figs. 7 to 11 are met if a fitted constant is a little off.

    ``met`` of ``claims``; of ``trend`` the order alone is kept.
    """
    ranges = calibration.EXPLANATIONS[EXPLANATION].ranges
    points = grid(constant=ranges, shift_percent=SHIFTS_PERCENT)
    return sweep(_shifted, points, SHIFTED, title="Sensitivity")


def _shifted(constant: str, shift_percent: int) -> dict[str, float]:
    constants = Constants.load()
    fitted = getattr(constants, constant)
    shifted = replace(constants, **{constant: fitted * (1 + shift_percent / 100)})
    judged = verdicts("hiertrain", calibration.EXPLANATIONS[EXPLANATION].answers(shifted))
    return {
        "fitted": fitted,
        "met": sum(verdict in MET for verdict in judged.values()),
        "claims": len(judged),
        "trend": sum(verdict == "trend" for verdict in judged.values()),
    }


def contradictions() -> pl.DataFrame:
    """What the paper's statements together need, and what any times under the cost model allow.

    H, E, C and J are the seconds of HierTrain, All-Edge, All-Cloud and JALAD at an edge-cloud
    bandwidth. All-Cloud takes a + b / bandwidth, whatever a and b, and HierTrain does not get
    slower with bandwidth. Device and cloud reach what the slower link does.

    The speed-ups are the largest over all bandwidths. They are written at the lowest, where the
    model allows the most: C(b) / E grows towards it, and so does 5 / b, what C(b) / J(b) can be.
    From where JointDNN+ is in the cloud, C / H is at most the speed-up over All-Edge.

    A row per conflict: ``statements``, ``ratio``, what it is at least by the statements
    (``needed``, and ``needed_by_near`` with every number as far off as the scorecard's near allows)
    and at most by the model (``allowed``).
    """
    edge_a, cloud_a, edge_l, cloud_l = map(paper_value, calibration.SPEEDUPS)
    near = 1 - tolerance("x", 1.0), 1 + tolerance("x", 1.0)
    low, high = EDGE_CLOUD_MBPS[0], DEVICE_EDGE_MBPS
    first_cloud = min(mbps for mbps in EDGE_CLOUD_MBPS if mbps > LOW_MBPS)
    rows = [
        (
            "AlexNet: the speed-ups over All-Edge and All-Cloud; JointDNN+ is in the cloud, not on "
            f"the edge, from {first_cloud:g} Mbit/s",
            f"C({low:g}) / C({first_cloud:g}) >= C({low:g}) / E",
            cloud_a / edge_a,
            cloud_a * near[0] / (edge_a * near[1]),
            first_cloud / low,
        ),
        (
            f"AlexNet: the speed-up over All-Cloud; JALAD is below HierTrain at {low:g} Mbit/s, "
            "though its samples go to the edge first",
            f"C({low:g}) / J({low:g}) >= C({low:g}) / H({low:g})",
            cloud_a,
            cloud_a * near[0],
            high / low,
        ),
        (
            "LeNet-5: the speed-ups over All-Edge and All-Cloud",
            f"C({low:g}) / E",
            cloud_l / edge_l,
            cloud_l * near[0] / (edge_l * near[1]),
            high / low,
        ),
    ]
    schema = ["statements", "ratio", "needed", "needed_by_near", "allowed"]
    return pl.DataFrame(rows, schema=schema, orient="row")


CONTRADICTIONS = Figure(id="contradictions", compute=contradictions)

EXPLANATIONS = Figure(id="explanations", compute=explanations, chart=draw_explanations)

SENSITIVITY = Figure(id="sensitivity", compute=sensitivity)
