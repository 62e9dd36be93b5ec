"""The paper's testbed as a job and a cluster to simulate, and how its bandwidth may change."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl

from workbench.clusters import Cluster, Link, Node, Schedule, star
from workbench.dynacomm.paper.testbed import Testbed
from workbench.dynacomm.programs.job import Job
from workbench.dynacomm.programs.shards import split_evenly
from workbench.dynacomm.replanning.mobile_trace import TRACE
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

    Parameters
    ----------
    testbed
        How many, and how fast their interfaces are.
    speeds
        Of each worker, 1 being that of the testbed's; all 1 by default.

    Raises
    ------
    ValueError
        Not one speed for each worker, or one that is not above 0.
    """
    rate_bps = testbed.bandwidth_mbps * 1e6 * testbed.constants.link_efficiency
    given = [1.0] * testbed.workers if speeds is None else list(speeds)
    if len(given) != testbed.workers:
        raise ValueError(f"{len(given)} speeds for {testbed.workers} workers; give one each")

    def nodes(kind: str, speeds: Sequence[float]) -> list[Node]:
        return [
            Node(f"{kind}{index}", speed=speed, uplink_bps=rate_bps, downlink_bps=rate_bps)
            for index, speed in enumerate(speeds)
        ]

    link = Link(rate_bps, overhead_s=testbed.link.overhead_s, tensor_s=testbed.link.tensor_s)
    return star(nodes("worker", given), nodes("server", [1.0] * testbed.servers), link)


def iteration_ends_s(run: Run) -> list[float]:
    """When each iteration ended: all servers have stepped."""
    assert run.trace is not None
    steps = run.trace.frame.filter(pl.col("lane") == "step")
    ends = steps.group_by(pl.col("label").cast(pl.Int64)).agg(pl.col("end_s").max())
    return ends.sort("label")["end_s"].to_list()


def sawtooth(high_bps: float, low_bps: float, period_s: float, until_s: float) -> Schedule:
    """Fall in ten levels, jump back."""

    def level(at_s: float) -> float:
        fallen = int(at_s / period_s * 10 + 0.5) % 10 / 9
        return high_bps + (low_bps - high_bps) * fallen

    return Schedule.sampled(level, step_s=period_s / 10, end_s=until_s)


def mobile(seed: int, until_s: float) -> Schedule:
    """The trace from a second on that the seed draws, again from its beginning when it ends."""
    trace = Schedule.from_csv(TRACE, scale=1e6)
    first = int(np.random.default_rng(seed).integers(len(trace.values)))
    seconds = range(max(1, math.ceil(until_s)))
    return Schedule(
        tuple(float(second) for second in seconds),
        tuple(trace.values[(first + second) % len(trace.values)] for second in seconds),
    )
