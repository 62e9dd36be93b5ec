"""Figs. 3 and 7 and Table 3: what aggregating takes on this machine, and what is learnt from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from workbench.datasets import Dataset
from workbench.edgegossip.aggregation import TECHNIQUES, aggregate, generation, operations
from workbench.edgegossip.aggregation.costs import SELECTED
from workbench.edgegossip.paper.experiments import scales
from workbench.edgegossip.paper.experiments.cases import data, learnt_from
from workbench.edgegossip.paper.experiments.scales import Learner
from workbench.edgegossip.paper.testbed import MODELS, RATIOS, STATED
from workbench.experiments import computed, grid, keeping, sweep
from workbench.experiments.data import loaded_once
from workbench.training.repeatable import SHUFFLE
from workbench.zoo import MODELS as ZOO

_SECONDS = dict.fromkeys(("reduce_s", "divide_s", "aggregate_s", "total_s"), pl.Float64)
FIG3: dict[str, Any] = {
    **dict.fromkeys(("technique", "learner", "dataset"), pl.String),
    **dict.fromkeys(("train_samples", "aggregated", "seed"), pl.Int64),
    **_SECONDS,
}
RATIO = 5.0
"""Of Fig. 3."""


def fig3(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """Eight ways to aggregate: seconds on this machine, and accuracy from what they make (Fig. 3).

    A model is trained on the aggregated points alone, one for five originals, on one machine.

    Deviation: below scale ``paper`` LeNet-5 and the data of `fig5` instead of AlexNet and CIFAR-10.

    A row per technique and seed: ``technique, learner, dataset, train_samples, aggregated, seed,
    reduce_s, divide_s, aggregate_s, total_s, top1``.

    Raises
    ------
    ExperimentInterrupted
        At Ctrl-C, with what was timed; ``top1`` is null where nothing has learnt yet.
    """
    model, passes = scales.FIG3.at(scale)
    learner = scales.LEARNERS.at(scale)[model]
    source = learnt_from(scale, learner.model, dataset)
    shared: dict[str, Any] = {
        "learner": learner.model,
        "source": source,
        "samples": scales.SAMPLES.at(scale),
        "test_samples": scales.TEST_SAMPLES.at(scale),
    }
    fitted = _fitted(**shared)
    generation(fitted.x_train[:64], fitted.y_train[:64], TECHNIQUES, [RATIO])  # what loads late
    points = grid(seed=range(seed, seed + scales.SEEDS.at(scale)), technique=TECHNIQUES)
    top1: dict[int, float] = {}

    def learnt(timed: pl.DataFrame) -> pl.DataFrame:
        found = [top1.get(at) for at in range(len(timed))]
        return timed.with_columns(pl.Series("top1", found, pl.Float64))

    timed = sweep(
        "Figure 3, aggregating", _aggregating, points, FIG3, shared=shared, timed=True, then=learnt
    )
    about = shared | {"learner": learner, "passes": passes}
    processes = scales.PROCESSES.at(scale)
    with keeping(lambda: learnt(timed)):
        for at, (row,) in computed(
            "Figure 3, learning",
            _taught,
            points,
            shared=about,
            processes=processes,
            remember=True,
        ):
            top1[at] = row["top1"]
    return learnt(timed)


@loaded_once
def _fitted(learner: str, source: str, samples: int | None, test_samples: int | None) -> Dataset:
    return data(source, samples, test_samples).fitted(ZOO[learner].input_shape)


def _aggregating(*, technique: str, seed: int, steps: object, **of_data: Any) -> dict[str, object]:
    fitted = _fitted(**of_data)
    times = generation(fitted.x_train, fitted.y_train, [technique], [RATIO], seed=seed)
    about = {"dataset": fitted.name, "train_samples": len(fitted.y_train)}
    return about | times.select("aggregated", *_SECONDS).row(0, named=True)


def _taught(
    *, technique: str, seed: int, learner: Learner, passes: int, steps: object, **of_data: Any
) -> dict[str, float]:
    """Top-1 accuracy of a model that learns from aggregated points alone."""
    from workbench import training

    fitted = _fitted(learner.model, **of_data)
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
        return {"top1": training.evaluate(flat.module, fitted.x_test, fitted.y_test).top1}


FIG7: dict[str, Any] = {
    **dict.fromkeys(("model", "dataset"), pl.String),
    **dict.fromkeys(("points", "features"), pl.Int64),
    "technique": pl.String,
    "ratio": pl.Float64,
    **dict.fromkeys(("repeat", "aggregated"), pl.Int64),
    **_SECONDS,
}


def fig7(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """Seconds of the steps of aggregating, on this machine, by technique and ratio (Fig. 7).

    A row per model (whose input the images are fitted to), technique, ratio and repetition:
    ``model, dataset, points, features, technique, ratio, repeat, aggregated, reduce_s, divide_s,
    aggregate_s, total_s``.
    """
    models = [{"model": one, "source": learnt_from(scale, one, dataset)} for one in MODELS[:2]]
    shared = {
        "samples": scales.AGGREGATED.at(scale),
        "test_samples": scales.TEST_SAMPLES.at(scale),
        "repeats": scales.REPEATS.at(scale),
        "seed": seed,
    }
    return sweep("Figure 7", _measured, models, FIG7, shared=shared, timed=True)


def _measured(
    *, model: str, repeats: int, seed: int, steps: object, **of_data: Any
) -> pl.DataFrame:
    fitted = _fitted(model, **of_data)
    measured = generation(
        fitted.x_train, fitted.y_train, SELECTED, RATIOS, repeats=repeats, seed=seed
    )
    return measured.with_columns(
        dataset=pl.lit(fitted.name),
        points=pl.lit(len(fitted.y_train)),
        features=pl.lit(fitted.x_train[0].size),
    )


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
