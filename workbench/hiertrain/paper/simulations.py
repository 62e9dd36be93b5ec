"""HierTrain on the simulated network: Fig. 6, what sharing costs, and training for real.

`simulated` moves bytes and charges seconds; `accuracy` and `jalad_bits` compute true gradients.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from workbench.hiertrain.algorithms import PLANNERS
from workbench.hiertrain.costs.iteration import iteration
from workbench.hiertrain.costs.policy import Chain, Policy
from workbench.hiertrain.costs.problem import Problem
from workbench.hiertrain.paper.testbed import (
    BATCH_SIZE,
    DEVICE_EDGE_MBPS,
    EDGE_CLOUD_MBPS,
    FIG11_MBPS,
    MODELS,
    Testbed,
    variant,
)
from workbench.hiertrain.programs.cluster import SHARING, cluster_of
from workbench.hiertrain.programs.serve import programs_of
from workbench.interrupted import keeping
from workbench.names import choose
from workbench.runtime import Run, progress, simulate

if TYPE_CHECKING:
    from workbench.datasets import Dataset


class Scale(NamedTuple):
    """How much of what can be made smaller is run."""

    samples: int | None  # of a data set; None for all
    epochs: int
    seeds: int
    bits: Sequence[int]  # JALAD's c


SCALES = {
    "smoke": Scale(160, 1, 1, (1, 8, 32)),
    "default": Scale(1500, 6, 1, (1, 2, 3, 4, 5, 6, 7, 8, 32)),
    "paper": Scale(None, 50, 5, (1, 2, 3, 4, 5, 6, 7, 8, 32)),
}
"""What each scale means for the simulations; Fig. 6 and `simulated` are always whole."""

TRAINED_BATCH = 32  # of 128 the digits make too few iterations to learn much in
LEARNING_RATE, MOMENTUM = 0.05, 0.5


def fig6(
    batch_size: int = BATCH_SIZE,
    device_edge_mbps: float = DEVICE_EDGE_MBPS,
    edge_cores: int = 1,
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
    edge_cores: int = 1,
    devices: int = 1,
) -> pl.DataFrame:
    """Every planner's iteration of both models, simulated; see `simulated`."""
    testbed = variant(device_edge_mbps, edge_cores=edge_cores, devices=devices)
    return simulated(testbed, list(MODELS.values()), batch_size)


def simulated(
    testbed: Testbed,
    models: Iterable[str],
    batch_size: int = BATCH_SIZE,
    bandwidths_mbps: Iterable[float] = EDGE_CLOUD_MBPS,
    planners: Iterable[str] = tuple(PLANNERS),
) -> pl.DataFrame:
    """One iteration under every planner's policy, message by message, beside the cost model's.

    Every policy runs twice: with ``sharing`` ``none`` every message has its pair's whole
    bandwidth, as the cost model assumes; with ``interfaces`` what is sent at the same time shares
    the machines' interfaces. See `workbench.hiertrain.programs.serve.cluster_of`.

    Returns
    -------
    polars.DataFrame
        A row per model, bandwidth, planner and sharing: the setting, ``predicted_s, simulated_s,
        difference_percent`` (simulated over predicted, minus one).
    """
    rows = []
    for model in models:
        for mbps in bandwidths_mbps:
            here = replace(testbed, edge_cloud_mbps=float(mbps))
            problem = here.problem(model, batch_size)
            for planner in planners:
                policy = choose("planner", planner, PLANNERS)(problem)
                predicted_s = iteration(problem, policy).total_s
                for shared in SHARING:
                    simulated_s = one_iteration(problem, policy, shared).end_s
                    rows.append(
                        {
                            "model": model,
                            "batch_size": batch_size,
                            "device_edge_mbps": here.device_edge_mbps,
                            "edge_cloud_mbps": here.edge_cloud_mbps,
                            "edge_cores": here.edge_cores,
                            "devices": here.devices,
                            "planner": planner,
                            "sharing": shared,
                            "predicted_s": predicted_s,
                            "simulated_s": simulated_s,
                            "difference_percent": 100 * (simulated_s / predicted_s - 1),
                        }
                    )
    return pl.DataFrame(rows)


