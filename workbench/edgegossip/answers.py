"""What the stored results say to each of the paper's claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from statistics import fmean

import polars as pl

from workbench.claims import Answer
from workbench.claims.rule import tolerance
from workbench.edgegossip.calibration import EPOCHS, MODELS
from workbench.edgegossip.experiments import IMBALANCES, RATIOS, READINGS
from workbench.edgegossip.paired import Mean
from workbench.edgegossip.prediction_experiments import sizes_told
from workbench.edgegossip.testbed import POINTS, UPLINK_MBPS
from workbench.edgegossip.time_to_accuracy import BELOW_POINTS, seconds_to_accuracy
from workbench.edgegossip.trainings import final, table

SEEDS = 3
"""Fewer trainings say nothing about accuracy."""

_SLOW = ("svd_gaussian_mixture", "pca_kmeans", "pca_lsh", "whole_svd_lsh")
_KMEANS = ("svd_kmeans", "hash_kmeans")
_ISVD = "incremental_svd_lsh"


def answers(frames: Mapping[str, pl.DataFrame]) -> dict[str, Answer]:
    """Answer every claim that the frames allow.

    Parameters
    ----------
    frames
        What ``03_edgegossip`` stored: `fig3`, `fig5` to `fig9`, `fig6_accuracy`, `fig11` to
        `fig13`.
    """
    return dict(_answers(frames))


def _answers(frames: Mapping[str, pl.DataFrame]) -> Iterator[tuple[str, Answer]]:
    for name, answer_figure in _BY_FIGURE.items():
        if name in frames:
            yield from answer_figure(frames[name])
    if {"fig5", "fig6_accuracy"} <= set(frames):
        yield from _accuracy_loss(frames["fig5"], frames["fig6_accuracy"])


def _enough(frame: pl.DataFrame) -> Answer | None:
    """Why trainings say nothing, if they are too few."""
    if frame["seed"].n_unique() >= SEEDS:
        return None
    return Answer(not_run=f"trains with {SEEDS} seeds at default scale")


def _learnt(frame: pl.DataFrame) -> str:
    """What learnt what."""
    row, seeds = frame.row(0, named=True), frame["seed"].n_unique()
    pairs = frame.select("model", "learner").unique(maintain_order=True).iter_rows()
    who = ", ".join(
        learner if model == learner else f"{learner} for {model}" for model, learner in pairs
    )
    return f"{who} on {row['train_samples']} samples of {row['dataset']}, {seeds} seeds, simulated"


def _speedups(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    at_paper = frame.filter(uplink_mbps=UPLINK_MBPS, epochs=EPOCHS)
    if at_paper.is_empty():
        return
    gains = at_paper["speedup"].to_list()
    alexnet = at_paper.filter(model=MODELS[1]).sort("platforms")
    first, *_, last = alexnet.select("platforms", "speedup").iter_rows()
    detail = (
        f"fig6: cost model, mean of {len(at_paper)} settings from {min(gains):.2f} to "
        f"{max(gains):.2f}, {EPOCHS} epochs each; AlexNet's goes from {first[1]:.2f} on {first[0]} "
        f"platforms to {last[1]:.2f} on {last[0]}, where the paper has larger scale gain more"
    )
    yield "edgegossip.speedup", Answer(fmean(gains), detail)
    lenet5 = at_paper.filter(model="lenet5").select("platforms", lenet5="speedup")
    others = at_paper.filter(pl.col("model") != "lenet5").join(lenet5, on="platforms")
    wrong = others.filter(pl.col("speedup") <= pl.col("lenet5"))
    small, large = lenet5["lenet5"].to_list(), others["speedup"].to_list()
    detail = (
        f"fig6: LeNet-5 {min(small):.2f} to {max(small):.2f}, the others at least "
        f"{min(large):.2f} (cost model); here since most of its sample's time is the host's, the "
        "same on all platforms, in the paper since both methods get to 95 % early"
    )
    yield "edgegossip.fig6.lenet_smallest", Answer(wrong.is_empty(), detail)


def _accuracy_loss(fig5: pl.DataFrame, fig6: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    """Mean over models and deployments, of each the mean over techniques and seeds."""
    claim, both = "edgegossip.accuracy_loss", pl.concat([fig5, fig6])
    missing = _enough(both)
    if missing is not None:
        yield claim, missing
        return
    by_seed = (
        final(both)
        .group_by("model", "platforms", "seed")
        .agg(pl.col("lost_points").mean())
        .group_by("seed")
        .agg(pl.col("lost_points").mean())
    )["lost_points"]
    detail = (
        f"figs. 5 and 6: {by_seed.std():.2f} points of spread (one standard deviation); "
        f"{_learnt(both)}; batches shuffled"
    )
    yield claim, Answer(fmean(by_seed), detail)


def _fig5(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    claim, missing = "edgegossip.fig5.accuracy", _enough(frame)
    if missing is not None:
        yield claim, missing
        return
    near, wanted = tolerance("percentage points", 0.0), 1 + tolerance("x", 1.0)
    by = ("model", "technique")
    cases = table(frame, *by).join(_speedup_of_seeds(frame, *by), on=by, maintain_order="left")
    slow = cases.filter(pl.col("least") <= wanted)
    apart = cases.filter(pl.col("lost_points").abs() > near)
    worst = cases.sort(pl.col("lost_points").abs()).row(-1, named=True)
    told = ", ".join(
        f"{row['model']}, {row['technique']} (x {row['least']:.2f} to {row['most']:.2f})"
        for row in slow.iter_rows(named=True)
    )
    reached = "; ".join(
        f"{row['model']} {_seconds(row['edgegossip_s'])} against {_seconds(row['gosgd_s'])}"
        for row in seconds_to_accuracy(frame, "model").iter_rows(named=True)
    )
    detail = (
        f"fig5: of {len(cases)} cases {len(slow)} not faster by {100 * (wanted - 1):.0f} % in "
        f"every seed{f': {told}' if told else ''}; {len(apart)} more than {near:g} points apart, "
        f"at most {worst['lost_points']:+.2f} lost ({worst['model']}, {worst['technique']}); to "
        f"GoSGD's last accuracy less {BELOW_POINTS:g} points: {reached}; {_learnt(frame)}"
    )
    yield claim, Answer(slow.is_empty() and apart.is_empty(), detail)


def _speedup_of_seeds(frame: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Least and most speed-up of all seeds."""
    speedup = pl.col("speedup")
    return final(frame).group_by(*by).agg(least=speedup.min(), most=speedup.max())


