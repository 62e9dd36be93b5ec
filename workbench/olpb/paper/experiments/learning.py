"""What late gradients cost: DPB's accuracy against exact gradients, by iteration and by time.

The paper compares seconds alone, and calls DPB approximate (Sec. VII). Beyond it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.experiments import Scaled, data_set, grid, sweep, whole
from workbench.experiments.data import loaded_once
from workbench.experiments.seeds import seeds_from
from workbench.olpb.paper.testbed import DPB_MODULES, NODES, variant
from workbench.runtime.progress import Steps
from workbench.training import TrainingError

if TYPE_CHECKING:
    from workbench.datasets import Dataset
    from workbench.olpb.training import Setup

MODEL = "lenet5"
BATCH_SIZE = 32
LEARNING_RATE, MOMENTUM = 0.02, 0.9
SAMPLES = Scaled[int | None](smoke=160, default=1200, paper=None)
"""Of a data set; None for all."""
TEST_SAMPLES = Scaled[int | None](smoke=80, default=300, paper=None)
EPOCHS = Scaled(smoke=1, default=6, paper=30)
EVALUATE_EVERY = Scaled(smoke=2, default=37, paper=500)
"""Iterations."""
SEEDS = Scaled(smoke=2, default=2, paper=5)
MODULES = (2, DPB_MODULES)
"""K of DPB."""
SCANNING = ("olpb", "bppsa")
"""Methods whose gradients, and so accuracies, are those of plain back-propagation."""

DECOUPLED: dict[str, Any] = {
    "model": pl.String,
    "dataset": pl.String,
    "train_samples": pl.Int64,
    "test_samples": pl.Int64,
    "batch_size": pl.Int64,
    "nodes": pl.Int64,
    "delay_factor": pl.Float64,
    "seed": pl.Int64,
    "method": pl.String,
    "modules": pl.Int64,
    "reason": pl.String,
    "iteration": pl.Int64,
    **dict.fromkeys(("at_s", "loss", "train_top1", "top1"), pl.Float64),
}


def decoupled(
    scale: str = "default",
    seed: int = 1,
    dataset: str = "auto",
    batch_size: int = BATCH_SIZE,
    nodes: int = NODES,
    *,
    delay_factor: float | None = None,
    seeds: int | None = None,
) -> pl.DataFrame:
    """LeNet-5 trained with every method: accuracy by iteration, and by virtual time.

    OLPB, BPPSA and plain back-propagation have the same gradients and so the same accuracies, which
    are learnt once; they differ in ``at_s``.

    Deviation: the paper trains nothing. An iteration takes its pass forward, too; operators cost
    what they take whatever their size and their products with matrices.

    A row per seed, method and evaluation: ``model, dataset, train_samples, test_samples,
    batch_size, nodes, delay_factor, seed, method, modules`` (K of DPB, else null), ``reason``
    (null), ``iteration, at_s, loss, train_top1, top1``. A training that diverged is one row with
    its ``reason``.

    Parameters
    ----------
    scale, seed
        How much is trained, and the first seed.
    dataset
        As for `workbench.experiments.data_set`.
    delay_factor
        p; the testbed's by default.
    seeds
        How many; the scale's by default.

    Raises
    ------
    DatasetError
        The data is neither here nor to be had; no other is taken in its place.
    """
    shared = {
        "model": MODEL,
        "source": data_set(scale, "mnist", dataset),
        "scale": scale,
        "batch_size": batch_size,
        "nodes": nodes,
        "delay_factor": variant().delay_factor if delay_factor is None else delay_factor,
    }
    cases: list[dict[str, Any]] = [{"method": "sequential", "modules": None}]
    cases += [{"method": "dpb", "modules": count} for count in MODULES]
    chosen = seeds_from(seed, seeds, SEEDS.at(scale))
    points = [{**one, **case} for one in grid(seed=chosen) for case in cases]
    return sweep(
        "Late gradients", _trained, points, DECOUPLED, shared=shared, failures=TrainingError
    )


@loaded_once
def _data(source: str, scale: str, seed: int) -> Dataset:
    from workbench import datasets

    few = {"train": SAMPLES.at(scale), "test": TEST_SAMPLES.at(scale)}
    return datasets.load(source).limit(**few, seed=seed).fitted((1, 28, 28))


def _trained(
    *,
    model: str,
    source: str,
    scale: str,
    batch_size: int,
    nodes: int,
    delay_factor: float,
    seed: int,
    method: str,
    modules: int | None,
    steps: Steps,
) -> pl.DataFrame:
    """Evaluations of a training, with what was trained on."""
    from workbench import training
    from workbench.olpb.training import Setup, train

    data = _data(source, scale, seed)
    testbed = variant(nodes=nodes, delay_factor=delay_factor, batch_size=batch_size)
    setup = Setup(
        model,
        data,
        testbed.pool(),
        batch_size,
        evaluate_every=EVALUATE_EVERY.at(scale),
        modules=modules or 1,
        random_delays=True,
        moves=testbed.moves,
        operator_flops=1e6 * testbed.constants.operator_ms * testbed.constants.node_gflops,
        epochs=EPOCHS.at(scale),
        sgd=training.Sgd(LEARNING_RATE, momentum=MOMENTUM),
        seed=seed,
    )
    found = train(setup, method, progress=steps.virtual)
    whole(found.run)
    learnt = found.evaluations.with_columns(
        dataset=pl.lit(data.name),
        train_samples=len(data.y_train),
        test_samples=len(data.y_test),
        method=pl.lit(method),
    )
    if method == "dpb":
        return learnt
    return pl.concat([learnt, *(_at_other_times(learnt, setup, name) for name in SCANNING)])


def _at_other_times(learnt: pl.DataFrame, setup: Setup, method: str) -> pl.DataFrame:
    """What is learnt with the same gradients, when this method has found them."""
    from workbench import training

    passes = training.run(setup.programs(method, learning=False)).passes
    ends_s = [passes[at - 1].begin_s + passes[at - 1].backward_s for at in learnt["iteration"]]
    return learnt.with_columns(method=pl.lit(method), at_s=pl.Series(ends_s, dtype=pl.Float64))
