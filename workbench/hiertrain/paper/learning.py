"""LeNet-5 trained under every planner's policy, and in how many of JALAD's bits: true gradients."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import altair as alt
import polars as pl

from workbench import datasets, figures
from workbench.figures import parts
from workbench.hiertrain.algorithms import PLANNERS
from workbench.hiertrain.algorithms.jalad import chain_at
from workbench.hiertrain.costs.iteration import iteration
from workbench.hiertrain.costs.policy import Policy
from workbench.hiertrain.costs.problem import Problem
from workbench.hiertrain.paper.testbed import EDGE_CLOUD_MBPS, FIG11_MBPS, MODELS, variant
from workbench.hiertrain.paper.titles import MODEL_TITLES, present, titled
from workbench.reproduction.data import data_set, loaded_once
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled, seeds_from
from workbench.reproduction.sweep import grid, sweep, whole
from workbench.runtime.progress import Steps
from workbench.training import TrainingError

if TYPE_CHECKING:
    from workbench.datasets import Dataset

TRAINED_BATCH = 32  # of 128 the images of scale default make too few iterations
LEARNING_RATE, MOMENTUM = 0.02, 0.9

_TRAINED: dict[str, Any] = {
    "model": pl.String,
    "dataset": pl.String,
    "train_samples": pl.Int64,
    "test_samples": pl.Int64,
    "batch_size": pl.Int64,
    "edge_cloud_mbps": pl.Float64,
    "seed": pl.Int64,
}
_EPOCHS: dict[str, Any] = {
    "reason": pl.String,
    "epoch": pl.Int64,
    **dict.fromkeys(("at_s", "loss", "train_top1", "train_top5", "top1", "top5"), pl.Float64),
}


def accuracy(
    *,
    scale: str,
    samples: int | None,
    epochs: int,
    usual_seeds: int,
    processes: int | None,
    seed: int = 1,
    dataset: str = "auto",
    batch_size: int = TRAINED_BATCH,
    edge_cloud_mbps: float = FIG11_MBPS,
    seeds: int | None = None,
    folder: Path | None = None,
) -> pl.DataFrame:
    """LeNet-5 trained under every planner's policy: accuracy by virtual time, a row per epoch.

    From `seed` on, as many `seeds` as asked for or as is usual at the scale. `samples` are those of
    the `dataset` (see `workbench.reproduction.data.data_set`), None for all; `processes` None is
    one a core. A training that diverged is one row with its ``reason``.

    Deviation: below scale ``paper`` other data than CIFAR-10.
    """
    source = data_set(scale, "cifar10", dataset)
    setting = Setting(source, samples, epochs, batch_size, edge_cloud_mbps)
    return sweep(
        _under_planner,
        grid(seed=seeds_from(seed, seeds, usual_seeds), planner=PLANNERS),
        _TRAINED | {"planner": pl.String, "policy": pl.String} | _EPOCHS,
        title="Accuracy",
        shared={"setting": setting, "batch_size": batch_size, "edge_cloud_mbps": edge_cloud_mbps},
        labels=("batch_size", "edge_cloud_mbps"),
        processes=processes,
        folder=folder,
        with_steps=True,
        failures=TrainingError,
    )


class Setting(NamedTuple):
    """What all trainings of a figure have in common."""

    source: str
    samples: int | None
    epochs: int
    batch_size: int
    edge_cloud_mbps: float

    @property
    def problem(self) -> Problem:
        """LeNet-5 on the testbed."""
        return variant(edge_cloud_mbps=self.edge_cloud_mbps).problem(
            MODELS["lenet5"], self.batch_size
        )


def _under_planner(planner: str, seed: int, setting: Setting, steps: Steps) -> pl.DataFrame:
    policy = PLANNERS[planner](setting.problem)
    return _trained(policy, setting, seed, steps).with_columns(policy=pl.lit(str(policy)))


def jalad_bits(
    *,
    scale: str,
    samples: int | None,
    epochs: int,
    bits: Sequence[int],
    usual_seeds: int,
    processes: int | None,
    seed: int = 1,
    dataset: str = "auto",
    batch_size: int = TRAINED_BATCH,
    edge_cloud_mbps: float = EDGE_CLOUD_MBPS[0],
    seeds: int | None = None,
    folder: Path | None = None,
) -> pl.DataFrame:
    """LeNet-5 under JALAD with c `bits` a value: what they save in time and cost in accuracy.

    The ``cut`` (layers on the edge) is the one between edge and cloud that is fastest with the
    paper's eight bits, and the same for all c; c = 32 sends values as they are. Once gradients come
    back in as many bits, and once as they are.

    Deviation: JALAD itself leaves all of LeNet-5 to the edge here (Fig. 10), where no feature is
    sent and bits are all the same; so cuts that send none are left out.

    Otherwise as `accuracy`. What diverges has the epochs that were done, or a row of nulls, and a
    ``reason``.
    """
    points = [
        {"seed": own, "bits": features, "gradient_bits": back}
        for own in seeds_from(seed, seeds, usual_seeds)
        for features in bits
        for back in dict.fromkeys((features, 32))
    ]
    source = data_set(scale, "cifar10", dataset)
    setting = Setting(source, samples, epochs, batch_size, edge_cloud_mbps)
    counts = dict.fromkeys(("bits", "gradient_bits", "cut"), pl.Int64)
    return sweep(
        _in_bits,
        points,
        _TRAINED | counts | {"iteration_s": pl.Float64} | _EPOCHS,
        title="JALAD's bits",
        shared={"setting": setting, "batch_size": batch_size, "edge_cloud_mbps": edge_cloud_mbps},
        labels=("batch_size", "edge_cloud_mbps"),
        processes=processes,
        folder=folder,
        with_steps=True,
    )


def _in_bits(
    bits: int, gradient_bits: int, seed: int, setting: Setting, steps: Steps
) -> pl.DataFrame:
    problem = setting.problem

    def seconds(cut: int) -> float:
        return iteration(problem, chain_at(problem, cut)).total_s

    cut = min(range(1, problem.layers), key=seconds)
    policy, reason = chain_at(problem, cut, bits, gradient_bits), None
    try:
        epochs = _trained(policy, setting, seed, steps)
    except TrainingError as error:
        done, reason = error.trained.epochs, str(error)
        epochs = _about(done if len(done) else done.clear(1), setting, seed)
    iteration_s = iteration(problem, policy).total_s
    return epochs.with_columns(
        cut=pl.lit(cut), iteration_s=pl.lit(iteration_s), reason=pl.lit(reason, pl.String)
    )


@loaded_once
def _data(source: str, samples: int | None, seed: int) -> Dataset:
    loaded = datasets.load(source)
    return loaded.limit(train=samples, test=samples, seed=seed).fitted((3, 32, 32))


def _trained(policy: Policy, setting: Setting, seed: int, steps: Steps) -> pl.DataFrame:
    """Epochs of LeNet-5 under a policy, with what was trained on."""
    from workbench import training
    from workbench.hiertrain.training import Setup, train

    problem = setting.problem
    setup = Setup(
        MODELS["lenet5"],
        _data(setting.source, setting.samples, seed),
        problem,
        epochs=setting.epochs,
        sgd=training.Sgd(LEARNING_RATE, momentum=MOMENTUM),
        seed=seed,
    )
    end_s = setup.epoch_ends[-1] * iteration(problem, policy).total_s
    trained = train(setup, policy, progress=steps.until(end_s))
    whole(trained.run)  # one policy's epochs alone would compare nothing
    return _about(trained.epochs, setting, seed)


def _about(epochs: pl.DataFrame, setting: Setting, seed: int) -> pl.DataFrame:
    data = _data(setting.source, setting.samples, seed)
    return epochs.with_columns(
        model=pl.lit(MODELS["lenet5"]),
        dataset=pl.lit(data.name),
        train_samples=len(data.y_train),
        test_samples=len(data.y_test),
    )


def draw_accuracy(frame: pl.DataFrame) -> alt.Chart:
    """Validation accuracy against virtual time, a line per planner."""
    ended, left_out = parts.trained(frame)
    mean = (
        titled(ended)
        .group_by("planner", "epoch", maintain_order=True)
        .agg(pl.col("at_s").mean(), percent=100 * pl.col("top1").mean())
    )
    return (
        parts.over_time(mean, "planner", present(ended))
        .encode(y=parts.accuracy())
        .properties(height=200, title=_trained_title(ended, *left_out))
    )


def draw_jalad_bits(frame: pl.DataFrame) -> alt.HConcatChart:
    """Accuracy at the end, and seconds of an iteration, against the bits of a value.

    What diverged has no accuracy; the title names it.
    """
    last = (
        frame.group_by("bits", "gradient_bits", "seed", maintain_order=True)
        .last()
        .with_columns(top1=pl.when(pl.col("reason").is_null()).then("top1"))
    )
    # Gradients come back in `bits` or in 32; where `bits` is 32, a row is both.
    back = {"gradients in as many bits": pl.col("bits"), "gradients in 32 bits": pl.lit(32)}
    both = pl.concat(
        last.filter(pl.col("gradient_bits") == bits).with_columns(gradients=pl.lit(title))
        for title, bits in back.items()
    )
    mean = both.group_by("bits", "gradients", maintain_order=True).agg(
        pl.col("iteration_s").mean(), percent=100 * pl.col("top1").mean()
    )
    order = [f"{bits}" for bits in sorted(frame["bits"].unique())]
    base = (
        alt.Chart(mean.with_columns(pl.col("bits").cast(pl.String)))
        .mark_line(point=True)
        .encode(
            x=alt.X("bits:O", sort=order, title="bits a value, c", axis=alt.Axis(labelAngle=0)),
            **figures.series("gradients", list(back)),
        )
        .properties(height=150)
    )
    learnt = base.encode(y=parts.accuracy())
    seconds = base.encode(y=alt.Y("iteration_s:Q", title="seconds an iteration"))
    cut = f"JALAD, {frame['cut'][0]} of 5 layers on the edge, the rest in the cloud"
    return alt.hconcat(learnt, seconds).properties(
        title=_trained_title(frame, cut, *diverged(frame))
    )


def diverged(frame: pl.DataFrame) -> list[str]:
    """Name what has no accuracy in a frame of `jalad_bits`; nothing if all went well."""
    failed = frame.filter(pl.col("reason").is_not_null())
    cases = failed.select("bits", "gradient_bits").unique(maintain_order=True).rows()
    named = ", ".join(f"{bits} (gradients {back})" for bits, back in cases)
    return [f"diverged: c = {named}"] if cases else []


def _trained_title(frame: pl.DataFrame, *more: str) -> list[str]:
    run = frame.row(0, named=True)
    model, data = MODEL_TITLES[run["model"]].partition(" (")[0], datasets.title(run["dataset"])
    seeds = frame["seed"].n_unique()
    link = f"batch {run['batch_size']}, edge-cloud {run['edge_cloud_mbps']:g} Mbit/s (simulated)"
    mean = [f"mean of {seeds} seeds"] if seeds > 1 else []
    return [f"{model} on {data}", parts.samples(frame), link, *more, *mean]


_SIZES: dict[str, Scaled[Any]] = {
    "samples": Scaled(smoke=160, default=2000, paper=None),
    "epochs": Scaled(smoke=1, default=6, paper=50),
    "usual_seeds": Scaled(smoke=1, default=1, paper=5),
    "processes": Scaled(smoke=1, default=None, paper=None),
}
_ALL_BITS = (1, 2, 3, 4, 5, 6, 7, 8, 32)

ACCURACY = Figure(
    id="accuracy",
    compute=accuracy,
    chart=draw_accuracy,
    sizes=_SIZES,
    recorded=True,
    data=("cifar10",),
    live=True,
)

JALAD_BITS = Figure(
    id="jalad_bits",
    compute=jalad_bits,
    chart=draw_jalad_bits,
    sizes={**_SIZES, "bits": Scaled(smoke=(1, 8, 32), default=_ALL_BITS, paper=_ALL_BITS)},
    recorded=True,
    data=("cifar10",),
)
