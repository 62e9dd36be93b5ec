"""What trainings say to the paper's claims: each method's accuracy and time, seed by seed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from statistics import fmean

import polars as pl

from workbench.claims import Answer
from workbench.claims.rule import tolerance
from workbench.edgegossip.costs.course import total_s
from workbench.edgegossip.paper.calibration import EPOCHS, paper_value, settings
from workbench.edgegossip.paper.experiments import IMBALANCES, RATIOS, unequal
from workbench.edgegossip.paper.paired import Mean
from workbench.edgegossip.paper.simulations import deployed
from workbench.edgegossip.paper.time_to_accuracy import BELOW_POINTS, seconds_to_accuracy
from workbench.edgegossip.paper.trainings import final, table

SEEDS = 3
"""Fewer trainings say nothing about accuracy."""


def enough(frame: pl.DataFrame) -> Answer | None:
    """Why trainings say nothing, if they are too few."""
    if frame["seed"].n_unique() >= SEEDS:
        return None
    return Answer(not_run=f"trains with {SEEDS} seeds at default scale")


def learnt(frame: pl.DataFrame) -> str:
    """What learnt what."""
    row, seeds = frame.row(0, named=True), frame["seed"].n_unique()
    pairs = frame.select("model", "learner").unique(maintain_order=True).iter_rows()
    who = ", ".join(
        learner if model == learner else f"{learner} for {model}" for model, learner in pairs
    )
    return f"{who} on {row['train_samples']} samples of {row['dataset']}, {seeds} seeds, simulated"


def accuracy_loss(first: pl.DataFrame, larger: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    """Mean over models and deployments, of each the mean over techniques and seeds."""
    claim, both = "edgegossip.accuracy_loss", pl.concat([first, larger])
    missing = enough(both)
    if missing is not None:
        yield claim, missing
        return
    found = final(both)
    by_seed = (
        found.group_by("model", "platforms", "seed", maintain_order=True)
        .agg(pl.col("lost_points").mean())
        .group_by("seed", maintain_order=True)
        .agg(pl.col("lost_points").mean())
    )["lost_points"]
    lost, bar = Mean.of(by_seed.to_list()), paper_value(claim)
    near = lost.error is not None and abs(bar - lost.value) < lost.error
    samples = min(both["test_samples"])
    detail = (
        f"figs. 5 and 6: {lost} points (mean and standard error of seeds)"
        f"{f', the bar of {bar:g} within the error' if near else ''}; {_settings(found)}; one of "
        f"{samples} test samples is {100 / samples:.2f} points; {learnt(both)}; batches shuffled"
    )
    yield claim, Answer(lost.value, detail)


def _settings(found: pl.DataFrame) -> str:
    """How many of the paper's settings these are, which, and in how many one learner learns."""
    made = found.select("model", "platforms", "learner").unique(maintain_order=True)
    where = "; ".join(
        f"{', '.join(part['model'])} on {platforms} platforms"
        for (platforms,), part in made.group_by("platforms", maintain_order=True)
    )
    learners = made["learner"].to_list()
    learner = max(learners, key=learners.count)
    return (
        f"{len(made)} of the paper's {len(list(settings()))} settings ({where}), {learner} "
        f"learning in {learners.count(learner)} of them"
    )


def fig5(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    """As accurate in much less time: in every seed, and to an accuracy."""
    claim, missing = "edgegossip.fig5.accuracy", enough(frame)
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
        f"GoSGD's last accuracy less {BELOW_POINTS:g} points: {reached}; {learnt(frame)}"
    )
    yield claim, Answer(slow.is_empty() and apart.is_empty(), detail)


