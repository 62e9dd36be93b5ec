"""Data-parallel training that shares out state, gradients and parameters (ZeRO), or overlaps them.

Each plan is the fastest of several sizes of buckets; see `workbench.sharding`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter

import numpy as np

from workbench.clusters import Cluster, Link
from workbench.comparison.cost import Phase, periods
from workbench.comparison.methods import all_reduce
from workbench.comparison.methods.batches import assumes, equal
from workbench.comparison.methods.method import EQUAL, Candidate, Method, Plan, fastest
from workbench.comparison.problem import Problem
from workbench.comparison.routes import Pair, at_beginning, link_bps
from workbench.sharding import Plan as Sharding
from workbench.sharding import Problem as ShardedProblem
from workbench.sharding import needed_bytes
from workbench.sharding.costs import lacking, steady
from workbench.sharding.planners import plans
from workbench.sharding.programs import dry_run

MOST_MESSAGES = 4096
"""Largest number of nodes squared times buckets that is simulated, apart from one bucket."""


def plan(problem: Problem, stage: int) -> Plan:
    """All data owners learn from a batch and share out what a stage of ZeRO says.

    The size of buckets that is fastest by its costs among those for which the fewest nodes lack
    memory. In stage 0 an all-reduce after the backward pass is a candidate as well.
    """
    nodes = all_reduce.nodes(problem)
    cluster = problem.routes.part(nodes, [1.0] * len(nodes))
    costs = {part: costs_of(part, nodes, cluster) for part, _ in problem.periods}
    sharded = costs[problem.periods[0][0]]
    trials = [
        (lacking(sharded, sharding), _iteration_s(problem, costs, sharding), sharding)
        for sharding in plans(sharded, stage)
        if not sharding.cuts or len(nodes) ** 2 * (len(sharding.cuts) + 1) <= MOST_MESSAGES
    ]
    lacks, predicted_s, shortest = min(trials, key=itemgetter(0, 1))
    best = partial(_planned, problem, cluster, costs, shortest, predicted_s)
    if stage:
        return best()
    whole = partial(all_reduce.plan, problem, batches=equal)
    candidates = [Candidate(lacks, 0.0, best), Candidate(lacks, 0.0, whole)]
    return fastest(problem, candidates)


def costs_of(problem: Problem, nodes: Sequence[int], cluster: Cluster) -> ShardedProblem:
    """The problem of nodes with their samples, as sharding sees it.

    What messages share is divided equally, since all nodes send to all others at a time.
    """
    samples = equal(problem)
    times = [problem.layer_times(node, samples[node]).table for node in nodes]
    speeds = np.array([[problem.speeds[node]] for node in nodes])
    forward_s, backward_s, update_s = (
        np.stack([table[column].to_numpy() for table in times]) / speeds
        for column in ("forward_s", "backward_s", "update_s")
    )
    needed = [problem.needed_bytes(samples[node]) for node in nodes]
    other = [max(0.0, (size or 0.0) - 2 * problem.model_bytes) for size in needed]
    limits = [problem.cluster.nodes[node].memory_bytes for node in nodes]
    return ShardedProblem(
        forward_s=forward_s,
        backward_s=backward_s,
        update_s=update_s,
        param_bytes=problem.profile.table["param_bytes"].to_numpy(),
        links=_equal_shares(cluster),
        accumulate=problem.accumulate,
        tied=problem.profile.tied,
        other_bytes=np.array(other),
        memory_bytes=np.array([np.inf if limit is None else limit for limit in limits]),
    )


def _iteration_s(
    problem: Problem, costs: Mapping[Problem, ShardedProblem], sharding: Sharding
) -> float:
    """Mean seconds of an iteration over all periods of the training."""
    return sum(share * steady(costs[part], sharding).iteration_s for part, share in problem.periods)


def _equal_shares(cluster: Cluster) -> dict[Pair, Link]:
    """Links with an equal share of the interfaces and capacities that they share with others."""
    users = Counter(capacity for link in cluster.links.values() for capacity in link.shared)
    others, links = len(cluster) - 1, {}
    for (source, target), link in cluster.links.items():
        rates = [link_bps(link)]
        rates += [at_beginning(each.bandwidth) / users[each] for each in link.shared]
        interfaces = cluster.nodes[source].uplink, cluster.nodes[target].downlink
        rates += [at_beginning(limit) / others for limit in interfaces if limit]
        links[source, target] = replace(link, bandwidth_bps=min(rates), shared=())
    return links


def _planned(
    problem: Problem,
    cluster: Cluster,
    costs: Mapping[Problem, ShardedProblem],
    sharding: Sharding,
    predicted_s: float,
) -> Plan:
    """Simulate a plan, given the costs of each period."""
    nodes, samples = all_reduce.nodes(problem), equal(problem)
    learnt = problem.accumulate * sum(samples.values())
    sharded = costs[problem.periods[0][0]]

    def phase(part: Problem) -> Phase:
        repeats = steady(costs[part], sharding)
        programs = partial(dry_run, costs[part], sharding)
        return Phase(cluster, nodes, programs, learnt, first=repeats.first, last=repeats.last)

    memory = None
    if problem.memory is not None and sharding.stage:
        sizes = needed_bytes(sharded, sharding).tolist()
        memory = {
            node: problem.memory_on(node, size) for node, size in zip(nodes, sizes, strict=True)
        }
    count = len(sharding.cuts) + 1
    phrases = [f"layers are exchanged in {count} {'buckets' if count > 1 else 'bucket'}"]
    if sharding.stage == 1:
        phrases.append("plain SGD has no state to share out")
    return Plan.of(
        problem,
        periods(problem, phase),
        predicted_s=predicted_s,
        learns_from=nodes,
        batches=samples,
        memory=memory,
        assumes=(*assumes(problem, samples), *phrases),
        accumulates=problem.accumulate,
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
