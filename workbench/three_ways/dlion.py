"""DLion: unequal workers that exchange gradients, whole or in part.

Hetero SYS A are the paper's six workers (Table 3) with its stated, assumed and fitted constants,
all seconds divided by `TIMES_AS_FAST`, and the bytes of LeNet-5 in place of Cipher's over links as
much slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from workbench.clusters import Link, Node, full_mesh, load_constants
from workbench.dlion import SYSTEMS, Setup
from workbench.dlion.costs.environments import ENVIRONMENTS, STATED
from workbench.dlion.costs.iteration import Workload, first_iterations
from workbench.profiles import profile_model
from workbench.three_ways.case import Arm, Case
from workbench.three_ways.samples import digits

MODEL, LOCAL_BATCH, ITERATIONS = "lenet5", 16, 12
COMPARED = ("baseline", "max10", "dlion")
FLOPS_PER_S = 2e8
MBPS = 20.0
TIMES_AS_FAST, SYS_A_BATCH, SYS_A_ITERATIONS = 6.0, 4, 4


def cases() -> Iterator[Case]:
    """Baseline, Max 10 and DLion, on four workers and in Hetero SYS A."""
    for system in COMPARED:
        yield case(system, MBPS)
        yield hetero_sys_a(system)


def case(
    system: str,
    mbps: float,
    *,
    model: str = MODEL,
    local_batch: int = LOCAL_BATCH,
    workers: int = 4,
    seed: int = 0,
    sample_s: float | None = None,
) -> Case:
    """A system on workers of which each is faster than the last.

    With `sample_s` of this machine, unpadded: all workers are as fast.
    """
    faster = 1 if sample_s is None else 0
    machines = [Node(f"worker{index}", speed=1 + faster * index) for index in range(workers)]
    setup = Setup(
        model,
        digits(384 if sample_s is None else 4 * local_batch * workers, model),
        cluster=full_mesh(machines, Link(mbps * 1e6, 0.002)),
        iterations=ITERATIONS,
        local_batch=local_batch,
        sample_s=sample_s,
        flops_per_s=FLOPS_PER_S,
        evaluate_every=10 * ITERATIONS,
        seed=seed,
    )
    setting = f"{model}, {workers} workers, {mbps:g} Mbit/s"
    return _case(system, setting, setup, "padded" if sample_s is None else "unpadded")


def hetero_sys_a(system: str, *, seed: int = 0) -> Case:
    """A system in Hetero SYS A."""
    constants = load_constants("dlion", "own")
    own, timed = (profile_model(name).param_bytes for name in (MODEL, "cipher"))
    cluster = ENVIRONMENTS["hetero_sys_a"].cluster(
        parallel_share=constants["parallel_share"],
        link_share=constants["link_share"],
        carries=TIMES_AS_FAST * own / timed,
    )
    batch_s = STATED["batches"]["initial_lbs"] * constants["sample_ms"] / 1e3
    setup = Setup(
        MODEL,
        digits(384),
        cluster=cluster,
        iterations=SYS_A_ITERATIONS,
        local_batch=SYS_A_BATCH,
        sample_s=batch_s / SYS_A_BATCH / TIMES_AS_FAST,
        host_s=constants["host_ms"] / 1e3 / TIMES_AS_FAST,
        evaluate_every=10 * SYS_A_ITERATIONS,
        seed=seed,
    )
    return _case(system, f"{MODEL}, Hetero SYS A", setup)


def _case(system: str, setting: str, setup: Setup, arm: Arm = "padded") -> Case:
    assert setup.iterations is not None
    return Case(
        system="dlion",
        setting=setting,
        choice=system,
        arm=arm,
        setup=setup,
        how=SYSTEMS[system],
        iterations=setup.iterations,
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
