"""What the stored results say to each of the paper's claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import polars as pl

from workbench.claims import Answer, tolerance
from workbench.hiertrain.paper.testbed import (
    BATCH_SIZE,
    CORES,
    DEVICE_EDGE_MBPS,
    EDGE_CLOUD_MBPS,
    MODELS,
)

SAME = 1 + 1e-9  # equal times of two policies are sums in another order
NONE_PERCENT = tolerance("percent", 0.0)
"""A gain this near to none is none, as for every number of percent that the scorecard judges."""

LOW_MBPS = 2.0  # "as low as 1.5 Mbps or 2 Mbps"
FEW_MBPS, ENOUGH_MBPS = 1.5, 3.0  # "very low (<= 1.5 Mbps)", "sufficiently large (>= 3 Mbps)"


def answers(frames: Mapping[str, pl.DataFrame]) -> dict[str, Answer]:
    """Answer every claim that the frames allow.

    Parameters
    ----------
    frames
        What ``02_hiertrain`` stored: `fig6` to `fig11`, `table2`.
    """
    return dict(_answers({name: _at_paper_setting(name, frame) for name, frame in frames.items()}))


# What each figure is about beside the testbed; Figs. 6 to 10 sweep all bandwidths.
_MODEL = {
    "fig6": "alexnet",
    "fig7": "alexnet",
    "fig8": "lenet5",
    "fig9": "alexnet",
    "fig10": "lenet5",
    "fig11": "alexnet",
}
_SETTING = {
    "batch_size": BATCH_SIZE,
    "device_edge_mbps": DEVICE_EDGE_MBPS,
    "edge_cores": 1,
    "devices": 1,
}


def _at_paper_setting(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of a figure at the setting that the paper's claims on it are about; none if not all."""
    if name == "table2":
        return frame.filter(batch_size=BATCH_SIZE)
    if name not in _MODEL:
        return frame
    setting = _SETTING | {"model": MODELS[_MODEL[name]]}
    if name == "fig11":
        del setting["edge_cores"]
    rows = frame.filter(
        pl.col("edge_cloud_mbps").is_in(EDGE_CLOUD_MBPS),
        **setting,
    )
    whole = set(rows["edge_cloud_mbps"]) == set(EDGE_CLOUD_MBPS)
    if name == "fig11":
        whole &= set(rows["edge_cores"]) == set(range(1, CORES + 1))
    return rows if whole else frame.clear()


def _answers(frames: Mapping[str, pl.DataFrame]) -> Iterator[tuple[str, Answer]]:
    given = {name: frame for name, frame in frames.items() if len(frame)}
    for needed, answer in _BY_FIGURES.items():
        if set(needed) <= set(given):
            yield from answer(*(given[name] for name in needed))


def speedups(frame: pl.DataFrame, figure: str, model: str) -> Iterator[tuple[str, Answer]]:
    """Largest speed-up of HierTrain over All-Edge and All-Cloud (Figs. 7, 8)."""
    total_s = by_bandwidth(frame)
    for planner in ("all_edge", "all_cloud"):
        speedup = total_s.select("edge_cloud_mbps", x=pl.col(planner) / pl.col("hiertrain")).sort(
            "x"
        )
        mbps, x = speedup.row(-1)
        detail = f"{figure}: cost model, at {mbps:g} Mbit/s"
        yield f"hiertrain.{figure}.{model}.{planner}", Answer(x, detail)


