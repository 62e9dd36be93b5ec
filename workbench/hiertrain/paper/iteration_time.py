"""Figs. 7 to 10: an iteration by planner and bandwidth to the cloud, by the cost model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import altair as alt
import polars as pl

from workbench.hiertrain.algorithms import PLANNERS
from workbench.hiertrain.costs.iteration import iteration
from workbench.hiertrain.paper.testbed import (
    BATCH_SIZE,
    CORES_USED,
    DEVICE_EDGE_MBPS,
    EDGE_CLOUD_MBPS,
    LOW_MBPS,
    MODELS,
    PAPER,
    SETTING,
    Testbed,
    variant,
)
from workbench.hiertrain.paper.titles import over_bandwidth, present, title, titled
from workbench.reproduction.claims import Answer, Cause
from workbench.reproduction.figure import Figure, JointClaims, at

ITERATIONS = {
    **SETTING,
    "planner": pl.String,
    **dict.fromkeys(("forward_s", "backward_s", "update_s", "total_s"), pl.Float64),
    "policy": pl.String,
}

NAIVE = ("hiertrain", "all_edge", "all_cloud")
RIVALS = ("hiertrain", "jointdnn", "jointdnn_plus", "jalad")


def by_bandwidth(
    testbed: Testbed,
    model: str,
    batch_size: int = BATCH_SIZE,
    bandwidths_mbps: Iterable[float] = EDGE_CLOUD_MBPS,
    planners: Iterable[str] = PLANNERS,
) -> pl.DataFrame:
    """One iteration by edge-cloud bandwidth and planner, a row each."""
    rows = []
    for mbps in map(float, bandwidths_mbps):
        here = replace(testbed, edge_cloud_mbps=mbps)
        problem = here.problem(model, batch_size)
        links = (here.device_edge_mbps, mbps, here.edge_cores, here.devices)
        for planner in planners:
            policy = PLANNERS[planner](problem)
            done = iteration(problem, policy)
            times_s = (done.forward_s, done.backward_s, done.update_s, done.total_s)
            rows.append((model, batch_size, *links, planner, *times_s, str(policy)))
    return pl.DataFrame(rows, schema=ITERATIONS, orient="row")


def iterations(
    model: str,
    planners: Sequence[str],
    *,
    batch_size: int = BATCH_SIZE,
    device_edge_mbps: float = DEVICE_EDGE_MBPS,
    edge_cores: int = CORES_USED,
    devices: int = 1,
) -> pl.DataFrame:
    """`by_bandwidth` on a variant of the paper's testbed."""
    testbed = variant(device_edge_mbps=device_edge_mbps, edge_cores=edge_cores, devices=devices)
    return by_bandwidth(testbed, model, batch_size, planners=planners)


def draw_planners(frame: pl.DataFrame) -> alt.Chart:
    """Seconds of an iteration against bandwidth, a line per planner."""
    lines = over_bandwidth(titled(frame), "planner", present(frame))
    return lines.properties(height=200, title=title(frame, "an iteration", "(cost model)"))


SAME = 1 + 1e-9  # equal times of two policies are sums in another order


def _speedup(planner: str, frame: pl.DataFrame) -> Answer:
    """Largest speed-up of HierTrain over another planner."""
    speedup = _total_s(frame).select("edge_cloud_mbps", x=pl.col(planner) / pl.col("hiertrain"))
    mbps, x = speedup.sort("x").row(-1)
    return Answer(x, f"cost model, at {mbps:g} Mbit/s")


def _falls_flat_least(*frames: pl.DataFrame) -> Answer:
    wrong = []
    for frame in frames:
        model, total_s = frame["model"][0], _total_s(frame)
        if not (total_s["all_cloud"].diff().drop_nulls() < 0).all():
            wrong.append(f"all_cloud does not fall on {model}")
        if total_s["all_edge"].max() > total_s["all_edge"].min() * SAME:  # type: ignore[operator]
            wrong.append(f"all_edge is not flat on {model}")
        least_s = pl.min_horizontal("all_edge", "all_cloud") * SAME
        if len(total_s.filter(pl.col("hiertrain") > least_s)):
            wrong.append(f"hiertrain is above one of them on {model}")
    return Answer(not wrong, "; ".join(wrong) or "at every bandwidth, both models, cost model")


def _below_jointdnn(*frames: pl.DataFrame) -> Answer:
    total_s = pl.concat(map(_total_s, frames))
    wrong = total_s.filter(
        (pl.col("hiertrain") * SAME >= pl.col("jointdnn_plus"))
        | (pl.col("jointdnn_plus") > pl.col("jointdnn") * SAME)
    )
    kept = len(total_s) - len(wrong)
    return Answer(wrong.is_empty(), f"at {kept} of {len(total_s)} points, cost model")


def _plus_at_low(naive: pl.DataFrame, rivals: pl.DataFrame) -> Answer:
    """JointDNN+ below JointDNN at low bandwidth; above, both train in the cloud."""
    total_s = _side_by_side(naive, rivals)
    below = _bandwidths(total_s, pl.col("jointdnn_plus") * SAME < pl.col("jointdnn"))
    in_cloud = pl.all_horizontal(
        pl.col(planner) <= pl.col("all_cloud") * SAME for planner in ("jointdnn", "jointdnn_plus")
    ) & (pl.col("all_cloud") <= pl.col("jointdnn_plus") * SAME)
    equal = _bandwidths(total_s, in_cloud)
    detail = f"below at {_listed(below)} Mbit/s, in the cloud {_listed(equal)}"
    return Answer((below, equal) == _low_and_high(total_s), detail)


