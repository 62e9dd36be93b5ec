"""A parameter server, under each of DynaComm's planners: every worker plans for its own link."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from workbench.clusters import Link
from workbench.comparison.question import Question
from workbench.comparison.use import Phase
from workbench.comparison.ways.batches import BY_SPEED, assumes, by_speed, equal
from workbench.comparison.ways.hub import Hub, with_best_hub
from workbench.comparison.ways.way import EQUAL, Option, Way
from workbench.dynacomm.algorithms import PLANNERS
from workbench.dynacomm.costs.iteration import LayerCosts, iteration, layer_costs
from workbench.dynacomm.costs.plan import Plan
from workbench.dynacomm.programs.job import Job
from workbench.dynacomm.programs.worker_and_server import (
    Fixed,
    Server,
    Worker,
    worker_and_server,
)

if TYPE_CHECKING:
    from workbench.runtime import Program


def plan(
    question: Question, planner: str, batches: Callable[[Question], Mapping[int, int]] = equal
) -> Option:
    """The server with which an iteration is shortest; all holders of samples work for it."""
    counts = batches(question)
    option = partial(with_hub, planner=planner)
    return with_best_hub(question, counts, sum(counts.values()), option, _least_s)


def _least_s(hub: Hub) -> float:
    """Bound on an iteration: no plan begins before layer 1 is there, or ends before it is sent.

    The last layer is computed after all pulls, and before all pushes.
    """
    question, sizes = hub.question, hub.question.profile.table["param_bytes"]
    longest_s = hub.interface_s
    for node, *_ in hub.kinds.values():
        times, speed = hub.layer_times(node), question.speeds[node]
        forward_s, backward_s = times.forward_s / speed, times.backward_s / speed
        if node != hub.node:
            last = times.table[-1]
            forward_s = max(
                hub.down.least_s(node, sizes[0]) + forward_s,
                hub.down.least_s(node, question.model_bytes) + last["forward_s"].item() / speed,
            )
            backward_s = max(
                backward_s + hub.up.least_s(node, sizes[0]),
                last["backward_s"].item() / speed + hub.up.least_s(node, question.model_bytes),
            )
        longest_s = max(longest_s, forward_s + backward_s)
    return longest_s


def with_hub(hub: Hub, planner: str) -> Option:
    """All holders of samples work for this server."""
    question = hub.question
    planned = {kind: _planned(hub, nodes[0], planner) for kind, nodes in hub.kinds.items()}
    kinds = {node: kind for kind, nodes in hub.kinds.items() for node in nodes}

    def programs(iterations: int) -> list[Program]:
        jobs = {kind: replace(job, iterations=iterations) for kind, (job, _, _) in planned.items()}
        made: list[Program] = []
        for node in hub.nodes:
            kind = kinds.get(node, kinds[hub.workers[0]])
            if node not in kinds:
                made.append(Server(jobs[kind], 0))
            else:
                program = worker_and_server if node == hub.node else Worker
                made.append(program(jobs[kind], Fixed(planned[kind][1])))
        return made

    samples = sum(hub.batches.values())
    phase = Phase(hub.cluster, hub.nodes, programs, samples, first=1, last=2)
    return Option.of(
        question,
        [phase],
        predicted_s=max(predicted_s for *_, predicted_s in planned.values()),
        learns_from=hub.workers,
        batches=hub.all_batches,
        server=hub.node,
        where=hub.where,
        assumes=assumes(question, hub.batches),
    )


def _planned(hub: Hub, node: int, planner: str) -> tuple[Job, Plan, float]:
    """A worker's job and plan, and the seconds of an iteration by its cost model."""
    plan = _plan(hub, node, planner)
    return _job(hub, node), plan, _predicted_s(hub, node, plan)


def _predicted_s(hub: Hub, node: int, plan: Plan) -> float:
    """Seconds of a worker's iteration by DynaComm's cost model (Cai et al. 2021, Eqs. 1-7)."""
    if node == hub.node:
        times, speed = hub.layer_times(node), hub.question.speeds[node]
        return (times.forward_s + times.backward_s) / speed
    down, up = (_costs(hub, node, one.links[node]) for one in (hub.down, hub.up))
    return iteration(down, plan).forward_s + iteration(up, plan).backward_s


def _plan(hub: Hub, node: int, planner: str) -> Plan:
    """A worker's plan, with its share of the hub's interface if all exchange at a time."""
    if node == hub.node:
        return Plan((), ())
    down, up = hub.down.links[node], hub.up.links[node]
    plan = PLANNERS[planner](_costs(hub, node, down))
    if up == down:
        return plan
    return Plan(plan.forward_cuts, PLANNERS[planner](_costs(hub, node, up)).backward_cuts)


def _costs(hub: Hub, node: int, link: Link) -> LayerCosts:
    question, speed = hub.question, hub.question.speeds[node]
    times = hub.layer_times(node)
    costs = layer_costs(question.profile, times, link)
    return replace(costs, forward_s=costs.forward_s / speed, backward_s=costs.backward_s / speed)


def _job(hub: Hub, node: int) -> Job:
    link = hub.up.links[hub.remote[0] if node == hub.node else node]
    job = Job.of(
        hub.question.profile,
        hub.layer_times(node),
        link,
        iterations=1,
        workers=len(hub.workers),
    )
    return replace(job, hub=hub.place) if hub.node in hub.workers else job


WAYS = (
    *(
        Way(
            name=f"parameter server, {name}",
            system="DynaComm",
            update=EQUAL,
            plan=partial(plan, planner=name),
        )
        for name in PLANNERS
    ),
    Way(
        name="parameter server, batches by speed",
        system="DynaComm",
        update=BY_SPEED,
        plan=partial(plan, planner="dynacomm", batches=by_speed),
    ),
)
