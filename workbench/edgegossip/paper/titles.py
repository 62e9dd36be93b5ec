"""Titles of models, techniques and methods, and what charts of several modules share."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from workbench import datasets
from workbench.figures import parts

MODEL_TITLES = {
    "lenet5": "LeNet-5",
    "alexnet_cifar": "AlexNet",
    "squeezenet_cifar": "SqueezeNet",
    "mobilenet_v2_cifar": "MobileNet-v2",
}

LEARNER_TITLES = MODEL_TITLES | {"alexnet_small": "small AlexNet"}

TECHNIQUE_TITLES = {
    "svd_kmeans": "SVD + k-means",
    "incremental_svd_lsh": "incr. SVD + LSH",
    "hash_kmeans": "hash + k-means",
    "svd_gaussian_mixture": "SVD + mixture",
    "pca_kmeans": "PCA + k-means",
    "pca_lsh": "PCA + LSH",
    "whole_svd_lsh": "whole SVD + LSH",
    "histogram_kmeans": "histogr. + k-means",
}

METHOD_TITLES = {"gosgd": "GoSGD", "edgegossip": "EdgeGossip"}


def ratio_axis() -> alt.X:
    """Axis of aggregation ratios."""
    return alt.X("ratio:O", title="aggregation ratio", axis=alt.Axis(format="~g"))


def means(frame: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Mean and range over seeds of the accuracy, in percent, by setting."""
    top1 = 100 * pl.col("top1")
    return (
        parts.trained(frame)[0]
        .group_by(*by, "epoch", maintain_order=True)
        .agg(pl.col("at_s").mean(), percent=top1.mean(), low=top1.min(), high=top1.max())
    )


def lines(drawn: pl.DataFrame, names: Sequence[str]) -> alt.Chart:
    """Mean accuracies over time, a line a series."""
    return parts.over_time(drawn, "series", names, format=",d", tickCount=5).encode(
        y=parts.accuracy("top-1, %", min(drawn["low"], default=0.0)), order=alt.Order("epoch:Q")
    )


def spread(drawn: pl.DataFrame) -> alt.Chart:
    """From the least to the most of the seeds."""
    least = alt.Y("low:Q", scale=alt.Scale(zero=False))  # the lines say where the axis begins
    return alt.Chart(drawn).mark_rule().encode(x="at_s:Q", y=least, y2="high:Q")


def curves(
    drawn: pl.DataFrame,
    names: Sequence[str],
    panel: str,
    panels: Sequence[str],
    title: list[str],
    *,
    height: int = 130,
) -> alt.FacetChart:
    """Accuracy against time with the spread over seeds, a panel for each of `panels`."""
    curves = alt.layer(spread(drawn), lines(drawn, names)).properties(height=height)
    return parts.facets(curves, panel, panels, title).resolve_scale(x="independent")


def by_method(
    frame: pl.DataFrame, by: str | Sequence[str], panel: pl.Expr, title: list[str], **size: int
) -> alt.FacetChart:
    """Accuracy against time of both methods, a panel for each setting of the columns `by`."""
    columns = [by] if isinstance(by, str) else by
    drawn = means(frame, *columns, "method").with_columns(
        panel=panel, series=pl.col("method").replace_strict(METHOD_TITLES)
    )
    panels = drawn["panel"].unique(maintain_order=True).to_list()
    return curves(drawn, list(METHOD_TITLES.values()), "panel", panels, title, **size)


def learnt_title(frame: pl.DataFrame, subject: str = "Accuracy and time") -> list[str]:
    """Title lines: the subject, who learnt from which data, and the timed model."""
    row, seeds = frame.row(0, named=True), frame["seed"].n_unique()
    places = frame.filter(pl.col("model") != pl.col("learner"))
    for_whom = places.group_by("learner", maintain_order=True).agg(
        pl.col("model").unique(maintain_order=True)
    )
    stands = [
        f"{model_title(learner)} with the times of {' and '.join(map(model_title, models))}"
        for learner, models in for_whom.iter_rows()
    ]
    learnt = f"learnt: {row['train_samples']:,} {data_title(row['dataset'])}"
    if stands:
        learnt += f", by {'; by '.join(stands)}"
    ranges = f"mean and range of {seeds} seed{'' if seeds == 1 else 's'} (simulated)"
    return [subject, *parts.trained(frame)[1], f"{learnt}; {ranges}"]


def model_title(name: str) -> str:
    """Title of a model."""
    return LEARNER_TITLES.get(name, name)


def data_title(name: str) -> str:
    """Title of the samples of a data set."""
    return f"samples of {datasets.title(name)}"