def one_iteration(
    problem: Problem, policy: Policy, sharing: str = "none", *, trace: bool = False
) -> Run:
    """Simulate an iteration in which only bytes move."""
    programs = programs_of(problem, policy, 1, sharing=sharing)
    return _whole(simulate(cluster_of(problem, sharing), programs, trace=trace))


def accuracy(
    scale: str = "default",
    seed: int = 1,
    dataset: str = "auto",
    batch_size: int = TRAINED_BATCH,
    edge_cloud_mbps: float = FIG11_MBPS,
) -> pl.DataFrame:
    """LeNet-5 trained under every planner's policy: accuracy by virtual time.

    Deviation: digits instead of CIFAR-10 where `dataset_of` says so.

    Parameters
    ----------
    scale, seed
        How much is trained, and the first of the scale's seeds.
    dataset
        A name or a path, as for `workbench.datasets.load`; ``"auto"`` for `dataset_of`'s choice.

    Returns
    -------
    polars.DataFrame
        A row per seed, planner and epoch: ``model, dataset, train_samples, test_samples,
        batch_size, edge_cloud_mbps, seed, planner, policy, epoch, at_s, loss, train_top1,
        train_top5, top1, top5``,
        and ``reason``, which is null.

    Raises
    ------
    DatasetError
        The data is neither here nor to be had; no other is taken in its place.
    """
    problem = variant(edge_cloud_mbps=edge_cloud_mbps).problem(MODELS["lenet5"], batch_size)
    policies = {name: planner(problem) for name, planner in PLANNERS.items()}
    cases = [({"planner": name, "policy": str(one)}, one) for name, one in policies.items()]
    return _trained(
        "Accuracy",
        scale,
        seed=seed,
        dataset=dataset,
        problem=problem,
        edge_cloud_mbps=edge_cloud_mbps,
        cases=cases,
    )


def jalad_bits(
    scale: str = "default",
    seed: int = 1,
    dataset: str = "auto",
    batch_size: int = TRAINED_BATCH,
    edge_cloud_mbps: float = EDGE_CLOUD_MBPS[0],
) -> pl.DataFrame:
    """LeNet-5 under JALAD with c bits a value: what they save in time and cost in accuracy.

    The cut is the one between edge and cloud that is fastest with the paper's eight bits, and the
    same for all c; c = 32 sends values as they are. Once gradients come back in as many bits, and
    once as they are.

    Deviation: JALAD itself leaves all of LeNet-5 to the edge here (Fig. 10), where no feature is
    sent and bits are all the same; so cuts that send none are left out.

    Returns
    -------
    polars.DataFrame
        As `accuracy`, but ``bits, gradient_bits, cut`` (layers on the edge) and ``iteration_s``
        for the planner. What diverges has the epochs that were done, or a row of nulls, and a
        ``reason``.
    """
    problem = variant(edge_cloud_mbps=edge_cloud_mbps).problem(MODELS["lenet5"], batch_size)

    def cut_at(layers: int, bits: int, gradient_bits: int) -> Chain:
        tiers = ("edge",) * layers + ("cloud",) * (problem.layers - layers)
        return Chain(tiers, batch_size, bits, gradient_bits)

    def seconds(layers: int) -> float:
        return iteration(problem, cut_at(layers, 8, 8)).total_s

    cut = min(range(1, problem.layers), key=seconds)
    cases = []
    for bits in choose("scale", scale, SCALES).bits:
        for gradient_bits in dict.fromkeys((bits, 32)):
            policy = cut_at(cut, bits, gradient_bits)
            about = {"bits": bits, "gradient_bits": gradient_bits, "cut": cut}
            cases.append((about | {"iteration_s": iteration(problem, policy).total_s}, policy))
    return _trained(
        "JALAD's bits",
        scale,
        seed=seed,
        dataset=dataset,
        problem=problem,
        edge_cloud_mbps=edge_cloud_mbps,
        cases=cases,
        may_fail=True,
    )


