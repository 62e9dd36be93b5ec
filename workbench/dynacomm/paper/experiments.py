"""The paper's figures and tables as frames: one function each (Cai et al. 2021, Sec. V).

Everything here is the cost model on the paper's testbed, except what is timed on this machine
(`table1`, `table2`, `fig12`) and what is trained on the simulated network (`fig10`). Ctrl-C in one
of these raises `ExperimentInterrupted`, whose `frame` has the rows that were finished.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl

from workbench.dynacomm.algorithms import PLANNERS, bellman
from workbench.dynacomm.algorithms.dynacomm import optimal_cuts
from workbench.dynacomm.algorithms.ibatch import backward_cuts as ibatch_backward_cuts
from workbench.dynacomm.algorithms.ibatch import forward_cuts as ibatch_forward_cuts
from workbench.dynacomm.costs.iteration import Direction, LayerCosts, Phase, iteration
from workbench.dynacomm.paper import calibration
from workbench.dynacomm.paper.testbed import (
    BANDWIDTH_MBPS,
    WORKERS,
    Constants,
    paper_testbed,
    stated_testbed,
    variant,
)
from workbench.dynacomm.training import epochs
from workbench.interrupted import keeping
from workbench.names import choose
from workbench.profiles import measure_layer_times
from workbench.runtime import progress

MODELS = ("vgg19", "googlenet", "inception_v4", "resnet152")
BANDWIDTHS_MBPS = tuple(range(1000, 10_001, 1000))


class Scale(NamedTuple):
    """How much of what can be made smaller is run."""

    batch_sizes: Sequence[int]  # Fig. 9a
    timed_layers: Sequence[int]  # Fig. 12
    repeats: int  # Table I, Fig. 12
    profiled: Mapping[str, int]  # Table II: batch size by model
    profiled_repeats: int
    samples: int | None  # Fig. 10: of a data set; None for all
    epochs: int


SCALES = {
    "smoke": Scale((8, 16, 24, 32, 64), (20, 40, 80), 2, {"lenet5": 2}, 3, 64, 1),
    "default": Scale(
        tuple(range(4, 65, 2)),
        (25, 50, 100, 200, 400, 800),
        5,
        {"vgg19": 8, "resnet50": 8, "googlenet": 4, "inception_v4": 2, "resnet152": 2},
        3,
        720,
        4,
    ),
    "paper": Scale(
        tuple(range(1, 65)),
        (25, 50, 100, 200, 400, 800, 1200),
        5,
        {"vgg19": 8, "resnet50": 8, "googlenet": 32, "inception_v4": 32, "resnet152": 32},
        9,
        None,
        200,
    ),
}
"""What each scale means for this system; figures that are not named here are always whole."""


def fig5(
    batch_size: int = 32, bandwidth_mbps: float = BANDWIDTH_MBPS, workers: int = WORKERS
) -> pl.DataFrame:
    """Forward propagation by model and planner, as parts of the sequential time.

    Returns
    -------
    polars.DataFrame
        A row per model and planner: the setting, ``computation_alone_s``, ``overlap_s``,
        ``communication_alone_s``, ``total_s``, ``normalised`` (over the sequential total) and
        ``reduced_percent``.
    """
    return _planned(MODELS, "forward", [batch_size], [bandwidth_mbps], [workers])


def fig6(
    batch_size: int = 32, bandwidth_mbps: float = BANDWIDTH_MBPS, workers: int = WORKERS
) -> pl.DataFrame:
    """Backward propagation; columns as in `fig5`."""
    return _planned(MODELS, "backward", [batch_size], [bandwidth_mbps], [workers])


def fig7(
    batch_size: int = 16, bandwidth_mbps: float = BANDWIDTH_MBPS, workers: int = WORKERS
) -> pl.DataFrame:
    """Forward propagation at half the batch; columns as in `fig5`."""
    return fig5(batch_size, bandwidth_mbps, workers)


def fig8(
    batch_size: int = 16, bandwidth_mbps: float = BANDWIDTH_MBPS, workers: int = WORKERS
) -> pl.DataFrame:
    """Backward propagation at half the batch; columns as in `fig5`."""
    return fig6(batch_size, bandwidth_mbps, workers)


def iterations(
    batch_sizes: Sequence[int] = (32, 16),
    bandwidth_mbps: float = BANDWIDTH_MBPS,
    workers: int = WORKERS,
) -> pl.DataFrame:
    """Whole iterations (Sec. V-B, text); columns as in `fig5`."""
    return _planned(MODELS, "iteration", batch_sizes, [bandwidth_mbps], [workers])


def fig9a(
    scale: str = "default",
    model: str = "resnet152",
    bandwidth_mbps: float = BANDWIDTH_MBPS,
    workers: int = WORKERS,
) -> pl.DataFrame:
    """Reduction of the iteration time against batch size; columns as in `fig5`."""
    batch_sizes = choose("scale", scale, SCALES).batch_sizes
    return _planned([model], "iteration", batch_sizes, [bandwidth_mbps], [workers])


def fig9b(
    bandwidths_mbps: Sequence[float] = BANDWIDTHS_MBPS,
    model: str = "resnet152",
    batch_size: int = 32,
    workers: int = WORKERS,
) -> pl.DataFrame:
    """Reduction of the iteration time against bandwidth; columns as in `fig5`."""
    return _planned([model], "iteration", [batch_size], bandwidths_mbps, [workers])


def fig11(
    workers: Iterable[int] = range(1, 9),
    model: str = "resnet152",
    batch_size: int = 32,
    bandwidth_mbps: float = BANDWIDTH_MBPS,
) -> pl.DataFrame:
    """Training speed of all workers over that of one without a network, against their number.

    Returns
    -------
    polars.DataFrame
        Columns ``model, batch_size, bandwidth_mbps, workers, planner, speedup``.
    """
    rows = []
    for count in workers:
        testbed = variant(count, bandwidth_mbps)
        costs = testbed.costs(model, batch_size)
        for planner, plan in PLANNERS.items():
            speedup = testbed.speedup(model, batch_size, plan(costs))
            rows.append((model, batch_size, bandwidth_mbps, count, planner, speedup))
    return pl.DataFrame(
        rows,
        schema=["model", "batch_size", "bandwidth_mbps", "workers", "planner", "speedup"],
        orient="row",
    )


def _planned(
    models: Sequence[str],
    direction: str,
    batch_sizes: Sequence[int],
    bandwidths_mbps: Sequence[float],
    worker_counts: Sequence[int],
) -> pl.DataFrame:
    rows = []
    for workers in worker_counts:
        for bandwidth_mbps in bandwidths_mbps:
            testbed = variant(workers, bandwidth_mbps)
            for batch_size in batch_sizes:
                for model in models:
                    costs = testbed.costs(model, batch_size)
                    setting = (model, batch_size, bandwidth_mbps, workers, direction)
                    for planner, phase, sequential_s in planned(costs, direction):
                        normalised = phase.total_s / sequential_s
                        parts_s = (
                            phase.computation_alone_s,
                            phase.overlap_s,
                            phase.communication_alone_s,
                        )
                        reduced_percent = 100 * (1 - normalised)
                        rows.append(
                            (
                                *setting,
                                planner,
                                *parts_s,
                                phase.total_s,
                                normalised,
                                reduced_percent,
                            )
                        )
    return pl.DataFrame(
        rows,
        schema=[
            "model",
            "batch_size",
            "bandwidth_mbps",
            "workers",
            "direction",
            "planner",
            "computation_alone_s",
            "overlap_s",
            "communication_alone_s",
            "total_s",
            "normalised",
            "reduced_percent",
        ],
        orient="row",
    )


def planned(costs: LayerCosts, direction: str) -> list[tuple[str, Phase, float]]:
    """Every planner's name and phase in one direction, and the sequential total in seconds."""
    phases = {
        name: getattr(iteration(costs, planner(costs)), direction)
        for name, planner in PLANNERS.items()
    }
    sequential_s = phases["sequential"].total_s
    return [(name, phase, sequential_s) for name, phase in phases.items()]


