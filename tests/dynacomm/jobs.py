"""Jobs of one worker and one server whose links carry 8 Mbit/s: a million bytes a second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.clusters import Link, star
from workbench.dynacomm import LayerCosts
from workbench.dynacomm.programs.job import Job, Shards, split_evenly
from workbench.dynacomm.programs.worker_and_server import Planning, server, worker
from workbench.runtime import Run, simulate

BPS = 8e6
BYTES_PER_S = BPS / 8


def whole_layers(owners: Sequence[int], servers: int, starts: Sequence[int] = ()) -> Shards:
    """Server ``owners[l]`` holds all of layer l+1."""
    share = np.zeros((servers, len(owners)))
    share[list(owners), range(len(owners))] = 1.0
    return Shards(share, starts)


def job_of(
    costs: LayerCosts, iterations: int = 3, workers: int = 1, shards: Shards | None = None
) -> Job:
    """A job whose layers take on a link of `BPS` what the costs say."""
    return Job(
        forward_s=costs.forward_s,
        backward_s=costs.backward_s,
        pull_bytes=costs.pull_s * BYTES_PER_S,
        push_bytes=costs.push_s * BYTES_PER_S,
        shards=split_evenly(costs.layers, 1) if shards is None else shards,
        iterations=iterations,
        workers=workers,
    )


def run_job(job: Job, planning: Planning[Any], link: Link, down: Link | None = None) -> Run:
    """Simulate a job; every worker plans alike. `down` leads from servers to workers."""
    cluster = star(job.workers, job.shards.servers, link, down)
    programs = [worker(job, planning) for _ in range(job.workers)]
    programs += [server(job, position) for position in range(job.shards.servers)]
    return simulate(cluster, programs, trace=True)
