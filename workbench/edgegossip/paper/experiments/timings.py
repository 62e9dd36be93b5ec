"""Figs. 3 and 7 and Table 3: what aggregating takes on this machine, and what is learnt from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

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
    **dict.fromkeys(("points", "features"), pl.Int64),
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
    models = MODELS[1:2]
    points = grid(model=models, technique=TECHNIQUES, ratio=[RATIO])
    sources = {one: learnt_from(scale, one, dataset) for one in models}
    shared = {"sources": sources, "count": scales.DECOMPOSED.at(scale), "seed": seed}
    return sweep("Figure 3, aggregating", _measured, points, TIMES, shared=shared, timed=True)


def fig7(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """Seconds of the steps of aggregating, on this machine, by technique and ratio (Fig. 7).

    A row per model (whose input the images are fitted to), technique and ratio: ``model, dataset,
    points, features, technique, ratio, aggregated, reduce_s, divide_s, aggregate_s, total_s``.
    Where a data set has fewer images than points are timed, the others are shifted copies.
    """
    models = MODELS[:2]
    points = grid(model=models, technique=SELECTED, ratio=RATIOS)
    sources = {one: learnt_from(scale, one, dataset) for one in models}
    shared = {"sources": sources, "count": scales.AGGREGATED.at(scale), "seed": seed}
    return sweep("Figure 7", _measured, points, TIMES, shared=shared, timed=True)


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
    name, x, y = _images(model, sources[model], count)
    row = generation(x, y, [technique], [ratio], seed=seed).select("aggregated", *_SECONDS)
    about = {"dataset": name, "points": len(y), "features": x[0].size}
    return about | row.row(0, named=True)


@loaded_once
def _images(model: str, source: str, count: int) -> tuple[str, FloatArray, Indices]:
    """So many images of a model's input shape, their classes, and where they come from."""
    found = data(source, count, 1).fitted(ZOO[model].input_shape)
    x, y = found.x_train, found.y_train
    copies = range(-(-count // len(y)))
    shifted = [np.roll(x, (at, 2 * at), axis=(-2, -1)) for at in copies]
    return found.name, np.concatenate(shifted)[:count], np.tile(y, len(copies))[:count]


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
    points = grid(seed=range(seed, seed + (seeds or scales.SEEDS.at(scale))), technique=PAPER)
    processes = scales.PROCESSES.at(scale)
    return sweep(
        "Figure 3, learning",
        _taught,
        points,
        FIG3,
        shared=shared,
        processes=processes,
        remember=True,
    )


def _taught(
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
        for turn in range(passes):
            stream = np.random.SeedSequence(seed, spawn_key=(SHUFFLE, turn))
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
    median_s`` and ``operations_per_s`` of the two.
    """
    medians = measured.group_by(
        "model", "points", "features", "technique", "ratio", maintain_order=True
    ).agg(pl.col("reduce_s", "divide_s").median())
    rows = []
    for row in medians.iter_rows(named=True):
        counted = operations(row["technique"], row["points"], row["features"], row["ratio"])
        for step, count in zip(("reduce", "divide"), counted, strict=True):
            seconds = row[f"{step}_s"]
            rows.append(
                {
                    **{name: row[name] for name in ("model", "technique", "ratio")},
                    "step": step,
                    "operations": count,
                    "median_s": seconds,
                    "operations_per_s": count / seconds if seconds else None,
                }
            )
    return pl.DataFrame(rows)
