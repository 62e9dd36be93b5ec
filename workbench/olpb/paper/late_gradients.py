"""DPB's accuracy with late gradients against exact ones, by iteration and by time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from workbench import figures
from workbench.figures import parts
from workbench.olpb.costs.subtasks import Node, Pool
from workbench.olpb.paper.testbed import DELAY_FACTOR, DPB_MODULES, NODES, STATED
from workbench.olpb.paper.titles import model_title
from workbench.reproduction.data import data_set, loaded_once
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled, seeds_from
from workbench.reproduction.sweep import sweep, whole
from workbench.runtime.progress import Steps
from workbench.training import TrainingError

if TYPE_CHECKING:
    from workbench.datasets import Dataset
    from workbench.olpb.training import Setup


MODEL, BATCH_SIZE = "lenet5", 32
LEARNING_RATE, MOMENTUM = 0.02, 0.9
MODULES = (2, DPB_MODULES)
"""K of DPB."""
SAME = {"olpb": "OLPB", "bppsa": "BPPSA"}
"""Methods whose gradients, and so accuracies, are those of plain back-propagation."""

_NODES = STATED["late_gradients"]
OPERATOR_FLOPS = 1e6 * _NODES["operator_ms"] * _NODES["node_gflops"]
"""In the time that an operator takes whatever its size."""


def pool_of(nodes: int, delay_factor: float) -> Pool:
    """The nodes of these trainings."""
    delay_s = 1e-3 * STATED["assumed"]["delay_unit_ms"] * delay_factor
    node = Node(1e9 * _NODES["node_gflops"])
    return Pool((node,) * nodes, 1e-3 * _NODES["dispatch_ms"], delay_s)


LEARNT: dict[str, Any] = {
    **dict.fromkeys(("model", "dataset"), pl.String),
    **dict.fromkeys(("train_samples", "test_samples", "batch_size", "nodes"), pl.Int64),
    "delay_factor": pl.Float64,
    "seed": pl.Int64,
    "method": pl.String,
    "modules": pl.Int64,
    "reason": pl.String,
    "iteration": pl.Int64,
    **dict.fromkeys(("at_s", "loss", "train_top1", "top1"), pl.Float64),
}


def decoupled(
    *,
    scale: str,
    few: Mapping[str, int | None],
    epochs: int,
    evaluate_every: int,
    usual_seeds: int,
    seed: int = 1,
    dataset: str = "auto",
    batch_size: int = BATCH_SIZE,
    nodes: int = NODES,
    delay_factor: float | None = None,
    seeds: int | None = None,
    processes: int | None = 1,
    folder: Path | None = None,
) -> pl.DataFrame:
    """LeNet-5 trained with every method: accuracy by iteration, and by virtual time.

    OLPB, BPPSA and plain back-propagation have the same gradients and so the same accuracies, which
    are learnt once; they differ in ``at_s``.

    Deviation: the paper trains nothing. An iteration takes its pass forward, too; operators cost
    what they take whatever their size and their products with matrices. Nodes are assumed
    (``data/testbeds/olpb.toml``), and scan runs of groups.

    A row per seed, method and evaluation: ``model, dataset, train_samples, test_samples,
    batch_size, nodes, delay_factor, seed, method, modules`` (K of DPB, else null), ``reason``
    (null), ``iteration, at_s, loss, train_top1, top1``. A training that diverged is one row with
    its ``reason``.

    `few` are samples for training and testing, None for all; `seed` is the first of `seeds`.

    Raises DatasetError: the data is neither here nor to be had; no other is taken in its place.
    """
    shared = {
        "model": MODEL,
        "source": data_set(scale, "mnist", dataset),
        "few": few,
        "epochs": epochs,
        "evaluate_every": evaluate_every,
        "batch_size": batch_size,
        "nodes": nodes,
        "delay_factor": DELAY_FACTOR if delay_factor is None else delay_factor,
    }
    cases = [("sequential", None), *(("dpb", count) for count in MODULES)]
    points = [
        {"seed": drawn, "method": method, "modules": modules}
        for drawn in seeds_from(seed, seeds, usual_seeds)
        for method, modules in cases
    ]
    return sweep(
        _trained,
        points,
        LEARNT,
        title="Late gradients",
        shared=shared,
        processes=processes,
        folder=folder,
        with_steps=True,
        failures=TrainingError,
    )


@loaded_once
def _data(source: str, train: int | None, test: int | None, seed: int) -> Dataset:
    from workbench import datasets

    return datasets.load(source).limit(train=train, test=test, seed=seed).fitted((1, 28, 28))


def _trained(
    *,
    model: str,
    source: str,
    few: Mapping[str, int | None],
    epochs: int,
    evaluate_every: int,
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

    data = _data(source, few["train"], few["test"], seed)
    setup = Setup(
        model,
        data,
        pool_of(nodes, delay_factor),
        batch_size,
        evaluate_every=evaluate_every,
        modules=modules or 1,
        random_delays=True,
        operator_flops=OPERATOR_FLOPS,
        epochs=epochs,
        sgd=training.Sgd(LEARNING_RATE, momentum=MOMENTUM),
        seed=seed,
    )
    trained = train(setup, method, progress=steps.virtual)
    whole(trained.run)
    learnt = trained.evaluations.with_columns(
        dataset=pl.lit(data.name),
        train_samples=len(data.y_train),
        test_samples=len(data.y_test),
        method=pl.lit(method),
    )
    if method == "dpb":
        return learnt
    return pl.concat([learnt, *(_at_other_times(learnt, setup, name) for name in SAME)])


def _at_other_times(learnt: pl.DataFrame, setup: Setup, method: str) -> pl.DataFrame:
    """The same evaluations, at the times at which another method has the same gradients."""
    from workbench import training

    passes = training.run(setup.programs(method, learning=False)).passes
    ends_s = [passes[at - 1].begin_s + passes[at - 1].backward_s for at in learnt["iteration"]]
    return learnt.with_columns(method=pl.lit(method), at_s=pl.Series(ends_s, dtype=pl.Float64))


def draw_decoupled(frame: pl.DataFrame) -> alt.HConcatChart:
    """Validation accuracy by iteration and by virtual time, a line per method; means over seeds.

    By iteration, one node's line is that of all methods with exact gradients.
    """
    ended, left_out = parts.trained(frame)
    late = ended["modules"].drop_nulls().unique().sort().to_list()
    titles = {"sequential": "one node", **SAME}
    order = [*titles.values(), *(f"DPB, {count} modules" for count in late)]
    title_of = pl.when(method="dpb").then(pl.format("DPB, {} modules", "modules"))
    drawn = (
        ended.with_columns(method=title_of.otherwise(pl.col("method").replace(titles)))
        .group_by("method", "iteration", maintain_order=True)
        .agg(pl.col("at_s").mean(), percent=100 * pl.col("top1").mean())
    )
    same = list(SAME.values())
    iterations = (
        alt.Chart(drawn.filter(~pl.col("method").is_in(same)))
        .mark_line(point=True)
        .encode(
            x=alt.X("iteration:Q", scale=alt.Scale(zero=True)),
            y=parts.accuracy(),
            **figures.series("method", order),
        )
    )
    seconds = parts.over_time(drawn, "method", order).encode(y=parts.accuracy(""))
    row, seeds = frame.row(0, named=True), frame["seed"].n_unique()
    title = [
        "Late gradients (simulated)",
        f"{model_title(row)} on {row['dataset'].replace('_', ' ')}, {parts.samples(frame)}, "
        f"batches of {row['batch_size']}",
        f"{row['nodes']} nodes, delay factor {row['delay_factor']:g}, "
        f"mean of {seeds} seed{'s' * (seeds > 1)}",
        f"by iteration {' and '.join(same)} are as one node",
        *left_out,
    ]
    return alt.hconcat(
        *(half.properties(height=150) for half in (iterations, seconds)), title=title
    )


DECOUPLED = Figure(
    id="decoupled",
    compute=decoupled,
    chart=draw_decoupled,
    sizes={
        "few": Scaled[dict[str, int | None]](
            smoke={"train": 160, "test": 80},
            default={"train": 1200, "test": 300},
            paper={"train": None, "test": None},
        ),
        "epochs": Scaled(smoke=1, default=6, paper=30),
        "evaluate_every": Scaled(smoke=2, default=37, paper=500),
        "usual_seeds": Scaled(smoke=2, default=2, paper=5),
    },
    recorded=True,
    data=("mnist",),
    live=True,
)
