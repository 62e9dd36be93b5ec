"""HierTrain on the simulated network: Fig. 6, what sharing costs, and trainings.

`simulated` moves bytes and charges seconds; `accuracy` and `jalad_bits` compute true gradients.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.experiments import data_set, grid, sweep, whole
from workbench.experiments.data import loaded_once
from workbench.experiments.seeds import seeds_from
from workbench.hiertrain.algorithms import PLANNERS
from workbench.hiertrain.algorithms.jalad import BITS
from workbench.hiertrain.costs.iteration import iteration
from workbench.hiertrain.costs.policy import Chain, Policy
from workbench.hiertrain.costs.problem import Problem
from workbench.hiertrain.paper.experiments import scales
from workbench.hiertrain.paper.testbed import (
    BATCH_SIZE,
    CORES_USED,
    DEVICE_EDGE_MBPS,
    EDGE_CLOUD_MBPS,
    FIG11_MBPS,
    MODELS,
    Testbed,
    variant,
)
from workbench.hiertrain.programs.cluster import SHARING, cluster_of
from workbench.hiertrain.programs.serve import programs_of
from workbench.names import choose
from workbench.runtime import Run, simulate
from workbench.runtime.progress import Steps
from workbench.training import TrainingError

if TYPE_CHECKING:
    from workbench.datasets import Dataset

TRAINED_BATCH = 32  # of 128 the images of scale default make too few iterations
LEARNING_RATE, MOMENTUM = 0.02, 0.9


def fig6(
    batch_size: int = BATCH_SIZE,
    device_edge_mbps: float = DEVICE_EDGE_MBPS,
    edge_cores: int = CORES_USED,
    devices: int = 1,
) -> pl.DataFrame:
    """HierTrain's iteration of AlexNet, simulated, against the cost model's; see `simulated`.

    Deviation: simulated in place of the paper's machines, so that what differs is what the cost
    model leaves out of the policy's course, and not how fast a layer is.
    """
    testbed = variant(device_edge_mbps, edge_cores=edge_cores, devices=devices)
    return simulated(testbed, [MODELS["alexnet"]], batch_size, planners=["hiertrain"])


def sharing(
    batch_size: int = BATCH_SIZE,
    device_edge_mbps: float = DEVICE_EDGE_MBPS,
    edge_cores: int = CORES_USED,
    devices: int = 1,
) -> pl.DataFrame:
    """Every planner's iteration of both models, simulated; see `simulated`."""
    testbed = variant(device_edge_mbps, edge_cores=edge_cores, devices=devices)
    return simulated(testbed, list(MODELS.values()), batch_size)


SIMULATED = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "device_edge_mbps": pl.Float64,
    "edge_cloud_mbps": pl.Float64,
    "edge_cores": pl.Int64,
    "devices": pl.Int64,
    "planner": pl.String,
    "sharing": pl.String,
    "predicted_s": pl.Float64,
    "simulated_s": pl.Float64,
    "difference_percent": pl.Float64,
}


def simulated(
    testbed: Testbed,
    models: Iterable[str],
    batch_size: int = BATCH_SIZE,
    bandwidths_mbps: Iterable[float] = EDGE_CLOUD_MBPS,
    planners: Iterable[str] = tuple(PLANNERS),
) -> pl.DataFrame:
    """One iteration under every planner's policy, message by message, beside the cost model's.

    With ``sharing`` ``none`` every message has its pair's whole bandwidth, as the cost model
    assumes; with ``interfaces`` concurrent messages share the machines' interfaces (`cluster_of`).

    A row per model, bandwidth, planner and sharing: the setting, ``predicted_s, simulated_s,
    difference_percent`` (simulated over predicted, minus one).
    """
    points = grid(model=models, edge_cloud_mbps=bandwidths_mbps, planner=planners)
    shared = {
        "testbed": testbed,
        "batch_size": batch_size,
        "device_edge_mbps": testbed.device_edge_mbps,
        "edge_cores": testbed.edge_cores,
        "devices": testbed.devices,
    }
    return sweep("Simulated iterations", _shared, points, SIMULATED, shared=shared)