def table1(scale: str = "default", batch_size: int = 32) -> pl.DataFrame:
    """Time to plan on this machine, against the window in which it can be hidden.

    Returns
    -------
    polars.DataFrame
        A row per model, planner (``dynacomm``, ``ibatch``) and direction: ``mean_ms``,
        ``deviation_ms`` over the repeats, and ``window_ms``, the overhead and transfer of layer 1
        by the cost model (pushed last and pulled first).
    """
    repeats = choose("scale", scale, SCALES).repeats
    testbed = paper_testbed()
    rows: list[tuple[str, str, str, float, float, float]] = []

    def frame() -> pl.DataFrame:
        columns = ["model", "planner", "direction", "mean_ms", "deviation_ms", "window_ms"]
        return pl.DataFrame(rows, schema=columns, orient="row")

    total = len(MODELS) * 2 * len(DIRECTIONS)
    with progress.steps("Table I", total) as told, keeping(frame):
        for model in MODELS:
            costs = testbed.costs(model, batch_size)
            window_ms = 1e3 * (costs.overhead_s + float(costs.push_s[0]))
            for planner in ("dynacomm", "ibatch"):
                for direction in DIRECTIONS:
                    told(f"{planner} {direction} on {model}")
                    times_ms = [1e3 * s for s in timed(planner, costs, direction, repeats)]
                    mean_ms, deviation_ms = statistics.mean(times_ms), statistics.stdev(times_ms)
                    rows.append((model, planner, direction, mean_ms, deviation_ms, window_ms))
    return frame()