def _speedup_of_seeds(frame: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Least and most speed-up of all seeds."""
    speedup = pl.col("speedup")
    return final(frame).group_by(*by).agg(least=speedup.min(), most=speedup.max())


def _seconds(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.0f} s"


def fig12(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    """Time and accuracy, the more unequal the platforms are."""
    claim, missing = "edgegossip.fig12.unbalance", enough(frame)
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
        f"in {max(frame['epoch'])} epochs (similar: at most {flat:g}; by the cost model "
        f"{_spread_by_costs(found, EPOCHS):.2f} in {EPOCHS}); points more lost than at 1 "
        f"(slightly: above 0, at most {near:g}; mean and standard error of seeds): "
        f"{', '.join(f'{one}{of_noise(one)}' for one in lost)}; {learnt(frame)}"
    )
    if spread > flat:
        detail += "; " + _why_not_flat(found[0], found[-1])
    yield claim, Answer(grows and spread <= flat and slightly, detail)


def _spread_by_costs(found: list[pl.DataFrame], epochs: int) -> float:
    """Most over least of EdgeGossip's mean seconds at the imbalances, had it learnt so long."""
    mean_s = []
    for of_factor in found:
        ends_s = []
        known = of_factor.select("imbalance", "seed", "train_samples")
        for factor, seed, points in known.iter_rows():
            case = unequal(factor, seed)
            deployment = deployed(case, points)
            adds = deployment.aggregating(case.technique, case.ratio)
            ends_s.append(total_s(deployment.course(epochs, adds)))
        mean_s.append(fmean(ends_s))
    return max(mean_s) / min(mean_s)


def _why_not_flat(equal: pl.DataFrame, unequal: pl.DataFrame) -> str:
    """What EdgeGossip itself costs on slow platforms."""
    alone_s, slow_s = (_mean(one["aggregating_s"]) for one in (equal, unequal))
    few, many = (_mean(one["slowest_ranking_percent"]) for one in (equal, unequal))
    return (
        f"since a slow platform aggregates all its points ({slow_s:.0f} s once at 5, {alone_s:.0f} "
        f"s at 1) and ranks all aggregated ones ({many:.0f} % of its time at work, {few:.0f} % at "
        "1), which the balancer does not know of"
    )


def fig13(frame: pl.DataFrame) -> Iterator[tuple[str, Answer]]:
    """Accuracy and time of ranking, and time in all, by aggregation ratio."""
    claim, missing = "edgegossip.fig13.ratio", enough(frame)
    if missing is not None:
        yield claim, missing
        return
    found = [final(frame).filter(ratio=ratio).sort("seed") for ratio in RATIOS]
    if any(one.is_empty() for one in found):
        return
    percents = [100 * _mean(one["top1"]) for one in found]
    ranking_s = [_mean(one["ranking_s"]) for one in found]
    all_s, speedups = ([_mean(one[name]) for one in found] for name in ("at_s", "speedup"))
    less = all(more < fewer for fewer, more in pairwise(ranking_s))
    cost = Mean.of((100 * (found[0]["top1"] - found[-1]["top1"])).to_list())
    near = tolerance("percentage points", 0.0)
    detail = (
        f"fig13 at 5, 10, 20: {_row(percents, '.2f')} %, points less at 20 than at 5 (slightly: "
        f"from 0 to {near:g}; mean and standard error of seeds): {cost}{of_noise(cost)}; ranking "
        f"{_row(ranking_s, '.3f')} s an epoch; in all {_row(all_s, '.1f')} s (the paper: hardly "
        f"any influence), x {_row(speedups, '.2f')} to GoSGD{_slower_at(speedups)}; "
        f"{learnt(frame)}"
    )
    # Sums of equal accuracies may differ in their last bits; a tie is no more accurate.
    yield claim, Answer(less and -_ROUNDING <= cost.value <= near, detail)


def _slower_at(speedups: list[float]) -> str:
    slower = [f"{ratio:g}" for ratio, one in zip(RATIOS, speedups, strict=True) if one < 1]
    return f", slower than it at {', '.join(slower)}" if slower else ""


_ROUNDING = 1e-9


def of_noise(cost: Mean) -> str:
    """Whether chance alone may have made a difference."""
    if abs(cost.value) <= _ROUNDING:
        return " (a tie)"
    return " (within noise)" if cost.within_noise else ""


def _mean(values: pl.Series) -> float:
    return fmean(values.to_list())


def _row(values: list[float], form: str) -> str:
    return ", ".join(format(value, form) for value in values)
