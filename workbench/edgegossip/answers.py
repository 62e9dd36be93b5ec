"""What the stored results say to each of the paper's claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from statistics import fmean

import polars as pl

from workbench.claims import Answer
from workbench.claims.rule import tolerance
from workbench.edgegossip.calibration import EPOCHS, MODELS
from workbench.edgegossip.experiments import IMBALANCES, RATIOS
from workbench.edgegossip.testbed import UPLINK_MBPS
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
    detail = (
        f"fig6: cost model, mean of {len(at_paper)} settings from {min(gains):.2f} to "
        f"{max(gains):.2f}, {EPOCHS} epochs each"
    )
    yield "edgegossip.speedup", Answer(fmean(gains), detail)
    lenet5 = at_paper.filter(model="lenet5").select("platforms", lenet5="speedup")
    others = at_paper.filter(pl.col("model") != "lenet5").join(lenet5, on="platforms")
    wrong = others.filter(pl.col("speedup") <= pl.col("lenet5"))
    small, large = lenet5["lenet5"].to_list(), others["speedup"].to_list()
    detail = (
        f"fig6: LeNet-5 {min(small):.2f} to {max(small):.2f}, the others at least "
        f"{min(large):.2f} (cost model)"
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
    cases = table(frame, "model", "technique")
    allowed = tolerance("percentage points", 0.0)
    wrong = cases.filter((pl.col("speedup") <= 1) | (pl.col("lost_points").abs() > allowed))
    worst = cases.sort(pl.col("lost_points").abs()).row(-1, named=True)
    slowest = cases.sort("speedup").row(0, named=True)
    detail = (
        f"fig5: of {len(cases)} cases {len(wrong)} not faster or more than {allowed:g} points "
        f"apart; at most {worst['lost_points']:+.2f} points lost ({worst['model']}, "
        f"{worst['technique']}), least speed-up {slowest['speedup']:.2f} ({slowest['model']}); "
        f"{_learnt(frame)}"
    )
    yield claim, Answer(wrong.is_empty(), detail)


def _fig3(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    total_s = dict(frame.group_by("technique").agg(pl.col("total_s").median()).iter_rows())
    if len(total_s) == 8:
        fast_s = max(seconds for name, seconds in total_s.items() if name not in _SLOW)
        told = ", ".join(f"{name} {total_s[name] / fast_s:.1f}" for name in _SLOW)
        detail = f"fig3: over the slowest of the other four, timed on this machine: {told}"
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
        f"{100 * lowest['spread']:.1f} points); {frame['learner'][0]} on {frame['dataset'][0]}"
    )
    yield claim, Answer(lowest["technique"] == "histogram_kmeans", detail)


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
    detail = (
        f"fig7: k-means takes {100 * min(share):.0f} to {100 * max(share):.0f} %; time "
        f"{'falls' if falls else 'does not always fall'} as the ratio grows; timed on this machine"
    )
    yield "edgegossip.fig7.kmeans_dominates", Answer(min(share) > 0.5 and falls, detail)
    of_isvd = parts.filter(technique=_ISVD)
    share = (of_isvd["reduce_s"] / of_isvd["total_s"]).to_list()
    detail = f"fig7: {100 * min(share):.0f} to {100 * max(share):.0f} %, timed on this machine"
    yield "edgegossip.fig7.isvd_dominates", Answer(min(share) > 0.5, detail)


def _fig8(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    for claim, model in (("lenet5", MODELS[0]), ("alexnet", MODELS[1])):
        of_model = frame.filter(model=model).sort("ratio")
        percents = {
            kind: fmean(of_model.filter(kind=kind)["percent"]) for kind in ("all", "CPU", "GPU")
        }
        detail = (
            f"fig8: cost model, mean of ratios {', '.join(f'{ratio:g}' for ratio in RATIOS)}; "
            f"CPU platforms {percents['CPU']:.1f}, GPU platforms {percents['GPU']:.1f} %"
        )
        yield f"edgegossip.fig8.{claim}", Answer(percents["all"], detail)
    products = frame.filter(kind="all").with_columns(product=pl.col("ranking_s") * pl.col("ratio"))
    spread = max(
        max(of_model) / min(of_model) - 1
        for _, part in products.group_by("model")
        for of_model in [part["product"].to_list()]
    )
    detail = f"fig8: seconds times ratio differ by at most {100 * spread:.1f} % (co-runners)"
    yield "edgegossip.fig8.inverse", Answer(spread <= 0.1, detail)


def _fig9(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    source = frame["source"][0]
    by_job = frame.group_by("workload").agg(pl.col("mean_percent").mean()).sort("workload")
    told = ", ".join(f"{name} {percent:.1f} %" for name, percent in by_job.iter_rows())
    detail = f"fig9: {told}; samples {source} on one machine, the size held out"
    yield "edgegossip.fig9.error", Answer(fmean(frame["mean_percent"]), detail)
    halves = frame.with_columns(
        large=pl.col("size_bytes") > pl.col("size_bytes").median().over("workload")
    )
    means = dict(halves.group_by("large").agg(pl.col("mean_percent").mean()).iter_rows())
    detail = (
        f"fig9: {means[False]:.1f} % over the smaller sizes, {means[True]:.1f} % over the larger; "
        f"samples {source}"
    )
    yield "edgegossip.fig9.trend", Answer(means[True] >= means[False], detail)


def _fig11(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    means = frame.group_by("part").agg(pl.col("mean_s").max()).sort("part")
    told = ", ".join(f"{part} {1e3 * seconds:.2f} ms" for part, seconds in means.iter_rows())
    detail = f"fig11: {told} at most, {frame['source'][0]} on one machine"
    yield "edgegossip.fig11.overhead", Answer(float(max(means["mean_s"])), detail)


def _fig12(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    claim, missing = "edgegossip.fig12.unbalance", _enough(frame)
    if missing is not None:
        yield claim, missing
        return
    found = (
        final(frame)
        .group_by("imbalance")
        .agg(pl.col("gosgd_s", "at_s", "lost_points").mean())
        .sort("imbalance")
    )
    if found["imbalance"].to_list() != list(IMBALANCES):
        return
    plain_s, ours_s = found["gosgd_s"].to_list(), found["at_s"].to_list()
    lost = found["lost_points"].to_list()
    flat = tolerance("x", 1.0)
    holds = (
        plain_s[0] < plain_s[1] < plain_s[2]
        and ours_s[2] <= ours_s[1] * (1 + flat)
        and lost[0] < min(lost[1:])
    )
    detail = (
        f"fig12 at 1, 3, 5: GoSGD {_row(plain_s, '.0f')} s, EdgeGossip {_row(ours_s, '.0f')} s "
        f"(flat: at most {100 * flat:.0f} % more at 5 than at 3), {_row(lost, '+.2f')} points "
        f"lost; {_learnt(frame)}"
    )
    yield claim, Answer(holds, detail)


def _fig13(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    claim, missing = "edgegossip.fig13.ratio", _enough(frame)
    if missing is not None:
        yield claim, missing
        return
    found = (
        final(frame)
        .group_by("ratio")
        .agg(pl.col("top1").mean(), pl.col("at_s").mean(), spread=pl.col("top1").std())
        .sort("ratio")
    )
    if found["ratio"].to_list() != list(RATIOS):
        return
    percents, seconds = [100 * value for value in found["top1"]], found["at_s"].to_list()
    spread = 100 * max(found["spread"])
    detail = (
        f"fig13 at 5, 10, 20: {_row(percents, '.2f')} % (spread up to {spread:.2f} points), "
        f"{_row(seconds, '.1f')} s; {_learnt(frame)}"
    )
    holds = percents[2] <= percents[0] and seconds[2] < seconds[0]
    yield claim, Answer(holds, detail)


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