def fig12(scale: str = "default", seed: int = 1) -> pl.DataFrame:
    """Time to plan against the number of layers, on random costs, on this machine.

    Returns
    -------
    polars.DataFrame
        A row per direction, solver and number of layers: ``median_ms`` over the repeats.
        ``paper_programme`` is the paper's dynamic programme in NumPy, ``dynacomm`` the solver
        that is shipped, of the same optimum.
    """
    sizes = choose("scale", scale, SCALES)
    generator = np.random.default_rng(seed)
    rows: list[tuple[str, str, int, float]] = []

    def frame() -> pl.DataFrame:
        columns = ["direction", "solver", "layers", "median_ms"]
        return pl.DataFrame(rows, schema=columns, orient="row")

    total = len(sizes.timed_layers) * len(DIRECTIONS) * len(SOLVERS)
    with progress.steps("Figure 12", total) as told, keeping(frame):
        for layers in sizes.timed_layers:
            costs = random_costs(layers, generator)
            for direction in DIRECTIONS:
                for solver in SOLVERS:
                    told(f"{solver.replace('_', ' ')} {direction} on {layers} layers")
                    times_s = timed(solver, costs, direction, sizes.repeats)
                    rows.append((direction, solver, layers, 1e3 * statistics.median(times_s)))
    return frame()


def random_costs(layers: int, generator: np.random.Generator) -> LayerCosts:
    """Costs of random layers, log-normal around a second, with an overhead of one."""
    pull_s, forward_s, backward_s, push_s = generator.lognormal(size=(4, layers))
    return LayerCosts(pull_s, forward_s, backward_s, push_s, overhead_s=1.0)


def slopes(frame: pl.DataFrame, from_layers: int = 200) -> pl.DataFrame:
    """Log-log slope of `fig12`'s times, over the sizes at which the leading term rules.

    Returns
    -------
    polars.DataFrame
        Columns ``direction, solver, exponent``; fitted from `from_layers` on, or on the two
        largest sizes if fewer are that large.
    """
    rows = []
    for (direction, solver), part in frame.group_by("direction", "solver", maintain_order=True):
        large = part.filter(pl.col("layers") >= from_layers)
        large = large if len(large) >= 2 else part.sort("layers").tail(2)
        x, y = large["layers"].log().to_numpy(), large["median_ms"].log().to_numpy()
        rows.append((direction, solver, float(np.polyfit(x, y, 1)[0])))
    return pl.DataFrame(rows, schema=["direction", "solver", "exponent"], orient="row")


def timed(solver: str, costs: LayerCosts, direction: str, repeats: int) -> list[float]:
    """Seconds of each repeat, after one that does not count."""
    seconds = []
    for _ in range(repeats + 1):
        before_s = time.perf_counter()
        SOLVERS[solver][direction](costs)
        seconds.append(time.perf_counter() - before_s)
    return seconds[1:]


