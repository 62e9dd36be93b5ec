"""DLion: four unequal workers that exchange gradients, whole or in part."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from workbench.clusters import Link, Node, full_mesh
from workbench.dlion import SYSTEMS, Setup
from workbench.dlion.costs.iteration import Workload, first_iterations
from workbench.three_ways.case import Case
from workbench.three_ways.samples import digits

MODEL, LOCAL_BATCH, ITERATIONS = "lenet5", 16, 12
COMPARED = ("baseline", "max10", "dlion")
FLOPS_PER_S = 2e8
MBPS = 20.0


def cases() -> Iterator[Case]:
    """Baseline, Max 10 and DLion."""
    for system in COMPARED:
        yield case(system, MBPS)


def case(
    system: str, mbps: float, *, local_batch: int = LOCAL_BATCH, workers: int = 4, seed: int = 0
) -> Case:
    """A system on workers of which each is faster than the last."""
    machines = [Node(f"worker{index}", speed=1 + index) for index in range(workers)]
    setup = Setup(
        MODEL,
        digits(384),
        cluster=full_mesh(machines, Link(mbps * 1e6, 0.002)),
        iterations=ITERATIONS,
        local_batch=local_batch,
        flops_per_s=FLOPS_PER_S,
        evaluate_every=10 * ITERATIONS,
        seed=seed,
    )
    return Case(
        system="dlion",
        setting=f"{MODEL}, {workers} workers, {mbps:g} Mbit/s",
        choice=system,
        setup=setup,
        how=SYSTEMS[system],
        iterations=ITERATIONS,
        predict=partial(predicted_s, setup, system),
        predicted_by="dry run",
        ordered=True,
        duplex=True,
        seconds=last_iteration_s,
    )


def predicted_s(setup: Setup, system: str) -> float:
    """Seconds of an iteration in a dry run of as many; shares of gradients are the stored ones."""
    workload = Workload(
        setup.profile.param_bytes, setup.seconds_per_sample, setup.host_s, setup.local_batch
    )
    assert setup.iterations is not None
    done = first_iterations(
        setup.network,
        workload,
        system,
        setup.iterations,
        seed=setup.seed,
        samples=setup.samples,
    )
    return float(done["at_s"].max()) / setup.iterations  # type: ignore[arg-type]


def last_iteration_s(trained: Any) -> float:
    """Seconds until all workers have done their last iteration."""
    return float(trained.iterations["at_s"].max())