def _seconds(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.0f} s"


def _fig3(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    total_s = dict(frame.group_by("technique").agg(pl.col("total_s").median()).iter_rows())
    if len(total_s) == 8:
        fast_s = max(seconds for name, seconds in total_s.items() if name not in _SLOW)
        told = ", ".join(f"{name} {total_s[name] / fast_s:.1f}" for name in _SLOW)
        detail = (
            "fig3: over the slowest of the other four, timed on this machine with "
            f"{_of_how_many(frame)}: {told}"
        )
        holds = all(total_s[name] > 10 * fast_s for name in _SLOW)
        yield "edgegossip.fig3.slow", Answer(holds, detail)
    claim, missing = "edgegossip.fig3.histogram", _enough(frame)
    if missing is not None:
        yield claim, missing
        return
    means = frame.group_by("technique").agg(pl.col("top1").mean(), spread=pl.col("top1").std())
    lowest, next_lowest = means.sort("top1").head(2).iter_rows(named=True)
    detail = (
        f"fig3: lowest {lowest['technique']} with {100 * lowest['top1']:.1f} %, then "
        f"{next_lowest['technique']} with {100 * next_lowest['top1']:.1f} % (spread "
        f"{100 * lowest['spread']:.1f} points); {frame['learner'][0]} from the aggregated points "
        f"of {_of_how_many(frame)}"
    )
    yield claim, Answer(lowest["technique"] == "histogram_kmeans", detail)


def _of_how_many(frame: pl.DataFrame) -> str:
    return (
        f"{frame['train_samples'][0]} points of {frame['dataset'][0]} (the paper: {POINTS} of "
        "CIFAR-10)"
    )


def _fig7(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    parts = frame.group_by("model", "technique", "ratio").agg(
        pl.col("reduce_s", "divide_s", "total_s").median()
    )
    of_kmeans = parts.filter(pl.col("technique").is_in(_KMEANS))
    share = (of_kmeans["divide_s"] / of_kmeans["total_s"]).to_list()
    falls = all(
        part.sort("ratio")["total_s"].diff().drop_nulls().lt(0).all()
        for _, part in of_kmeans.group_by("model", "technique")
    )
    sizes = frame.select("model", "points", "features", "dataset").unique(maintain_order=True)
    told = ", ".join(
        f"{points} points of {dataset}, {features} features, for {model}"
        for model, points, features, dataset in sizes.iter_rows()
    )
    where = f"timed on this machine with {told} (the paper: {POINTS})"
    detail = (
        f"fig7: k-means takes {100 * min(share):.0f} to {100 * max(share):.0f} %; time "
        f"{'falls' if falls else 'does not always fall'} as the ratio grows; {where}"
    )
    yield "edgegossip.fig7.kmeans_dominates", Answer(min(share) > 0.5 and falls, detail)
    of_isvd = parts.filter(technique=_ISVD)
    share = (of_isvd["reduce_s"] / of_isvd["total_s"]).to_list()
    detail = f"fig7: {100 * min(share):.0f} to {100 * max(share):.0f} %; {where}"
    yield "edgegossip.fig7.isvd_dominates", Answer(min(share) > 0.5, detail)


def _fig8(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    for claim, model in (("lenet5", MODELS[0]), ("alexnet", MODELS[1])):
        of_model = frame.filter(model=model)
        percents = {
            reading: fmean(of_model.filter(reading=reading)["percent"]) for reading in READINGS
        }
        others = ", ".join(f"{name} {percents[name]:.1f}" for name in READINGS[1:])
        detail = (
            f"fig8: cost model, mean of ratios {', '.join(f'{ratio:g}' for ratio in RATIOS)}, of "
            f"the {READINGS[0]} as Sec. 4.3 defines it; read otherwise: {others}"
        )
        yield f"edgegossip.fig8.{claim}", Answer(percents[READINGS[0]], detail)
    products = frame.filter(reading=READINGS[0]).with_columns(
        product=pl.col("ranking_s") * pl.col("ratio")
    )
    spread = max(
        max(of_model) / min(of_model) - 1
        for _, part in products.group_by("model")
        for of_model in [part["product"].to_list()]
    )
    detail = f"fig8: seconds times ratio differ by at most {100 * spread:.1f} % (co-runners)"
    yield "edgegossip.fig8.inverse", Answer(spread <= 0.1, detail)


def _fig9(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    # The paper's predictor changes t_0 with the machine, so its error is the one by t_0 followed.
    ours = "followed_mean_percent"
    by_job = frame.group_by("workload").agg(pl.col(ours).mean()).sort("workload")
    told = ", ".join(f"{name} {percent:.1f} %" for name, percent in by_job.iter_rows())
    detail = (
        f"fig9: {told} by t_0 that is followed; {fmean(frame['mean_percent']):.1f} % by t_0 as "
        f"fitted; blind to contention {fmean(frame['naive_mean_percent']):.1f} % (t_0 measured "
        f"alone) and {fmean(frame['naive_followed_mean_percent']):.1f} % (moving average); the "
        f"size held out; {_co_runners(frame)}"
    )
    yield "edgegossip.fig9.error", Answer(fmean(frame[ours]), detail)
    halves = frame.with_columns(
        large=pl.col("size_bytes") > pl.col("size_bytes").median().over("workload")
    )
    columns = (ours, "mean_percent", "naive_mean_percent")
    means = {row[0]: row[1:] for row in halves.group_by("large").agg(pl.col(columns).mean()).rows()}
    smaller, larger = means[False], means[True]
    detail = (
        f"fig9: {smaller[0]:.1f} % over the smaller sizes, {larger[0]:.1f} % over the larger; by "
        f"t_0 as fitted {smaller[1]:.1f} and {larger[1]:.1f} %, blind to contention "
        f"{smaller[2]:.1f} and {larger[2]:.1f} %; {_co_runners(frame)}"
    )
    yield "edgegossip.fig9.trend", Answer(larger[0] >= smaller[0], detail)


def _fig11(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    means = frame.group_by("part").agg(pl.col("mean_s").max()).sort("part")
    told = ", ".join(f"{part} {1e3 * seconds:.2f} ms" for part, seconds in means.iter_rows())
    detail = f"fig11: {told} at most; {_co_runners(frame)}"
    yield "edgegossip.fig11.overhead", Answer(float(max(means["mean_s"])), detail)


def _co_runners(frame: pl.DataFrame) -> str:
    """Beside which jobs, and where."""
    return f"{sizes_told(frame)}; samples {frame['source'][0]} on one machine"


def _fig12(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    claim, missing = "edgegossip.fig12.unbalance", _enough(frame)
    if missing is not None:
        yield claim, missing
        return
    found = [final(frame).filter(imbalance=factor).sort("seed") for factor in IMBALANCES]
    if any(one.is_empty() for one in found):
        return
    grows = all(
        (more["gosgd_s"] > less["gosgd_s"]).all() for less, more in pairwise(found)
    )  # in every seed
    plain_s, ours_s = ([_mean(one[name]) for one in found] for name in ("gosgd_s", "at_s"))
    flat, near = 1 + tolerance("x", 1.0), tolerance("percentage points", 0.0)
    spread = max(ours_s) / min(ours_s)
    lost = [Mean.of((one["lost_points"] - found[0]["lost_points"]).to_list()) for one in found[1:]]
    slightly = all(0 < one.value <= near for one in lost)
    detail = (
        f"fig12 at 1, 3, 5: GoSGD {_row(plain_s, '.0f')} s, {'' if grows else 'not '}growing in "
        f"every seed; EdgeGossip {_row(ours_s, '.0f')} s, the most {spread:.2f} times the least "
        f"(similar: at most {flat:g}); points more lost than at 1 (slightly: above 0, at most "
        f"{near:g}; mean and standard error of seeds): "
        f"{', '.join(f'{one}{_of_noise(one)}' for one in lost)}; {_learnt(frame)}"
    )
    if spread > flat:
        detail += "; " + _why_not_flat(found[0], found[-1])
    yield claim, Answer(grows and spread <= flat and slightly, detail)


def _why_not_flat(equal: pl.DataFrame, unequal: pl.DataFrame) -> str:
    """What EdgeGossip itself costs on slow platforms."""
    alone_s, slow_s = (_mean(one["aggregating_s"]) for one in (equal, unequal))
    few, many = (_mean(one["slowest_ranking_percent"]) for one in (equal, unequal))
    return (
        f"since a slow platform aggregates all its points ({slow_s:.0f} s once at 5, {alone_s:.0f} "
        f"s at 1) and ranks all aggregated ones ({many:.0f} % of its time at work, {few:.0f} % at "
        "1), which the balancer does not know of"
    )


def _fig13(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    claim, missing = "edgegossip.fig13.ratio", _enough(frame)
    if missing is not None:
        yield claim, missing
        return
    found = [final(frame).filter(ratio=ratio).sort("seed") for ratio in RATIOS]
    if any(one.is_empty() for one in found):
        return
    percents = [100 * _mean(one["top1"]) for one in found]
    ranking_s = [_mean(one["ranking_s"]) for one in found]
    less = all(more < fewer for fewer, more in pairwise(ranking_s))
    cost = Mean.of((100 * (found[0]["top1"] - found[-1]["top1"])).to_list())
    near = tolerance("percentage points", 0.0)
    detail = (
        f"fig13 at 5, 10, 20: {_row(percents, '.2f')} %, points less at 20 than at 5 (slightly: "
        f"from 0 to {near:g}; mean and standard error of seeds): {cost}{_of_noise(cost)}; ranking "
        f"{_row(ranking_s, '.3f')} s an epoch; {_learnt(frame)}"
    )
    # Sums of equal accuracies may differ in their last bits; a tie is no more accurate.
    yield claim, Answer(less and -_ROUNDING <= cost.value <= near, detail)


_ROUNDING = 1e-9


def _of_noise(cost: Mean) -> str:
    if abs(cost.value) <= _ROUNDING:
        return " (a tie)"
    return " (within noise)" if cost.within_noise else ""


def _mean(values: pl.Series) -> float:
    return fmean(values.to_list())


def _row(values: list[float], form: str) -> str:
    return ", ".join(format(value, form) for value in values)


_BY_FIGURE: dict[str, Callable[[pl.DataFrame], Iterator[tuple[str, Answer]]]] = {
    "fig3": _fig3,
    "fig5": _fig5,
    "fig6": _speedups,
    "fig7": _fig7,
    "fig8": _fig8,
    "fig9": _fig9,
    "fig11": _fig11,
    "fig12": _fig12,
    "fig13": _fig13,
}