def falls_flat_least(*figures: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    """All-Cloud falls with bandwidth, All-Edge is flat, HierTrain above neither (Figs. 7, 8)."""
    wrong = []
    for frame in figures:
        model, total_s = frame["model"][0], by_bandwidth(frame)
        if not (total_s["all_cloud"].diff().drop_nulls() < 0).all():
            wrong.append(f"all_cloud does not fall on {model}")
        if total_s["all_edge"].max() > total_s["all_edge"].min() * SAME:  # type: ignore[operator]
            wrong.append(f"all_edge is not flat on {model}")
        least_s = pl.min_horizontal("all_edge", "all_cloud") * SAME
        if len(total_s.filter(pl.col("hiertrain") > least_s)):
            wrong.append(f"hiertrain is above one of them on {model}")
    detail = "; ".join(wrong) or "figs. 7 and 8: at every bandwidth, both models"
    yield "hiertrain.fig7.order", Answer(not wrong, detail)


def below_jointdnn(*figures: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    """HierTrain below JointDNN+, and that not above JointDNN (Figs. 9, 10)."""
    total_s = pl.concat([by_bandwidth(frame) for frame in figures])
    wrong = total_s.filter(
        (pl.col("hiertrain") * SAME >= pl.col("jointdnn_plus"))
        | (pl.col("jointdnn_plus") > pl.col("jointdnn") * SAME)
    )
    detail = f"figs. 9 and 10: at {len(total_s) - len(wrong)} of {len(total_s)} points"
    yield "hiertrain.fig9.order_jointdnn", Answer(wrong.is_empty(), detail)


def plus_at_low(fig7: pl.DataFrame, fig9: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    """JointDNN+ below JointDNN at low bandwidth; above, both train in the cloud (Fig. 9)."""
    total_s = by_bandwidth(fig7).join(by_bandwidth(fig9), on="edge_cloud_mbps", suffix="_again")
    below = _bandwidths(total_s, pl.col("jointdnn_plus") * SAME < pl.col("jointdnn"))
    in_cloud = pl.all_horizontal(
        pl.col(planner) <= pl.col("all_cloud") * SAME for planner in ("jointdnn", "jointdnn_plus")
    ) & (pl.col("all_cloud") <= pl.col("jointdnn_plus") * SAME)
    equal = _bandwidths(total_s, in_cloud)
    low, high = _low_and_high(total_s)
    detail = f"fig9: below at {_listed(below)} Mbit/s, both in the cloud at {_listed(equal)}"
    yield "hiertrain.fig9.plus_at_low", Answer(below == low and equal == high, detail)


def jalad_at_low(fig9: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    """JALAD below HierTrain at low bandwidth and above it at higher (Fig. 9)."""
    total_s = by_bandwidth(fig9)
    below = _bandwidths(total_s, pl.col("jalad") * SAME < pl.col("hiertrain"))
    low, _ = _low_and_high(total_s)
    detail = f"fig9: below at {_listed(below)} Mbit/s"
    yield "hiertrain.fig9.jalad_at_low", Answer(below == low, detail)


def jalad_overlaps(fig8: pl.DataFrame, fig10: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    """JALAD equals JointDNN+: All-Edge at low bandwidth, All-Cloud at high (Fig. 10)."""
    total_s = by_bandwidth(fig8).join(by_bandwidth(fig10), on="edge_cloud_mbps", suffix="_again")

    def where(one: str, other: str) -> list[float]:
        low_s, high_s = pl.min_horizontal(one, other), pl.max_horizontal(one, other)
        return _bandwidths(total_s, high_s <= low_s * SAME)

    same = where("jalad", "jointdnn_plus")
    edge, cloud = where("jalad", "all_edge"), where("jalad", "all_cloud")
    swept = total_s["edge_cloud_mbps"].to_list()
    holds = same == swept == sorted({*edge, *cloud}) and edge[:1] == swept[:1] and bool(cloud)
    detail = (
        f"fig10: equal at {len(same)} of {len(swept)} bandwidths; "
        f"all_edge at {_listed(edge)}, all_cloud at {_listed(cloud)} Mbit/s"
    )
    yield "hiertrain.fig10.jalad", Answer(holds, detail)


def cores(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    """More cores help at low bandwidth, the first most; at higher they do not (Fig. 11).

    At higher bandwidth it is the total gain, from 1 core to all, that has to be none.
    """
    few = frame.filter(pl.col("edge_cloud_mbps") <= FEW_MBPS)
    by_count = {
        count: few.filter(edge_cores=count)["gain_percent"] for count in range(2, CORES + 1)
    }
    most = _total_gains(frame.filter(pl.col("edge_cloud_mbps") >= ENOUGH_MBPS))[-1]
    first, last = (float(by_count[count].min()) for count in (2, CORES))  # type: ignore[arg-type]
    holds = first > NONE_PERCENT and bool((by_count[2] > by_count[CORES]).all())
    detail = (
        f"fig11: {first:.1f} % from 1 to 2, {last:.1f} % from {CORES - 1} to {CORES}, "
        f"{_total_gains(few)[0]:.1f} % from 1 to {CORES} at {FEW_MBPS:g} Mbit/s; from 1 to {CORES} "
        f"at most {most:.1f} % at {ENOUGH_MBPS:g} and above (none: up to {NONE_PERCENT:g} %)"
    )
    yield "hiertrain.fig11.cores", Answer(holds and most <= NONE_PERCENT, detail)


def _total_gains(frame: pl.DataFrame) -> list[float]:
    """Percent of the iteration that all cores save over one, the least of all bandwidths first."""
    total_s = frame.pivot(on="edge_cores", index="edge_cloud_mbps", values="total_s")
    gains: list[float] = (100 * (1 - total_s[str(CORES)] / total_s["1"])).sort().to_list()
    return gains


def validity(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    """Simulated iteration of HierTrain's policy over the cost model's, where they differ most."""
    apart, shared = (
        frame.filter(planner="hiertrain", sharing=sharing)
        .sort(pl.col("difference_percent").abs())
        .row(-1, named=True)
        for sharing in ("none", "interfaces")
    )
    detail = (
        "fig6: simulated, a link for every pair; the largest difference of all bandwidths, at "
        f"{apart['edge_cloud_mbps']:g} Mbit/s; with shared interfaces "
        f"{shared['difference_percent']:+.1f} %"
    )
    yield "hiertrain.fig6.validity", Answer(apart["difference_percent"], detail)


_TABLE2 = {
    MODELS["lenet5"]: "lenet5",
    MODELS["alexnet"]: "alexnet",
    "vgg16": "vgg16",
    "vgg19": "vgg19",
    "googlenet": "googlenet",
    "resnet34": "resnet34",
}


def running_time(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    """Time to plan, by model (Table II)."""
    for model, layers, batch_size, median_ms in frame.select(
        "model", "layers", "batch_size", "median_ms"
    ).iter_rows():
        if model in _TABLE2:
            detail = (
                f"table2: {median_ms:.1f} ms, {layers} layers, batch {batch_size}: our exact "
                "search, not the paper's programmes, timed on this machine"
            )
            yield f"hiertrain.table2.{_TABLE2[model]}", Answer(median_ms / 1e3, detail)


def by_bandwidth(frame: pl.DataFrame) -> pl.DataFrame:
    """Seconds of an iteration, a row per bandwidth and a column per planner."""
    return frame.pivot(on="planner", index="edge_cloud_mbps", values="total_s").sort(
        "edge_cloud_mbps"
    )


def _bandwidths(total_s: pl.DataFrame, where: pl.Expr) -> list[float]:
    return total_s.filter(where)["edge_cloud_mbps"].to_list()


def _low_and_high(total_s: pl.DataFrame) -> tuple[list[float], list[float]]:
    low = pl.col("edge_cloud_mbps") <= LOW_MBPS
    return _bandwidths(total_s, low), _bandwidths(total_s, ~low)


def _listed(bandwidths_mbps: Sequence[float]) -> str:
    return ", ".join(f"{mbps:g}" for mbps in bandwidths_mbps) or "no"


_BY_FIGURES: dict[tuple[str, ...], Callable[..., Iterator[tuple[str, Answer]]]] = {
    ("fig6",): validity,
    ("fig7",): lambda frame: speedups(frame, "fig7", "alexnet"),
    ("fig8",): lambda frame: speedups(frame, "fig8", "lenet5"),
    ("fig7", "fig8"): falls_flat_least,
    ("fig9", "fig10"): below_jointdnn,
    ("fig7", "fig9"): plus_at_low,
    ("fig9",): jalad_at_low,
    ("fig8", "fig10"): jalad_overlaps,
    ("fig11",): cores,
    ("table2",): running_time,
}
