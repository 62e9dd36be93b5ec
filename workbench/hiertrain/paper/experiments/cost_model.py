"""Figs. 7 to 11 by the cost model on the paper's testbed, and what its constants rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from workbench.claims import load_claims, tolerance, verdicts
from workbench.experiments import grid, sweep
from workbench.hiertrain.paper import calibration
from workbench.hiertrain.paper.testbed import (
    BATCH_SIZE,
    CORES_USED,
    DEVICE_EDGE_MBPS,
    EDGE_CLOUD_MBPS,
    EXPLANATION,
    LOW_MBPS,
    MODELS,
    Constants,
    by_bandwidth,
    by_cores,
    variant,
)
from workbench.names import choose

NAIVE = ("hiertrain", "all_edge", "all_cloud")
RIVALS = ("hiertrain", "jointdnn", "jointdnn_plus", "jalad")


def fig7(
    batch_size: int = BATCH_SIZE,
    device_edge_mbps: float = DEVICE_EDGE_MBPS,
    edge_cores: int = CORES_USED,
    devices: int = 1,
    *,
    model: str = "alexnet",
    planners: Sequence[str] = NAIVE,
) -> pl.DataFrame:
    """One iteration against edge-cloud bandwidth: AlexNet, HierTrain and the naive two.

    As `workbench.hiertrain.paper.testbed.by_bandwidth`.

    Parameters
    ----------
    model
        ``"alexnet"`` or ``"lenet5"``.
    """
    testbed = variant(device_edge_mbps, edge_cores=edge_cores, devices=devices)
    zoo_model = choose("model", model, MODELS)
    return by_bandwidth(testbed, zoo_model, batch_size, EDGE_CLOUD_MBPS, planners)


def fig8(
    batch_size: int = BATCH_SIZE,
    device_edge_mbps: float = DEVICE_EDGE_MBPS,
    edge_cores: int = CORES_USED,
    devices: int = 1,
) -> pl.DataFrame:
    """LeNet-5, HierTrain and the naive two; as `fig7`."""
    return fig7(batch_size, device_edge_mbps, edge_cores, devices, model="lenet5")


def fig9(
    batch_size: int = BATCH_SIZE,
    device_edge_mbps: float = DEVICE_EDGE_MBPS,
    edge_cores: int = CORES_USED,
    devices: int = 1,
) -> pl.DataFrame:
    """AlexNet, HierTrain and the rival planners; as `fig7`."""
    return fig7(batch_size, device_edge_mbps, edge_cores, devices, planners=RIVALS)


def fig10(
    batch_size: int = BATCH_SIZE,
    device_edge_mbps: float = DEVICE_EDGE_MBPS,
    edge_cores: int = CORES_USED,
    devices: int = 1,
) -> pl.DataFrame:
    """LeNet-5, HierTrain and the rival planners; as `fig7`."""
    return fig7(batch_size, device_edge_mbps, edge_cores, devices, model="lenet5", planners=RIVALS)


def fig11(
    batch_size: int = BATCH_SIZE,
    device_edge_mbps: float = DEVICE_EDGE_MBPS,
    devices: int = 1,
    model: str = "alexnet",
) -> pl.DataFrame:
    """HierTrain's iteration by cores of the edge server and bandwidth.

    As `workbench.hiertrain.paper.testbed.by_cores`.

    Notes
    -----
    The text fixes the edge-cloud bandwidth at 3.5 Mbit/s and then speaks of others; here it is
    swept.
    """
    testbed = variant(device_edge_mbps, devices=devices)
    return by_cores(testbed, choose("model", model, MODELS), batch_size)


EXPLAINED = {
    "explanation": pl.String,
    "claim": pl.String,
    "role": pl.String,
    "paper": pl.Float64,
    "ours": pl.Float64,
    "verdict": pl.String,
}


def explanations() -> pl.DataFrame:
    """How each explanation of the open constants fares, claim by claim.

    A row per explanation and claim of Figs. 7 to 11: ``explanation, claim, role`` (``fit`` or
    ``predicted``), ``paper`` and ``ours`` (null for an order), ``verdict``.
    """
    points = grid(explanation=calibration.EXPLANATIONS)
    return sweep("Explanations", _explained, points, EXPLAINED)


def _explained(explanation: str, **_: object) -> list[dict[str, object]]:
    stated = dict(load_claims().filter(system="hiertrain").select("id", "value").iter_rows())
    one = calibration.EXPLANATIONS[explanation]
    answers = calibration.found(one.testbed(Constants.load(explanation)), one.batch_size)
    rows: list[dict[str, object]] = []
    for claim, verdict in verdicts("hiertrain", answers).items():
        number = claim in calibration.SPEEDUPS
        rows.append(
            {
                "claim": claim,
                "role": "fit" if claim in one.fitted_on else "predicted",
                "paper": float(stated[claim]) if number else None,
                "ours": float(answers[claim].ours or 0) if number else None,
                "verdict": verdict,
            }
        )
    return rows


SHIFTS_PERCENT = (-10, -5, -2, 2, 5, 10)

SENSITIVITY = {
    "constant": pl.String,
    "fitted": pl.Float64,
    "shift_percent": pl.Int64,
    "met": pl.Int64,
    "claims": pl.Int64,
    "trend": pl.Int64,
}


def sensitivity() -> pl.DataFrame:
    """How many claims of Figs. 7 to 11 are met if a fitted constant is a little off.

    A row per constant and shift: ``constant``, its ``fitted`` value, ``shift_percent`` (0 for
    none), ``met`` of ``claims``, and ``trend``, what keeps its order alone.
    """
    ranges = calibration.EXPLANATIONS[EXPLANATION].ranges
    points = grid(constant=ranges, shift_percent=sorted((0, *SHIFTS_PERCENT)))
    return sweep("Sensitivity", _shifted, points, SENSITIVITY)


def _shifted(constant: str, shift_percent: int, **_: object) -> dict[str, float]:
    one, constants = calibration.EXPLANATIONS[EXPLANATION], Constants.load()
    fitted = getattr(constants, constant)
    shifted = replace(constants, **{constant: fitted * (1 + shift_percent / 100)})
    judged = verdicts("hiertrain", calibration.found(one.testbed(shifted), one.batch_size))
    return {
        "fitted": fitted,
        "met": sum(calibration.COST.get(verdict) == 0 for verdict in judged.values()),
        "claims": len(judged),
        "trend": sum(verdict == "trend" for verdict in judged.values()),
    }


def explanation_scores(frame: pl.DataFrame) -> pl.DataFrame:
    """Claims that each explanation meets, in all and of each role, and how far its numbers are.

    A row per explanation: ``constants`` (fitted ones), ``fit_met, fit_claims, predicted_met,
    predicted_claims, met, trend`` and ``mean_factor``, the geometric mean of how many times too
    large or small its four speed-ups are.
    """
    is_met = pl.col("verdict").is_in(["near", "holds"])
    off = (pl.col("ours") / pl.col("paper")).log().abs().mean().exp()

    def of(role: str) -> pl.Expr:
        return pl.col("role") == role

    counts = {name: len(one.ranges) for name, one in calibration.EXPLANATIONS.items()}
    return frame.group_by("explanation", maintain_order=True).agg(
        constants=pl.col("explanation").first().replace_strict(counts, default=None),
        fit_met=(is_met & of("fit")).sum(),
        fit_claims=of("fit").sum(),
        predicted_met=(is_met & of("predicted")).sum(),
        predicted_claims=of("predicted").sum(),
        met=is_met.sum(),
        trend=(pl.col("verdict") == "trend").sum(),
        mean_factor=off,
    )


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
    speedup = {claim: float(_claim(claim)["value"]) for claim in calibration.SPEEDUPS}
    edge_a, cloud_a, edge_l, cloud_l = (speedup[claim] for claim in calibration.SPEEDUPS)
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


def _claim(name: str) -> dict[str, str]:
    return load_claims().filter(id=name).row(0, named=True)
