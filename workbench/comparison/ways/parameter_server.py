"""A parameter server, under each of DynaComm's planners: every worker plans for its own link."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from workbench.clusters import Link
from workbench.comparison.question import Question
from workbench.comparison.sharing import Transfer
from workbench.comparison.use import DryRun, Use
from workbench.comparison.ways.batches import BY_SPEED, assumes, by_speed, equal
from workbench.comparison.ways.hub import Hub, with_best_hub
from workbench.comparison.ways.way import EQUAL, Option, Way
from workbench.dynacomm.algorithms import PLANNERS
from workbench.dynacomm.costs.iteration import LayerCosts, layer_costs
from workbench.dynacomm.costs.plan import Plan, runs
from workbench.dynacomm.programs.job import Job
from workbench.dynacomm.programs.worker_and_server import (
    Fixed,
    server,
    worker,
    worker_and_server,
)

if TYPE_CHECKING:
    from workbench.runtime import Program


def plan(
    question: Question, planner: str, batches: Callable[[Question], Mapping[int, int]] = equal
) -> Option:
    """The server with which an iteration is shortest; all holders of samples work for it."""
    return with_best_hub(question, batches(question), partial(with_hub, planner=planner), _least_s)


def _least_s(hub: Hub) -> float:
    """Bound on an iteration: no plan begins before layer 1 is there, or ends before it is sent.

    The last layer is computed after all pulls, and before all pushes.
    """
    question, sizes = hub.question, hub.question.profile.table["param_bytes"]
    longest_s = hub.interface_s
    for node in hub.workers:
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
    plans = {node: _plan(hub, node, planner) for node in hub.workers}
    jobs = {node: _job(hub, node) for node in hub.workers}
    down = {(hub.node, node): len(plans[node].forward_cuts) + 1.0 for node in hub.remote}
    up = {(node, hub.node): len(plans[node].backward_cuts) + 1.0 for node in hub.remote}
    messages = down | up
    samples = sum(hub.batches.values())
    use = Use(
        iteration_s=iteration_s(hub, jobs, plans),
        samples=samples,
        busy_s={
            node: float(job.forward_s.sum() + job.backward_s.sum()) / question.speeds[node]
            for node, job in jobs.items()
        },
        link_bytes=dict.fromkeys(messages, float(question.model_bytes)),
        messages=messages,
    )

    def programs(iterations: int) -> list[Program]:
        made = []
        for node in hub.nodes:
            job = replace(jobs.get(node, first), iterations=iterations)
            if node not in jobs:
                made.append(server(job, 0))
            else:
                program = worker_and_server if node == hub.node else worker
                made.append(program(job, Fixed(plans[node])))
        return made

    first = jobs[hub.workers[0]]
    return Option(
        use=use,
        dry=DryRun(question.part(hub.nodes), hub.nodes, programs, samples),
        learns_from=hub.workers,
        batches=hub.all_batches,
        server=hub.node,
        where=hub.where,
        assumes=assumes(question, hub.batches),
    )


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


def iteration_s(hub: Hub, jobs: Mapping[int, Job], plans: Mapping[int, Plan]) -> float:
    """Seconds from one step of the server to the next: the last push of all has arrived.

    A worker's own iteration is DynaComm's (Cai et al. 2021, Eqs. 1-7); of the hub's interface each
    gets its max-min fair share at any time. Exact in the simulated network.
    """
    speeds, pulls = hub.question.speeds, dict[int, list[Transfer]]()
    for node in hub.remote:
        job, link = jobs[node], hub.down.links[node]
        segments = [job.segment(*run) for run in runs(plans[node].forward_cuts, job.layers)]
        pulls[node] = [
            Transfer(0.0, link.overhead_s + one.tensors * link.tensor_s, 8 * one.pull_bytes)
            for one in segments
        ]
    pulled_s, pushes = hub.down.arrive_s(pulls), dict[int, list[Transfer]]()
    longest_s = 0.0
    for node in hub.workers:
        job, now_s = jobs[node], 0.0
        arrivals = pulled_s.get(node)
        for place, run in enumerate(runs(plans[node].forward_cuts, job.layers)):
            arrived_s = arrivals[place] if arrivals else 0.0
            now_s = max(now_s, arrived_s) + job.segment(*run).forward_s / speeds[node]
        own = list[Transfer]()
        for run in reversed(runs(plans[node].backward_cuts, job.layers)):
            segment = job.segment(*run)
            now_s += segment.backward_s / speeds[node]
            if node != hub.node:
                link = hub.up.links[node]
                overhead_s = link.overhead_s + segment.tensors * link.tensor_s
                own.append(Transfer(now_s, overhead_s, 8 * segment.push_bytes))
        longest_s = max(longest_s, now_s)
        if own:
            pushes[node] = own
    return max(longest_s, *(last for *_, last in hub.up.arrive_s(pushes).values()))


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
