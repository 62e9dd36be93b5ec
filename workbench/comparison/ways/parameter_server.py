"""A parameter server, under each of DynaComm's planners: every worker plans for its own link."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from workbench.comparison.question import Question, UnusableError, at_beginning
from workbench.comparison.use import DryRun, Use
from workbench.comparison.ways.way import EQUAL, Option, Way, fastest
from workbench.dynacomm.algorithms import PLANNERS
from workbench.dynacomm.costs.iteration import iteration, layer_costs
from workbench.dynacomm.programs.job import Job
from workbench.dynacomm.programs.worker_and_server import Fixed, server, worker

if TYPE_CHECKING:
    from workbench.clusters import Link
    from workbench.runtime import Program


def plan(question: Question, planner: str) -> Option:
    """The server with which an iteration is shortest; the other holders of samples work for it."""
    if len(question.cluster) < 2:
        raise UnusableError("a server takes a second node")
    count = len(question.cluster)
    free = [node for node in range(count) if node not in question.holders]
    options = [_option(question, planner, node) for node in free or range(count)]
    return fastest(question, options)


def _option(question: Question, planner: str, hub: int) -> Option:
    workers = [node for node in question.holders if node != hub]
    links = {node: _link(question, node, hub, len(workers)) for node in workers}
    times = {node: question.layer_times(node) for node in workers}
    seconds, plans, transfers = dict[int, float](), dict[int, Any](), dict[int, tuple[int, int]]()
    for node in workers:
        speed = question.speeds[node]
        costs = layer_costs(question.profile, times[node], links[node])
        costs = replace(
            costs, forward_s=costs.forward_s / speed, backward_s=costs.backward_s / speed
        )
        plans[node] = plan = PLANNERS[planner](costs)
        latency_s = 2 * links[node].latency_s
        seconds[node] = iteration(costs, plan).total_s + latency_s
        transfers[node] = len(plan.forward_cuts) + 1, len(plan.backward_cuts) + 1
    down = {(hub, node): transfers[node][0] for node in workers}
    up = {(node, hub): transfers[node][1] for node in workers}
    pairs = down | up
    samples = question.batch_size * len(workers)
    busy = {
        node: (one.forward_s + one.backward_s) / question.speeds[node]
        for node, one in times.items()
    }
    use = Use(
        iteration_s=max(seconds.values()),
        samples=samples,
        busy_s=busy,
        link_bytes=dict.fromkeys(pairs, float(question.model_bytes)),
        messages={pair: float(number) for pair, number in pairs.items()},
    )
    nodes = [*workers, hub]

    def programs(iterations: int) -> list[Program]:
        jobs = {
            node: Job.of(
                question.profile,
                times[node],
                links[node],
                iterations=iterations,
                workers=len(workers),
            )
            for node in workers
        }
        ends = [worker(jobs[node], Fixed(plans[node])) for node in workers]
        return [*ends, server(jobs[workers[0]], 0)]

    return Option(
        use=use,
        dry=DryRun(question.part(nodes), nodes, programs, samples),
        learns_from=workers,
        batches=dict.fromkeys(workers, question.batch_size) | {hub: 0},
        assumes=(f"server on {question.cluster.names[hub]}",),
    )


def _link(question: Question, node: int, hub: int, workers: int) -> Link:
    """A worker's link with the server: what all have of the server's interface, at the most.

    A planner knows one bandwidth for both directions: that with which there and back take as long.
    """
    up, down = question.routed.link(node, hub), question.routed.link(hub, node)
    interface = question.routed.nodes[hub]
    up_bps, down_bps = question.path_bps(node, hub), question.path_bps(hub, node)
    if interface.downlink:
        up_bps = min(up_bps, at_beginning(interface.downlink) / workers)
    if interface.uplink:
        down_bps = min(down_bps, at_beginning(interface.uplink) / workers)
    both = 1 / up_bps + 1 / down_bps
    return replace(
        up,
        bandwidth_bps=2 / both if both else math.inf,
        overhead_s=(up.overhead_s + down.overhead_s) / 2,
        latency_s=(up.latency_s + down.latency_s) / 2,
    )


WAYS = tuple(
    Way(
        name=f"parameter server, {name}",
        system="DynaComm",
        update=EQUAL,
        plan=partial(plan, planner=name),
    )
    for name in PLANNERS
)
