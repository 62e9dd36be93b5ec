"""The paper's figures and tables as frames: one function each (Liu et al. 2020, Sec. V, VI).

Everything here is the cost model on the paper's testbed, except `table2`, which is timed on this
machine. What is simulated stands in `workbench.hiertrain.paper.simulations`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import polars as pl

from workbench.claims import load_claims, tolerance
from workbench.hiertrain.algorithms.hiertrain import hiertrain
from workbench.hiertrain.paper import calibration
from workbench.hiertrain.paper.answers import LOW_MBPS
from workbench.hiertrain.paper.sweep import by_cores, sweep
from workbench.hiertrain.paper.testbed import (
    BATCH_SIZE,
    DEVICE_EDGE_MBPS,
    EDGE_CLOUD_MBPS,
    EXPLANATION,
    FIG11_MBPS,
    MODELS,
    STATED,
    Constants,
    variant,
)
from workbench.names import choose
from workbench.profiles import profile_model
from workbench.runtime import progress

NAIVE = ("hiertrain", "all_edge", "all_cloud")
RIVALS = ("hiertrain", "jointdnn", "jointdnn_plus", "jalad")
TIMED = (MODELS["lenet5"], MODELS["alexnet"], "vgg16", "vgg19", "googlenet", "resnet34")


class Scale(NamedTuple):
    """How much of what can be made smaller is run."""

    repeats: int  # Table II


SCALES = {"smoke": Scale(1), "default": Scale(5), "paper": Scale(21)}
"""What each scale means for this system; figures that are not named here are always whole."""


def fig7(
    batch_size: int = BATCH_SIZE,
    device_edge_mbps: float = DEVICE_EDGE_MBPS,
    edge_cores: int = 1,
    devices: int = 1,
    *,
    model: str = "alexnet",
    planners: Sequence[str] = NAIVE,
) -> pl.DataFrame:
    """One iteration against edge-cloud bandwidth: AlexNet, HierTrain and the naive two.

    Parameters
    ----------
    model
        ``"alexnet"`` or ``"lenet5"``.

    Returns
    -------
    polars.DataFrame
        As `workbench.hiertrain.paper.sweep.sweep`.
    """
    testbed = variant(device_edge_mbps, edge_cores=edge_cores, devices=devices)
    zoo_model = choose("model", model, MODELS)
    return sweep(testbed, zoo_model, batch_size, EDGE_CLOUD_MBPS, planners)


def fig8(
    batch_size: int = BATCH_SIZE,
    device_edge_mbps: float = DEVICE_EDGE_MBPS,
    edge_cores: int = 1,
    devices: int = 1,
) -> pl.DataFrame:
    """LeNet-5, HierTrain and the naive two; as `fig7`."""
    return fig7(batch_size, device_edge_mbps, edge_cores, devices, model="lenet5")


def fig9(
    batch_size: int = BATCH_SIZE,
    device_edge_mbps: float = DEVICE_EDGE_MBPS,
    edge_cores: int = 1,
    devices: int = 1,
) -> pl.DataFrame:
    """AlexNet, HierTrain and the rival planners; as `fig7`."""
    return fig7(batch_size, device_edge_mbps, edge_cores, devices, planners=RIVALS)


def fig10(
    batch_size: int = BATCH_SIZE,
    device_edge_mbps: float = DEVICE_EDGE_MBPS,
    edge_cores: int = 1,
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

    Returns
    -------
    polars.DataFrame
        As `workbench.hiertrain.paper.sweep.by_cores`.

    Notes
    -----
    The text fixes the edge-cloud bandwidth at 3.5 Mbit/s and then speaks of others; here it is
    swept.
    """
    testbed = variant(device_edge_mbps, devices=devices)
    return by_cores(testbed, choose("model", model, MODELS), batch_size)