def _trained(
    title: str,
    scale: str,
    *,
    seed: int,
    dataset: str,
    problem: Problem,
    edge_cloud_mbps: float,
    cases: Sequence[tuple[dict[str, Any], Policy]],
    may_fail: bool = False,
) -> pl.DataFrame:
    from workbench import training
    from workbench.hiertrain.training.train import Setup, TrainingError, train

    sizes = choose("scale", scale, SCALES)
    frames: list[pl.DataFrame] = []
    with (
        progress.steps(title, sizes.seeds * len(cases)) as told,
        keeping(lambda: pl.concat(frames) if frames else pl.DataFrame()),
    ):
        for own_seed in range(seed, seed + sizes.seeds):
            data = _data(scale, dataset, own_seed)
            setup = Setup(
                MODELS["lenet5"],
                data,
                problem,
                epochs=sizes.epochs,
                sgd=training.Sgd(LEARNING_RATE, momentum=MOMENTUM),
                seed=own_seed,
            )
            about = {
                "model": setup.model,
                "dataset": data.name,
                "train_samples": len(data.y_train),
                "test_samples": len(data.y_test),
                "batch_size": problem.batch,
                "edge_cloud_mbps": edge_cloud_mbps,
                "seed": own_seed,
            }
            iterations = setup.epoch_ends[-1] + 1
            for case, policy in cases:
                told(", ".join(f"{name} {value}" for name, value in list(case.items())[:2]))
                end_s = iterations * iteration(problem, policy).total_s
                reason = None
                try:
                    trained = train(setup, policy, progress=partial(_so_far, told, end_s))
                except TrainingError as error:
                    if not may_fail:
                        raise
                    trained, reason = error.trained, str(error)
                else:
                    _whole(trained.run)  # one policy's epochs alone would compare nothing
                row = about | case | {"reason": reason}
                epochs = trained.epochs if len(trained.epochs) else _no_epoch(trained.epochs)
                named = pl.DataFrame([row] * len(epochs), schema_overrides={"reason": pl.String})
                frames.append(named.hstack(epochs))
    return pl.concat(frames)


def _no_epoch(epochs: pl.DataFrame) -> pl.DataFrame:
    """One row of nulls, to keep what failed before its first epoch."""
    return pl.DataFrame({name: [None] for name in epochs.columns}, schema=epochs.schema)


def _so_far(told: progress.Steps, end_s: float, now_s: float, events: int) -> None:
    del events
    told.within(f"{min(99.0, 100 * now_s / end_s):.0f} % of {end_s:,.0f} virtual seconds")


def _data(scale: str, dataset: str, seed: int) -> Dataset:
    from workbench import datasets

    samples = choose("scale", scale, SCALES).samples
    loaded = datasets.load(dataset_of(scale) if dataset == "auto" else dataset)
    return loaded.limit(train=samples, test=samples, seed=seed).fitted((3, 32, 32))


def dataset_of(scale: str) -> str:
    """Name what is learnt from unless told.

    CIFAR-10, as in the paper, at scale ``paper``, and at ``default`` where it is on this machine
    already (see `workbench.datasets.data_folder`), of which some thousand samples are taken then;
    else digits, which need no network.
    """
    from workbench.datasets import cifar10, data_folder

    if scale == "paper" or (scale == "default" and cifar10.present(data_folder())):
        return "cifar10"
    return "digits"


def _whole(run: Run) -> Run:
    """Pass Ctrl-C on: half a simulation is no row of an experiment."""
    if run.interrupted:
        raise KeyboardInterrupt
    return run
