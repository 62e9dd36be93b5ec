"""Lower bounds on the seconds of a step under a plan, without following all messages."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from itertools import permutations
from typing import NamedTuple

from workbench.pipelines.costs import (
    fastest_bps,
    least_arrival_s,
    pass_s,
    reductions,
    samples_sent,
    transfer_bytes,
    update_s,
)
from workbench.pipelines.problems import Problem
from workbench.pipelines.schedules import Pass, Plan, transfers
from workbench.sharding.collective_costs import ROUNDS


def bound_s(problem: Problem, plan: Plan) -> float:
    """Lower bound on the seconds of a step under the plan.

    A stage starts once a first micro-batch has come through those before it, computes M, and what
    it sends last goes back through them. Its first backward pass waits for the way to the last
    stage and back, during which it computes as many forward passes as it keeps in flight.
    """
    stages, count, trained = plan.stages, plan.microbatches, problem.first_trained
    forward, backward = (
        [
            [pass_s(problem, plan, node, Pass(s, 0, back)) for node in stage.nodes]
            for s, stage in enumerate(stages)
        ]
        for back in (False, True)
    )
    cuts = [_cut(problem, plan, number) for number in range(len(stages) - 1)]
    around = [0.0] * len(stages)  # from the end of a forward to the start of its backward pass
    for s in range(len(stages) - 2, -1, -1):
        way_s = cuts[s].ahead_s + cuts[s].behind_s + min(forward[s + 1])
        if stages[s + 1].last >= trained:
            way_s += min(backward[s + 1])
        around[s] = way_s + around[s + 1]
    ends_s = _ends_s(problem, plan)
    busy_s = dict.fromkeys(plan.nodes, 0.0)
    longest_s, start_s, tail_s = 0.0, 0.0, 0.0
    for s, stage in enumerate(stages):
        trains = stage.last >= trained
        depth = plan.depth(s) if trains else count
        for node, forward_s, backward_s in zip(stage.nodes, forward[s], backward[s], strict=True):
            first_s = max(depth * forward_s, forward_s + around[s])  # to the first backward pass
            work_s = first_s + (count - depth) * forward_s + trains * count * backward_s
            end_s = max(ends_s[node], tail_s) if trains else 0.0
            longest_s = max(longest_s, start_s + work_s + end_s)
            busy_s[node] += count * (forward_s + trains * backward_s)
        if s < len(cuts):
            through_s = min(forward[s]) + count * cuts[s].busy_s + around[s + 1]
            longest_s = max(longest_s, start_s + through_s)
            start_s += min(forward[s]) + cuts[s].ahead_s
        if trains and s < len(cuts):
            last_s = max(tail_s, min(ends_s[node] for node in stage.nodes))
            tail_s = cuts[s].behind_s + min(backward[s]) + last_s
    if problem.owners or problem.shared:
        longest_s = max(longest_s, network_s(problem, plan))
    return max(longest_s, *(busy_s[node] + ends_s[node] for node in plan.nodes))


def network_s(problem: Problem, plan: Plan) -> float:
    """Least seconds for which a step occupies the busiest link or shared capacity."""
    sent = defaultdict[tuple[int, int], list[float]](list)
    for ends, size in samples_sent(problem, plan).items():
        sent[ends].append(size)
    for number, stage in enumerate(plan.stages[:-1]):
        forward = Pass(number, 0, False)
        for transfer in transfers(plan, forward, forward.after):
            ends = transfer.sender, transfer.receiver
            ways = (ends, ends[::-1]) if stage.last >= problem.first_trained else (ends,)
            for way in ways if ends[0] != ends[1] else ():
                sent[way] += [transfer_bytes(problem, plan, transfer)] * plan.microbatches
    for reduction in reductions(problem, plan):
        for pair in permutations(reduction.nodes, 2):
            sent[pair] += [reduction.share_bytes] * len(ROUNDS)
    return busiest_s(problem, sent)


def busiest_s(problem: Problem, sent: Mapping[tuple[int, int], list[float]]) -> float:
    """Seconds for which these messages, by their bytes, occupy the busiest link or capacity."""
    seconds = [0.0]
    for ends, sizes in sent.items():
        link = problem.links.get(ends)
        if link is None:
            return math.inf
        seconds.append(len(sizes) * link.overhead_s + 8 * sum(sizes) / fastest_bps(link))
    for bandwidth_bps, pairs in problem.shared:
        seconds.append(8 * sum(sum(sent.get(pair, ())) for pair in pairs) / bandwidth_bps)
    return max(seconds)


class _Cut(NamedTuple):
    """Seconds of a micro-batch's messages between two stages.

    The first to arrive at the next stage, the first to arrive back, and the longest on its link.
    """

    ahead_s: float
    behind_s: float
    busy_s: float


def _cut(problem: Problem, plan: Plan, number: int) -> _Cut:
    passes = [Pass(number, 0, False)]
    if plan.stages[number].last >= problem.first_trained:
        passes.append(Pass(number + 1, 0, True))
    ways = [_seconds(problem, plan, pass_) for pass_ in passes]
    firsts_s = [min(arrives_s for arrives_s, _ in way) for way in ways]
    return _Cut(firsts_s[0], sum(firsts_s[1:]), max(busy_s for way in ways for _, busy_s in way))


def _seconds(problem: Problem, plan: Plan, pass_: Pass) -> list[tuple[float, float]]:
    """Seconds until each message of a pass arrives, and seconds on its link."""
    seconds = []
    for transfer in transfers(plan, pass_, pass_.after):
        ends = transfer.sender, transfer.receiver
        arrives_s = least_arrival_s(problem, *ends, transfer_bytes(problem, plan, transfer))
        link = problem.links.get(ends)
        seconds.append((arrives_s, arrives_s - (0.0 if link is None else link.latency_s)))
    return seconds


def _ends_s(problem: Problem, plan: Plan) -> dict[int, float]:
    """Least seconds of each node from its last pass to the end of its update."""
    ends_s = {node: update_s(problem, plan, node) for node in plan.nodes}
    for reduction in reductions(problem, plan):
        share = reduction.share_bytes
        for node in reduction.nodes:
            ends_s[node] += max(
                least_arrival_s(problem, node, other, share)
                + least_arrival_s(problem, other, node, share)
                for other in reduction.others(node)
            )
    return ends_s
