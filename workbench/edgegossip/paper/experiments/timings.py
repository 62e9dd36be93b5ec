"""Figs. 3 and 7 and Table 3: what aggregating takes on this machine, and what is learnt from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from workbench.checks import check_whole
from workbench.edgegossip.aggregation import TECHNIQUES, aggregate, generation, operations
from workbench.edgegossip.aggregation.aggregation import FloatArray, Indices
from workbench.edgegossip.aggregation.costs import SELECTED
from workbench.edgegossip.aggregation.techniques import PAPER
from workbench.edgegossip.paper.experiments import scales
from workbench.edgegossip.paper.experiments.cases import data, learnt_from
from workbench.edgegossip.paper.experiments.scales import Learner
from workbench.edgegossip.paper.testbed import MODELS, RATIOS, STATED
from workbench.experiments import grid, sweep
from workbench.experiments.data import loaded_once
from workbench.training.repeatable import SHUFFLE
from workbench.zoo import MODELS as ZOO

_SECONDS = dict.fromkeys(("reduce_s", "divide_s", "aggregate_s", "total_s"), pl.Float64)
TIMES: dict[str, Any] = {
    **dict.fromkeys(("model", "dataset"), pl.String),
    **dict.fromkeys(("points", "images", "features"), pl.Int64),
    "technique": pl.String,
    "ratio": pl.Float64,
    "aggregated": pl.Int64,
    **_SECONDS,
}
RATIO = 5.0
"""Of Fig. 3."""


def fig3_times(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """Seconds of all ways to aggregate, on this machine (Fig. 3a): the paper's, and our fast ones.

    Images of AlexNet's input, one point for five. Columns as in `fig7`.
    """
    count = scales.DECOMPOSED.at(scale)
    points = grid(model=MODELS[1:2], technique=TECHNIQUES, ratio=[RATIO], count=[count])
    return _timed("Figure 3, aggregating", points, scale, seed, dataset)


def fig7(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """Seconds of the steps of aggregating, on this machine, by technique and ratio (Fig. 7).

    A row per model (whose input the images are fitted to), technique and ratio: ``model, dataset,
    points, images, features, technique, ratio, aggregated, reduce_s, divide_s, aggregate_s,
    total_s``. Where a data set has fewer ``images`` than ``points`` are timed, the others are means
    of two of a class.
    """
    count = scales.AGGREGATED.at(scale)
    points = grid(model=MODELS[:2], technique=SELECTED, ratio=RATIOS, count=[count])
    return _timed("Figure 7", points, scale, seed, dataset)


def _timed(
    title: str, points: list[dict[str, Any]], scale: str, seed: int, dataset: str
) -> pl.DataFrame:
    sources = {one["model"]: learnt_from(scale, one["model"], dataset) for one in points}
    shared = {"sources": sources, "seed": seed}
    return sweep(title, _measured, points, TIMES, shared=shared, timed=True)


def _measured(
    *,
    model: str,
    technique: str,
    ratio: float,
    sources: Mapping[str, str],
    count: int,
    seed: int,
    **_: object,
) -> dict[str, object]:
    name, images, x, y = _images(model, sources[model], count)
    row = generation(x, y, [technique], [ratio], seed=seed).select("aggregated", *_SECONDS)
    about = {"dataset": name, "points": len(y), "images": images, "features": x[0].size}
    return about | row.row(0, named=True)


@loaded_once
def _images(model: str, source: str, count: int) -> tuple[str, int, FloatArray, Indices]:
    """Where images come from, how many of them are there, and `count` of them with their classes.

    Means fill up what lacks. Shifted images would not do: their singular values and histograms are
    those of the image itself.
    """
    found = data(source, count, 1).fitted(ZOO[model].input_shape)
    x, y = found.x_train, found.y_train
    order = np.argsort(y, kind="stable")
    of_class = np.split(order, np.flatnonzero(np.diff(y[order])) + 1)
    parts: list[FloatArray] = [x]
    for apart in range(1, -(-count // len(y))):
        partner = np.empty_like(order)
        for own in of_class:
            partner[own] = np.roll(own, apart)
        parts.append((x + x[partner]) / 2)
    return found.name, len(y), np.concatenate(parts)[:count], np.tile(y, len(parts))[:count]


FIG3: dict[str, Any] = {
    **dict.fromkeys(("technique", "learner", "dataset"), pl.String),
    **dict.fromkeys(("train_samples", "aggregated", "seed"), pl.Int64),
    "top1": pl.Float64,
}


def fig3(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    """Accuracy of what learns from aggregated points alone, one for five, by technique (Fig. 3b).

    Deviation: LeNet-5 and the data of `fig5` instead of AlexNet and CIFAR-10; at scale ``paper``
    from 8,000 points.

    A row per technique of the paper and seed: ``technique, learner, dataset, train_samples,
    aggregated, seed, top1``.
    """
    learner = scales.LEARNERS.at(scale)[MODELS[0]]
    shared: dict[str, Any] = {
        "learner": learner,
        "source": learnt_from(scale, learner.model, dataset),
        "samples": scales.TAUGHT.at(scale),
        "test_samples": scales.TEST_SAMPLES.at(scale),
        "passes": scales.PASSES.at(scale),
    }
    count = scales.SEEDS.at(scale) if seeds is None else check_whole("seeds", seeds, 1)
    points = grid(seed=range(seed, seed + count), technique=PAPER)
    processes = scales.PROCESSES.at(scale)
    return sweep(
        "Figure 3, learning",
        _learn,
        points,
        FIG3,
        shared=shared,
        processes=processes,
        remember=True,
    )


def _learn(
    *,
    technique: str,
    seed: int,
    learner: Learner,
    source: str,
    samples: int,
    test_samples: int | None,
    passes: int,
    **_: object,
) -> dict[str, object]:
    """Top-1 accuracy of a model that learns from aggregated points alone."""
    from workbench import training

    fitted = data(source, samples, test_samples).fitted(ZOO[learner.model].input_shape)
    made = aggregate(fitted.x_train, fitted.y_train, technique, RATIO, seed)
    with training.fixed_threads():
        module = training.initialise(learner.model, seed, classes=len(fitted.classes))
        flat = training.flatten(module, fitted.input_shape)
        sgd = training.Sgd(learner.learning_rate, momentum=STATED["training"]["momentum"])
        velocity, step = sgd.start(flat.parameters), 0
        x, y = np.asarray(made.points, np.float32), made.labels
        for epoch in range(passes):
            stream = np.random.SeedSequence(seed, spawn_key=(SHUFFLE, epoch))
            order = np.random.default_rng(stream).permutation(len(y))
            for batch in np.split(order, range(learner.batch_size, len(y), learner.batch_size)):
                training.gradient_step(flat, x[batch], y[batch], seed=step)
                sgd.step(flat.parameters, flat.gradients, velocity)
                step += 1
        top1 = training.evaluate(flat.module, fitted.x_test, fitted.y_test).top1
    return {
        "learner": learner.model,
        "dataset": fitted.name,
        "train_samples": len(fitted.y_train),
        "aggregated": len(made),
        "top1": top1,
    }


def table3(measured: pl.DataFrame) -> pl.DataFrame:
    """Operations of reducing and dividing as Table 3 counts them, beside `fig7`'s seconds.

    A row per model, technique, ratio and step: ``model, technique, ratio, step, operations,
    seconds`` and ``operations_per_s`` of the two; null where a step takes no time.
    """
    rows = []
    for row in measured.iter_rows(named=True):
        counted = operations(row["technique"], row["points"], row["features"], row["ratio"])
        about = {name: row[name] for name in ("model", "technique", "ratio")}
        for step, count in zip(("reduce", "divide"), counted, strict=True):
            seconds = row[f"{step}_s"]
            rate = count / seconds if seconds else None
            of_step = {"step": step, "operations": count, "seconds": seconds}
            rows.append({**about, **of_step, "operations_per_s": rate})
    return pl.DataFrame(rows)
