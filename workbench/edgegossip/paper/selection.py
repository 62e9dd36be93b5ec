"""What Algorithm 2's ranking is worth, beside other ways to choose samples.

The paper compares it with none; its text says that it keeps what matters most to accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import altair as alt
import polars as pl

from workbench.edgegossip.algorithms import STRATEGIES
from workbench.edgegossip.paper.cases import Case
from workbench.edgegossip.paper.testbed import MODELS
from workbench.edgegossip.paper.titles import learnt_title, lines, means, spread
from workbench.edgegossip.paper.trainings import (
    SIMILAR,
    SLIGHT,
    Mean,
    final,
    learnt_data,
    of_enough_seeds,
    seconds_until,
    trainings,
)
from workbench.reproduction.claims import Answer, Cause
from workbench.reproduction.figure import Figure


def strategies(
    scale: str,
    seed: int = 1,
    dataset: str = "auto",
    *,
    seeds: int | None = None,
    processes: int | None = None,
    folder: Path | None = None,
) -> pl.DataFrame:
    """Strategies to choose samples, by LeNet-5 on MobileNet-v2's times; columns as in `fig5`.

    The paper's ranking beside choosing at random or by each point's own loss, and learning in the
    order of the ranking.
    """
    case = Case(MODELS[3], learner=MODELS[0])
    cases = [case._replace(strategy=name) for name in STRATEGIES]
    cases.append(case._replace(order="ranked"))
    return trainings(
        "Strategies",
        cases,
        scale,
        seed=seed,
        dataset=dataset,
        seeds=seeds,
        processes=processes,
        folder=folder,
    )


STRATEGY_TITLES = {
    "accuracy_aware": "accuracy-aware",
    "importance": "importance sampling",
    "random_subsets": "random subsets",
    "random_points": "random points",
}

RANKED = "accuracy-aware, ranked"


def draw_strategies(frame: pl.DataFrame) -> alt.LayerChart:
    """Accuracy against training time, by how samples are chosen."""
    named = (
        pl.when(method="gosgd")
        .then(pl.lit("GoSGD: all"))
        .when(order="ranked")
        .then(pl.lit(RANKED))
        .otherwise(pl.col("strategy").replace_strict(STRATEGY_TITLES, default=None))
    )
    drawn = means(frame.with_columns(series=named), "series")
    names = ["GoSGD: all", *STRATEGY_TITLES.values(), RANKED]
    title = learnt_title(frame, "Ways to choose samples, over the same epochs")
    curves = lines(drawn, names).properties(height=200)
    return alt.LayerChart(layer=[spread(drawn), curves], title=title)


ACCURACIES_PERCENT = (95, 97, 98)
"""Accuracies until which seconds are compared."""


@of_enough_seeds
def _important(strategies: pl.DataFrame) -> Answer:
    """Whether points chosen by the ranking teach as fast as as many random ones."""
    seconds = {
        strategy or "gosgd": at_s
        for _, strategy, order, *at_s in seconds_until(strategies, ACCURACIES_PERCENT).rows()
        if order != "ranked"
    }
    ranked, random = seconds["accuracy_aware"], seconds["random_points"]
    reached = [both for both in zip(ranked, random, strict=True) if None not in both]
    if not reached:
        return Answer(not_run="ranked and random points do not both reach any of the accuracies")
    times = [slow_s / fast_s for slow_s, fast_s in reached]
    others = {"random": random, "subsets": seconds["random_subsets"], "GoSGD": seconds["gosgd"]}
    detail = (
        f"{min(times):.1f} to {max(times):.1f} times as long as random points: {_listed(ranked)} s "
        f"until {'/'.join(map(str, ACCURACIES_PERCENT))} % "
        f"({', '.join(f'{name} {_listed(at_s)}' for name, at_s in others.items())}); "
        f"{learnt_data(strategies)}"
    )
    return Answer(max(times) <= SIMILAR, detail)


def _listed(seconds: Sequence[float | None]) -> str:
    return "/".join("never" if each is None else f"{each:.0f}" for each in seconds)


@of_enough_seeds
def _literal(strategies: pl.DataFrame) -> Answer:
    """Whether batches in the order of the ranking get as accurate as GoSGD."""
    last = final(strategies).filter(order="ranked")
    lost = Mean.of(last["lost_points"].to_list())
    percent = 100 * fmean(last["top1"])
    detail = f"{percent:.1f} % at the end, {lost} points below GoSGD; {learnt_data(strategies)}"
    return Answer(lost.value <= SLIGHT, detail)


STRATEGIES_COMPARED = Figure(
    id="strategies",
    compute=strategies,
    chart=draw_strategies,
    answers={
        "edgegossip.alg2.important": _important,
        "edgegossip.alg2.literal": _literal,
    },
    causes={
        "edgegossip.alg2.important": Cause(
            "ours",
            "it is the ranking that slows: random subsets of the same aggregated points are nearly "
            "as fast as random points. The paper compares with neither; here LeNet-5 learns MNIST",
        ),
        "edgegossip.alg2.literal": Cause(
            "paper",
            "by Sec. 3.2 a subset holds one class, and Alg. 2 fills batches subset by subset, so "
            "that batches teach one class after the other",
        ),
    },
    needs_paper_size=True,
    recorded=True,
    data=("mnist",),
)
