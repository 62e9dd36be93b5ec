"""Jobs of one worker and one server whose links carry 8 Mbit/s: a million bytes a second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from workbench.clusters import Link, star
from workbench.dynacomm import LayerCosts
from workbench.dynacomm.programs.job import Job
from workbench.dynacomm.programs.shards import Shards, split_evenly
from workbench.dynacomm.programs.worker_and_server import Planning, server, worker
from workbench.runtime import Run, simulate

BPS = 8e6
BYTES_PER_S = BPS / 8


def whole_layers(owners: Sequence[int], servers: int, starts: Sequence[int] = ()) -> Shards:
    """Server ``owners[l]`` holds all of layer l+1."""
    share = np.zeros((servers, len(owners)))
    share[list(owners), range(len(owners))] = 1.0
    return Shards(share, starts)  # type: ignore[arg-type]


def job_of(
    costs: LayerCosts,
    iterations: int = 3,
    workers: int = 1,
    shards: Shards | None = None,
) -> Job:
    """A job whose layers take on a link of `BPS` what the costs say."""
    shards = split_evenly(costs.layers, 1) if shards is None else shards
    return Job(
        forward_s=costs.forward_s,
        backward_s=costs.backward_s,
        pull_bytes=costs.pull_s * BYTES_PER_S,
        push_bytes=costs.push_s * BYTES_PER_S,
        shards=shards,
        iterations=iterations,
        workers=tuple(range(workers)),
        servers=tuple(range(workers, workers + shards.servers)),
    )


def run_job(job: Job, planning: Planning[Any], link: Link, down: Link | None = None) -> Run:
    """Simulate a job; every worker plans alike. `down` leads from servers to workers."""
    cluster = star(len(job.workers), len(job.servers), link, down)
    programs = [worker(job, planning) for _ in job.workers]
    programs += [server(job, position) for position in range(len(job.servers))]
    return simulate(cluster, programs, trace=True)


def longer(job: Job, iterations: int) -> Job:
    """The same job with another number of iterations."""
    return replace(job, iterations=iterations)


def vectors(*rows: ArrayLike, overhead_s: float) -> LayerCosts:
    """Costs of pull, forward, backward and push."""
    pull_s, forward_s, backward_s, push_s = rows
    return LayerCosts(pull_s, forward_s, backward_s, push_s, overhead_s)