def _forward(costs: LayerCosts) -> Direction:
    return Direction(costs.pull_s, costs.forward_s, costs.overhead_s)


def _backward(costs: LayerCosts) -> Direction:
    return Direction(costs.push_s, costs.backward_s, costs.overhead_s)


DIRECTIONS = ("forward", "backward")

# From the costs to the cuts, running sums included, as Table I times it.
SOLVERS: dict[str, dict[str, Callable[[LayerCosts], object]]] = {
    "paper_programme": {
        "forward": bellman.forward_cuts,
        "backward": bellman.backward_cuts,
    },
    "dynacomm": {
        "forward": lambda costs: optimal_cuts(_forward(costs)),
        "backward": lambda costs: optimal_cuts(_backward(costs)),
    },
    "ibatch": {
        "forward": lambda costs: ibatch_forward_cuts(_forward(costs)),
        "backward": lambda costs: ibatch_backward_cuts(_backward(costs)),
    },
}


def explanations() -> pl.DataFrame:
    """How far each explanation of the open constants is off, claim by claim.

    Returns
    -------
    polars.DataFrame
        A row per explanation and claim: ``explanation, role`` (fitted on batch size 32,
        predicted at 16), ``claim, error_points`` (ours minus the paper's).
    """
    rows = [
        (name, role, claim, error)
        for name in calibration.EXPLANATIONS
        for role, batch_size in (("fitted", 32), ("predicted", 16))
        for claim, error in calibration.errors(
            stated_testbed(Constants.load(name)), batch_size
        ).items()
    ]
    return pl.DataFrame(rows, schema=["explanation", "role", "claim", "error_points"], orient="row")


def explanation_errors(frame: pl.DataFrame) -> pl.DataFrame:
    """Mean absolute error in points of each explanation, fitted and predicted apart."""
    return frame.group_by("explanation", "role", maintain_order=True).agg(
        claims=pl.len(), mean_absolute_points=pl.col("error_points").abs().mean()
    )


def table2(scale: str = "default") -> pl.DataFrame:
    """What profiling costs on this machine: layers timed one by one against whole iterations.

    The two take turns, so that what else the machine does hits both.

    Returns
    -------
    polars.DataFrame
        A row per model: ``model, batch_size, layers, layers_s`` (an iteration with a clock between
        layers: the sum of all layers), ``iteration_s`` (one without, and its interquartile range
        ``iteration_iqr_s``), ``ratio`` of the two, whether that is ``within_15_percent`` of 1, and
        ``loss_percent`` of training speed.
    """
    sizes = choose("scale", scale, SCALES)
    rows: list[dict[str, object]] = []
    with (
        progress.steps("Table II", len(sizes.profiled)) as told,
        keeping(lambda: pl.DataFrame(rows, schema=PROFILED)),
    ):
        for model, batch_size in sizes.profiled.items():
            told(model)
            times = measure_layer_times(
                model,
                batch_size=batch_size,
                repeats=sizes.profiled_repeats,
                progress=lambda _, done, total: told.within(f"{done} of {total} iterations"),
            )
            ratio = times.layers_over_iteration or math.nan
            rows.append(
                {
                    "model": model,
                    "batch_size": batch_size,
                    "layers": len(times),
                    "layers_s": times.forward_s + times.backward_s,
                    "iteration_s": times.iteration_s,
                    "ratio": ratio,
                    "iteration_iqr_s": times.iteration_iqr_s,
                    "within_15_percent": abs(ratio - 1) <= 0.15,
                    "loss_percent": 100 * (1 - 1 / ratio),
                }
            )
    return pl.DataFrame(rows, schema=PROFILED)


PROFILED = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "layers": pl.Int64,
    "layers_s": pl.Float64,
    "iteration_s": pl.Float64,
    "ratio": pl.Float64,
    "iteration_iqr_s": pl.Float64,
    "within_15_percent": pl.Boolean,
    "loss_percent": pl.Float64,
}


