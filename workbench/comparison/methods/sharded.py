"""Data-parallel training that shares out state, gradients and parameters (ZeRO), or overlaps them.

Each plan is the fastest of several sizes of buckets; see `workbench.sharding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import permutations

import numpy as np

from workbench.comparison.cost import Phase
from workbench.comparison.memory import NodeMemory
from workbench.comparison.methods import all_reduce
from workbench.comparison.methods.batches import assumes, equal
from workbench.comparison.methods.method import EQUAL, Candidate, Method, Plan, fastest
from workbench.comparison.problem import Problem
from workbench.sharding import Plan as Sharding
from workbench.sharding import Problem as ShardedProblem
from workbench.sharding import iteration_s, memory_bytes
from workbench.sharding.costs import lacking
from workbench.sharding.planners import plans
from workbench.sharding.programs import dry_run

MOST_MESSAGES = 4096
"""Largest number of nodes squared times buckets that is simulated, apart from one bucket."""


def plan(problem: Problem, stage: int) -> Plan:
    """All data owners learn from a batch and share out what a stage of ZeRO says.

    The fastest size of buckets in which the fewest nodes lack memory. In stage 0 an all-reduce
    after the backward pass is a candidate as well.
    """
    samples, nodes = equal(problem), all_reduce.nodes(problem)
    sharded = costs_of(problem, nodes, samples[nodes[0]])
    total = sum(samples.values())
    candidates = []
    for sharding in plans(sharded, stage):
        if not sharding.cuts or len(nodes) ** 2 * (len(sharding.cuts) + 1) <= MOST_MESSAGES:
            predicted_s = iteration_s(sharded, sharding)
            made = partial(_planned, problem, sharded, sharding, predicted_s)
            lacks = lacking(sharded, sharding)
            candidates.append(Candidate(lacks, predicted_s / total, made))
    if stage == 0:
        lacks = lacking(sharded, Sharding(stage=0))
        whole = partial(all_reduce.plan, problem, batches=equal)
        candidates.append(Candidate(lacks, candidates[0].least_s, whole))
    return fastest(problem, candidates)


def costs_of(problem: Problem, nodes: Sequence[int], samples: int) -> ShardedProblem:
    """The problem of nodes that learn from this many samples each, as sharding sees it."""
    times = [problem.layer_times(node, samples).table for node in nodes]
    speeds = np.array([[problem.speeds[node]] for node in nodes])
    seconds = {
        column: np.stack([table[column].to_numpy() for table in times]) / speeds
        for column in ("forward_s", "backward_s", "update_s")
    }
    needed, places = problem.needed_bytes(samples), range(len(nodes))
    other_bytes = None
    if needed is not None:
        other_bytes = np.full(len(nodes), max(0.0, needed - 2 * problem.model_bytes))
    limits = [problem.cluster.nodes[node].memory_bytes for node in nodes]
    return ShardedProblem(
        **seconds,
        param_bytes=problem.profile.table["param_bytes"].to_numpy(),
        links={(a, b): problem.routes.link(nodes[a], nodes[b]) for a, b in permutations(places, 2)},
        tied=tuple(weight.layers for weight in problem.profile.tied),
        other_bytes=other_bytes,
        memory_bytes=np.array([np.inf if limit is None else limit for limit in limits]),
    )


def _planned(
    problem: Problem, sharded: ShardedProblem, sharding: Sharding, predicted_s: float
) -> Plan:
    """Simulate a plan."""
    nodes, samples = all_reduce.nodes(problem), equal(problem)
    cluster = problem.routes.part(nodes, [1.0] * len(nodes))
    interfaces = (limit for node in cluster.nodes for limit in (node.uplink, node.downlink))
    shares = any(interfaces) or any(link.shared for link in cluster.links.values())
    phase = Phase(
        cluster,
        nodes,
        partial(dry_run, sharded, sharding),
        sum(samples.values()),
    )
    memory = None
    if problem.memory is not None and sharding.stage:
        limits = [problem.cluster.nodes[node].memory_bytes for node in nodes]
        by_node = zip(nodes, memory_bytes(sharded, sharding).tolist(), limits, strict=True)
        memory = {
            node: NodeMemory(size, None if limit is None else size <= limit)
            for node, size, limit in by_node
        }
    count = len(sharding.cuts) + 1
    phrases = [f"layers are exchanged in {count} {'buckets' if count > 1 else 'bucket'}"]
    if sharding.stage == 1:
        phrases.append("plain SGD has no state to share out")
    return Plan.of(
        problem,
        [phase],
        predicted_s=None if shares else predicted_s,  # the costs know no sharing
        learns_from=nodes,
        batches=samples,
        memory=memory,
        assumes=(*assumes(problem, samples), *phrases),
    )


METHODS = (
    Method(
        name="all-reduce, overlapping",
        system="all-reduce",
        update=EQUAL,
        planner=partial(plan, stage=0),
    ),
    *(
        Method(
            name=f"zero-{stage}", system="ZeRO", update=EQUAL, planner=partial(plan, stage=stage)
        )
        for stage in (1, 2, 3)
    ),
)
