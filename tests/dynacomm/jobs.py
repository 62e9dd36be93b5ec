"""Jobs of one worker and one server whose links carry 8 Mbit/s: a million bytes a second."""

from __future__ import annotations

from typing import Any

from workbench.clusters import Link, star
from workbench.dynacomm import LayerCosts
from workbench.dynacomm.programs import Job, Policy, Server, Worker
from workbench.runtime import Run, simulate

BPS = 8e6
BYTES_PER_S = BPS / 8


def job_of(costs: LayerCosts, iterations: int = 3, workers: int = 1, servers: int = 1) -> Job:
    """A job whose layers take on a link of `BPS` what the costs say."""
    return Job(
        forward_s=costs.forward_s,
        backward_s=costs.backward_s,
        pull_bytes=costs.pull_s * BYTES_PER_S,
        push_bytes=costs.push_s * BYTES_PER_S,
        iterations=iterations,
        workers=workers,
        servers=servers,
    )


def run_job(job: Job, policy: Policy[Any], link: Link, down: Link | None = None) -> Run:
    """Simulate a job; every worker plans alike. `down` leads from servers to workers."""
    cluster = star(job.workers, job.servers, link, down)
    programs: list[Any] = [Worker(job, policy) for _ in range(job.workers)]
    programs += [Server(job, position) for position in range(job.servers)]
    return simulate(cluster, programs, trace=True)