def _shared(
    *,
    testbed: Testbed,
    model: str,
    batch_size: int,
    edge_cloud_mbps: float,
    planner: str,
    **_: object,
) -> list[dict[str, object]]:
    here = replace(testbed, edge_cloud_mbps=float(edge_cloud_mbps))
    problem = here.problem(model, batch_size)
    policy = choose("planner", planner, PLANNERS)(problem)
    predicted_s = iteration(problem, policy).total_s
    rows: list[dict[str, object]] = []
    for shared in SHARING:
        simulated_s = one_iteration(problem, policy, shared).end_s
        rows.append(
            {
                "sharing": shared,
                "predicted_s": predicted_s,
                "simulated_s": simulated_s,
                "difference_percent": 100 * (simulated_s / predicted_s - 1),
            }
        )
    return rows


def one_iteration(
    problem: Problem, policy: Policy, sharing: str = "none", *, trace: bool = False
) -> Run:
    """Simulate an iteration in which only bytes move."""
    programs = programs_of(problem, policy, 1, sharing=sharing)
    return whole(simulate(cluster_of(problem, sharing), programs, trace=trace))


_SETTING: dict[str, Any] = {
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
    scale: str = "default",
    seed: int = 1,
    dataset: str = "auto",
    batch_size: int = TRAINED_BATCH,
    edge_cloud_mbps: float = FIG11_MBPS,
    *,
    seeds: int | None = None,
) -> pl.DataFrame:
    """LeNet-5 trained under every planner's policy: accuracy by virtual time.

    Deviation: below scale ``paper`` other data than CIFAR-10.

    A row per seed, planner and epoch: ``model, dataset, train_samples, test_samples, batch_size,
    edge_cloud_mbps, seed, planner, policy, reason`` (null), ``epoch, at_s, loss, train_top1,
    train_top5, top1, top5``. A training that diverged is one row with its ``reason``.

    Parameters
    ----------
    scale, seed
        How much is trained, and the first seed.
    dataset
        As for `workbench.experiments.data_set`.
    seeds
        How many; the scale's by default.

    Raises
    ------
    DatasetError
        The data is neither here nor to be had; no other is taken in its place.
    """
    shared = _sizes(scale, dataset, batch_size, edge_cloud_mbps)
    points = grid(seed=seeds_from(seed, seeds, scales.SEEDS.at(scale)), planner=PLANNERS)
    schema = _SETTING | {"planner": pl.String, "policy": pl.String} | _EPOCHS
    processes = scales.PROCESSES.at(scale)
    return sweep(
        "Accuracy",
        _under_planner,
        points,
        schema,
        shared=shared,
        processes=processes,
        failures=TrainingError,
    )


def _under_planner(planner: str, **setting: Any) -> pl.DataFrame:
    policy = PLANNERS[planner](_problem(**setting))
    return _trained(policy, **setting).with_columns(policy=pl.lit(str(policy)))


def jalad_bits(
    scale: str = "default",
    seed: int = 1,
    dataset: str = "auto",
    batch_size: int = TRAINED_BATCH,
    edge_cloud_mbps: float = EDGE_CLOUD_MBPS[0],
    *,
    seeds: int | None = None,
) -> pl.DataFrame:
    """LeNet-5 under JALAD with c bits a value: what they save in time and cost in accuracy.

    The cut is the one between edge and cloud that is fastest with the paper's eight bits, and the
    same for all c; c = 32 sends values as they are. Once gradients come back in as many bits, and
    once as they are.

    Deviation: JALAD itself leaves all of LeNet-5 to the edge here (Fig. 10), where no feature is
    sent and bits are all the same; so cuts that send none are left out.

    As `accuracy`, but ``bits, gradient_bits, cut`` (layers on the edge) and ``iteration_s`` for the
    planner. What diverges has the epochs that were done, or a row of nulls, and a ``reason``.
    """
    shared = _sizes(scale, dataset, batch_size, edge_cloud_mbps)
    bits = [
        {"bits": bits, "gradient_bits": gradient_bits}
        for bits in scales.BITS.at(scale)
        for gradient_bits in dict.fromkeys((bits, 32))
    ]
    each = seeds_from(seed, seeds, scales.SEEDS.at(scale))
    points = [{"seed": own, **one} for own in each for one in bits]
    counts = dict.fromkeys(("bits", "gradient_bits", "cut"), pl.Int64)
    schema = _SETTING | counts | {"iteration_s": pl.Float64} | _EPOCHS
    processes = scales.PROCESSES.at(scale)
    return sweep("JALAD's bits", _in_bits, points, schema, shared=shared, processes=processes)