def table2(
    scale: str = "default", batch_size: int = BATCH_SIZE, models: Sequence[str] = TIMED
) -> pl.DataFrame:
    """Time that HierTrain's solver takes on this machine, at the paper's middle bandwidth.

    Returns
    -------
    polars.DataFrame
        A row per model: ``model, layers, batch_size, median_ms`` over the repeats, ``worst_ms``,
        and ``paper_ms``, the paper's on its machine (null for models that it does not name).
    """
    repeats, rows = choose("scale", scale, SCALES).repeats, []
    stated = _paper_ms()
    testbed = variant(edge_cloud_mbps=FIG11_MBPS)
    with progress.steps("Table II", len(models)) as told:
        for model in models:
            told(model)
            times_ms = []
            for _ in range(repeats + 1):
                problem = testbed.problem(model, batch_size)  # anew: it caches its sums
                before_s = time.perf_counter()
                hiertrain(problem)
                times_ms.append(1e3 * (time.perf_counter() - before_s))
            times_ms = times_ms[1:]  # the first call imports and warms
            median_ms, worst_ms = statistics.median(times_ms), max(times_ms)
            layers = len(profile_model(model))
            rows.append((model, layers, batch_size, median_ms, worst_ms, stated.get(model)))
    schema = {
        "model": pl.String,
        "layers": pl.Int64,
        "batch_size": pl.Int64,
        "median_ms": pl.Float64,
        "worst_ms": pl.Float64,
        "paper_ms": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def _paper_ms() -> dict[str, float]:
    """Milliseconds of Table II by the zoo's names."""
    claims = load_claims().filter(pl.col("id").str.starts_with("hiertrain.table2."))
    return {
        MODELS.get(name := claim.rpartition(".")[2], name): 1e3 * float(value)
        for claim, value in claims.select("id", "value").iter_rows()
    }


def explanations() -> pl.DataFrame:
    """How each explanation of the open constants fares, claim by claim.

    Returns
    -------
    polars.DataFrame
        A row per explanation and claim of Figs. 7 to 11: ``explanation, claim, role`` (``fit``
        or ``predicted``), ``paper`` and ``ours`` (null for an order), ``verdict``, ``detail``.
    """
    stated = dict(load_claims().filter(system="hiertrain").select("id", "value").iter_rows())
    rows = []
    for name, one in calibration.EXPLANATIONS.items():
        given = calibration.found(one.testbed(Constants.load(name)), one.batch_size)
        for claim, verdict in calibration.verdicts(given).items():
            answer = given[claim]
            number = claim in calibration.SPEEDUPS
            rows.append(
                {
                    "explanation": name,
                    "claim": claim,
                    "role": "fit" if claim in one.fitted_on else "predicted",
                    "paper": float(stated[claim]) if number else None,
                    "ours": float(answer.ours or 0) if number else None,
                    "verdict": verdict,
                    "detail": answer.detail,
                }
            )
    return pl.DataFrame(rows, infer_schema_length=None)


SHIFTS_PERCENT = (-10, -5, -2, 2, 5, 10)


def sensitivity() -> pl.DataFrame:
    """How many claims of Figs. 7 to 11 are met if a fitted constant is a little off.

    Returns
    -------
    polars.DataFrame
        A row per constant and shift: ``constant``, its ``fitted`` value, ``shift_percent`` (0 for
        none), ``met`` of ``claims``, and ``trend``, what keeps its order alone.
    """
    one, constants = calibration.EXPLANATIONS[EXPLANATION], Constants.load()
    rows = []
    for name in one.ranges:
        fitted = getattr(constants, name)
        for percent in sorted((0, *SHIFTS_PERCENT)):
            shifted = replace(constants, **{name: fitted * (1 + percent / 100)})
            judged = calibration.verdicts(calibration.found(one.testbed(shifted), one.batch_size))
            met = sum(calibration.COST.get(verdict) == 0 for verdict in judged.values())
            trend = sum(verdict == "trend" for verdict in judged.values())
            rows.append((name, fitted, percent, met, len(judged), trend))
    schema = {
        "constant": pl.String,
        "fitted": pl.Float64,
        "shift_percent": pl.Int64,
        "met": pl.Int64,
        "claims": pl.Int64,
        "trend": pl.Int64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def sensitivity_in_words(frame: pl.DataFrame) -> str:
    """Say in a sentence how far each constant can be off, of a frame of `sensitivity`."""
    met, claims = frame.filter(shift_percent=0).select("met", "claims").row(0)
    told = []
    for name in frame["constant"].unique(maintain_order=True):
        rows = frame.filter(constant=name)
        ends = []
        for side in (
            rows.filter(pl.col("shift_percent") < 0),
            rows.filter(pl.col("shift_percent") > 0),
        ):
            outward = side.sort(pl.col("shift_percent").abs())
            kept = outward.filter((pl.col("met") < met).cum_sum() == 0)["shift_percent"]
            ends.append(kept[-1] if len(kept) else 0)
        told.append(f"{name} from {ends[0]:+d} to {ends[1]:+d} %")
    worst = min(frame["met"].to_list())
    return (
        f"{met} of {claims} claims are met, and no fewer with {'; '.join(told)}; of all shifts "
        f"shown, at least {worst}."
    )


def peaks_in_words() -> str:
    """Say what share of the machines' peaks the fitted speeds are."""
    constants = Constants.load()
    device = 100 * constants.device_gflops / STATED["device"]["peak_gflops"]
    edge = 100 * constants.edge_core_gflops / STATED["edge"]["core_peak_gflops"]
    return (
        f"The device computes {constants.device_gflops:g} GFLOP/s, {device:.1f} % of its peak; a "
        f"core of the edge {constants.edge_core_gflops:g}, {edge:.0f} % of its own."
    )


def alexnet_alone_in_words(frame: pl.DataFrame) -> str:
    """Say what a fit on AlexNet's claims alone meets and predicts, of a frame of `explanations`."""
    scores = explanation_scores(frame)
    alone, used = (
        scores.row(by_predicate=pl.col("explanation") == name, named=True)
        for name in ("alexnet_alone", EXPLANATION)
    )
    return (
        f"Fitted on AlexNet's {alone['fit_claims']} claims alone, {alone['fit_met']} of them are "
        f"met, and {alone['predicted_met']} of the {alone['predicted_claims']} others, which need "
        f"LeNet-5, are predicted; fitted on all, {used['met']} of {used['fit_claims']} are met."
    )


def explanation_scores(frame: pl.DataFrame) -> pl.DataFrame:
    """Claims that each explanation meets, in all and of each role, and how far its numbers are.

    Returns
    -------
    polars.DataFrame
        A row per explanation: ``constants`` (fitted ones), ``fit_met, fit_claims, predicted_met,
        predicted_claims, met, trend`` and ``mean_factor``, the geometric mean of how many times
        too large or small its four speed-ups are.
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

    Returns
    -------
    polars.DataFrame
        A row per conflict: ``statements``, ``ratio``, what it is at least by the statements
        (``needed``, and ``needed_by_near`` with every number as far off as the scorecard's near
        allows) and at most by the model (``allowed``).
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