def _jalad_at_low(frame: pl.DataFrame) -> Answer:
    total_s = _total_s(frame)
    below = _bandwidths(total_s, pl.col("jalad") * SAME < pl.col("hiertrain"))
    return Answer(below == _low_and_high(total_s)[0], f"below at {_listed(below)} Mbit/s")


def _jalad_overlaps(naive: pl.DataFrame, rivals: pl.DataFrame) -> Answer:
    """JALAD equals JointDNN+: All-Edge at low bandwidth, All-Cloud at high."""
    total_s = _side_by_side(naive, rivals)

    def where(*both: str) -> list[float]:
        low_s, high_s = pl.min_horizontal(both), pl.max_horizontal(both)
        return _bandwidths(total_s, high_s <= low_s * SAME)

    same = where("jalad", "jointdnn_plus")
    edge, cloud = where("jalad", "all_edge"), where("jalad", "all_cloud")
    swept = total_s["edge_cloud_mbps"].to_list()
    holds = same == swept == sorted({*edge, *cloud}) and edge[:1] == swept[:1] and bool(cloud)
    detail = f"equal at {len(same)} of {len(swept)} bandwidths, All-Edge at {len(edge)} of them"
    return Answer(holds, detail)


def _total_s(frame: pl.DataFrame) -> pl.DataFrame:
    """Seconds of an iteration, a row per bandwidth and a column per planner."""
    return frame.pivot(on="planner", index="edge_cloud_mbps", values="total_s").sort(
        "edge_cloud_mbps"
    )


def _side_by_side(naive: pl.DataFrame, rivals: pl.DataFrame) -> pl.DataFrame:
    return _total_s(naive).join(_total_s(rivals), on="edge_cloud_mbps", suffix="_again")


def _bandwidths(total_s: pl.DataFrame, where: pl.Expr) -> list[float]:
    return total_s.filter(where)["edge_cloud_mbps"].to_list()


def _low_and_high(total_s: pl.DataFrame) -> tuple[list[float], list[float]]:
    low = pl.col("edge_cloud_mbps") <= LOW_MBPS
    return _bandwidths(total_s, low), _bandwidths(total_s, ~low)


def _listed(bandwidths_mbps: Sequence[float]) -> str:
    return ", ".join(f"{mbps:g}" for mbps in bandwidths_mbps) or "no"


def _figure(
    name: str, model: str, planners: Sequence[str], causes: Mapping[str, str] = MappingProxyType({})
) -> Figure:
    """Planners on a model, as the paper names it; with the speed-ups, where the naive are there.

    `causes` say by planner why the speed-up over it is missed.
    """
    claim = f"hiertrain.{name}.{model}"
    return Figure(
        id=name,
        compute=partial(iterations, MODELS[model], planners),
        chart=draw_planners,
        answers={
            f"{claim}.{planner}": partial(_speedup, planner)
            for planner in NAIVE[1:]
            if planner in planners
        },
        causes={f"{claim}.{planner}": Cause("paper", why) for planner, why in causes.items()},
        at_paper=at(model=MODELS[model], **PAPER),
    )


FIG7 = _figure(
    "fig7",
    "alexnet",
    NAIVE,
    {
        "all_cloud": "JALAD below HierTrain at 1.5 Mbit/s needs C / H below C / J, at most "
        "5 / 1.5 = 3.33, where the speed-up is 4.5"
    },
)
FIG8 = _figure(
    "fig8",
    "lenet5",
    NAIVE,
    {
        "all_cloud": "with the speed-up over All-Edge C(1.5) / E is at least 6.9 / 1.7 = 4.06; "
        "samples alone allow 5 / 1.5 = 3.33, and the edge computes longer than the cloud"
    },
)
FIG9 = replace(
    _figure("fig9", "alexnet", RIVALS), answers={"hiertrain.fig9.jalad_at_low": _jalad_at_low}
)
FIG10 = _figure("fig10", "lenet5", RIVALS)

# Causes name seconds as `constants.contradictions`, which derives their numbers, does.
FIGURES = (
    FIG7,
    FIG8,
    JointClaims((FIG7, FIG8), {"hiertrain.fig7.order": _falls_flat_least}),
    FIG9,
    FIG10,
    JointClaims((FIG9, FIG10), {"hiertrain.fig9.order_jointdnn": _below_jointdnn}),
    JointClaims(
        (FIG7, FIG9),
        {"hiertrain.fig9.plus_at_low": _plus_at_low},
        {
            "hiertrain.fig9.plus_at_low": Cause(
                "paper",
                "with the speed-ups over All-Edge and All-Cloud C(1.5) / C(2.5) is at least "
                "4.5 / 2.3 = 1.96; the model allows 2.5 / 1.5 = 1.67",
            )
        },
    ),
    JointClaims((FIG8, FIG10), {"hiertrain.fig10.jalad": _jalad_overlaps}),
)
