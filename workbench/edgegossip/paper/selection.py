"""What the ranking is worth: strategies to choose samples. Not in the paper."""

from __future__ import annotations

from pathlib import Path

import altair as alt
import polars as pl

from workbench.edgegossip.algorithms import STRATEGIES
from workbench.edgegossip.paper.cases import Case
from workbench.edgegossip.paper.testbed import MODELS
from workbench.edgegossip.paper.titles import learnt_title, lines, means, spread
from workbench.edgegossip.paper.trainings import trainings
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

    Not in the paper: its ranking beside choosing at random or by each point's own loss, and
    learning in the order of the ranking.
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


STRATEGIES_COMPARED = Figure(
    id="strategies",
    compute=strategies,
    chart=draw_strategies,
    recorded=True,
    data=("mnist",),
)