def _in_bits(bits: int, gradient_bits: int, **setting: Any) -> pl.DataFrame:
    problem = _problem(**setting)

    def cut_at(layers: int, bits: int, gradient_bits: int) -> Chain:
        tiers = ("edge",) * layers + ("cloud",) * (problem.layers - layers)
        return Chain(tiers, problem.batch, bits, gradient_bits)

    def seconds(layers: int) -> float:
        return iteration(problem, cut_at(layers, BITS, BITS)).total_s

    cut = min(range(1, problem.layers), key=seconds)
    policy, reason = cut_at(cut, bits, gradient_bits), None
    try:
        epochs = _trained(policy, **setting)
    except TrainingError as error:
        done, reason = error.trained.epochs, str(error)
        epochs = _about(done if len(done) else done.clear(1), **setting)
    iteration_s = iteration(problem, policy).total_s
    return epochs.with_columns(
        cut=pl.lit(cut), iteration_s=pl.lit(iteration_s), reason=pl.lit(reason, pl.String)
    )


def _sizes(scale: str, dataset: str, batch_size: int, edge_cloud_mbps: float) -> dict[str, Any]:
    return {
        "source": data_set(scale, "cifar10", dataset),
        "samples": scales.SAMPLES.at(scale),
        "epochs": scales.EPOCHS.at(scale),
        "batch_size": batch_size,
        "edge_cloud_mbps": edge_cloud_mbps,
    }


def _problem(*, batch_size: int, edge_cloud_mbps: float, **_: object) -> Problem:
    return variant(edge_cloud_mbps=edge_cloud_mbps).problem(MODELS["lenet5"], batch_size)


@loaded_once
def _data(source: str, samples: int | None, seed: int) -> Dataset:
    from workbench import datasets

    loaded = datasets.load(source)
    return loaded.limit(train=samples, test=samples, seed=seed).fitted((3, 32, 32))


def _trained(policy: Policy, *, epochs: int, steps: Steps, **setting: Any) -> pl.DataFrame:
    """Epochs of LeNet-5 under a policy, with what was trained on."""
    from workbench import training
    from workbench.hiertrain.training import Setup, train

    problem = _problem(**setting)
    setup = Setup(
        MODELS["lenet5"],
        _data(setting["source"], setting["samples"], setting["seed"]),
        problem,
        epochs=epochs,
        sgd=training.Sgd(LEARNING_RATE, momentum=MOMENTUM),
        seed=setting["seed"],
    )
    end_s = setup.epoch_ends[-1] * iteration(problem, policy).total_s
    trained = train(setup, policy, progress=steps.until(end_s))
    whole(trained.run)  # one policy's epochs alone would compare nothing
    return _about(trained.epochs, **setting)


def _about(
    epochs: pl.DataFrame, /, *, source: str, samples: int | None, seed: int, **_: object
) -> pl.DataFrame:
    data = _data(source, samples, seed)
    return epochs.with_columns(
        model=pl.lit(MODELS["lenet5"]),
        dataset=pl.lit(data.name),
        train_samples=len(data.y_train),
        test_samples=len(data.y_test),
    )