def fig10(
    scale: str = "default", seed: int = 1, dataset: str = "auto", workers: int = 2
) -> pl.DataFrame:
    """Accuracy by epoch, trained under DynaComm's plan and under the sequential one.

    The network stays as it is and both plans are made once, so that the cost model predicts when
    each epoch ends.

    Deviation: a ResNet-20 instead of a ResNet-152, and digits instead of CIFAR-10 where
    `fig10_dataset` says so; what is claimed, equality, depends on neither.

    Parameters
    ----------
    scale, seed, workers
        How much is trained, on which draw of samples, by how many.
    dataset
        A name or a path, as for `workbench.datasets.load`; ``"auto"`` for `fig10_dataset`'s choice.

    Returns
    -------
    polars.DataFrame
        Columns ``model, dataset, train_samples, test_samples, workers, planner, epoch, at_s``
        (virtual), ``loss, train_top1, train_top5, top1, top5, predicted_s`` (the cost model's
        `at_s`), ``difference_percent`` (simulated over predicted, minus one).

    Raises
    ------
    ExperimentInterrupted
        Ctrl-C; its `frame` has the finished epochs.
    DatasetError
        The data is neither here nor to be had; no other is taken in its place.
    """
    from workbench import datasets, training
    from workbench.clusters import Link
    from workbench.dynacomm.training.train import Setup, train

    sizes = choose("scale", scale, SCALES)
    loaded = datasets.load(fig10_dataset(scale) if dataset == "auto" else dataset)
    data = loaded.limit(train=sizes.samples, test=sizes.samples, seed=seed)
    setup = Setup(
        "resnet20_cifar",
        data.fitted((3, 32, 32)),
        Link(bandwidth_bps=50e6, overhead_s=0.01),
        workers=workers,
        servers=2,
        epochs=sizes.epochs,
        seed=seed,
    )
    about: dict[str, object] = {
        "model": setup.model,
        "dataset": data.name,
        "train_samples": len(data.y_train),
        "test_samples": len(data.y_test),
        "workers": workers,
    }
    of_epoch = training.batches(setup.dataset, setup.batch_size, seed, epoch=0, workers=workers)
    rows: list[dict[str, object]] = []
    with (
        progress.steps(f"Figure 10, {data.name}", 2) as told,
        keeping(lambda: pl.DataFrame(rows, schema=TRAINED)),
    ):
        for planner in ("sequential", "dynacomm"):
            told(planner)
            plan = PLANNERS[planner](setup.costs)
            epoch_s = len(of_epoch) * iteration(setup.costs, plan).total_s
            so_far = partial(_trained_so_far, told, setup.epochs * epoch_s)
            trained = train(setup, planner, replan_every=None, progress=so_far)
            for row in trained.epochs.iter_rows(named=True):
                predicted_s = row["epoch"] * epoch_s
                beside = {
                    "predicted_s": predicted_s,
                    "difference_percent": 100 * (row["at_s"] / predicted_s - 1),
                }
                rows.append(about | {"planner": planner} | row | beside)
            if trained.run.interrupted:
                raise KeyboardInterrupt
    return pl.DataFrame(rows, schema=TRAINED)


TRAINED = {
    "model": pl.String,
    "dataset": pl.String,
    "train_samples": pl.Int64,
    "test_samples": pl.Int64,
    "workers": pl.Int64,
    "planner": pl.String,
    **epochs.SCHEMA,
    "predicted_s": pl.Float64,
    "difference_percent": pl.Float64,
}


def _trained_so_far(told: progress.Steps, end_s: float, now_s: float, events: int) -> None:
    told.within(f"{min(99.0, 100 * now_s / end_s):.0f} % of {end_s:,.0f} virtual seconds")


def fig10_dataset(scale: str) -> str:
    """Name what `fig10` trains on unless told.

    CIFAR-10, as in the paper, at scale ``paper``, and at ``default`` where it is on this machine
    already (see `workbench.datasets.data_folder`); else digits, which need no network.
    """
    from workbench.datasets import cifar10, data_folder

    if scale == "paper" or (scale == "default" and cifar10.present(data_folder())):
        return "cifar10"
    return "digits"
