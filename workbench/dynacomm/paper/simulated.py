"""The testbed as a cluster and its training as a job, for the simulations."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from workbench.clusters import Cluster, Link, Node, star
from workbench.dynacomm.paper.testbed import Testbed
from workbench.dynacomm.programs.job import Job
from workbench.dynacomm.programs.shards import split_evenly
from workbench.errors import UserError
from workbench.profiles import profile_model
from workbench.runtime import Run


def job_of(testbed: Testbed, model: str, batch_size: int, iterations: int) -> Job:
    """Training of a model of the zoo on the testbed, every layer split over all servers."""
    profile = profile_model(model)
    return Job.of(
        profile,
        testbed.times(model, batch_size),
        testbed.link,
        shards=split_evenly(len(profile), testbed.servers),
        iterations=iterations,
        workers=testbed.workers,
        aggregation_s=testbed.aggregation_s(profile),
    )


def cluster_of(testbed: Testbed, speeds: Sequence[float] | None = None) -> Cluster:
    """Workers and servers of the testbed; their interfaces are shared, their links no narrower.

    `speeds` is one for each worker, 1 being the testbed's; all 1 by default.
    """
    rate_bps = testbed.bandwidth_mbps * 1e6 * testbed.constants.link_efficiency
    of_workers = [1.0] * testbed.workers if speeds is None else list(speeds)
    if len(of_workers) != testbed.workers:
        raise UserError(f"{len(of_workers)} speeds for {testbed.workers} workers; give one each")

    def nodes(kind: str, speeds: Sequence[float]) -> list[Node]:
        return [
            Node(f"{kind}{index}", speed=speed, uplink_bps=rate_bps, downlink_bps=rate_bps)
            for index, speed in enumerate(speeds)
        ]

    link = Link(rate_bps, overhead_s=testbed.link.overhead_s, tensor_s=testbed.link.tensor_s)
    return star(nodes("worker", of_workers), nodes("server", [1.0] * testbed.servers), link)


def iteration_ends_s(run: Run) -> list[float]:
    """When each iteration ended: all servers have stepped."""
    assert run.trace is not None
    steps = run.trace.frame.filter(pl.col("lane") == "step")
    ends = steps.group_by(pl.col("label").cast(pl.Int64)).agg(pl.col("end_s").max())
    return ends.sort("label")["end_s"].to_list()
