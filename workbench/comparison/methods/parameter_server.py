"""A parameter server under each of DynaComm's planners; every worker plans for its own link."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from workbench.clusters import Link
from workbench.comparison.cost import Phase, periods
from workbench.comparison.methods.batches import assumes, by_speed, equal
from workbench.comparison.methods.method import BY_SPEED, EQUAL, Method, Plan
from workbench.comparison.methods.star import Star, with_best_server
from workbench.comparison.problem import Problem
from workbench.dynacomm.costs import LayerCosts, iteration, layer_costs
from workbench.dynacomm.costs import Plan as Cuts
from workbench.dynacomm.planners import PLANNERS
from workbench.dynacomm.programs import FixedPlan, Job, Server, Worker, worker_and_server

if TYPE_CHECKING:
    from workbench.runtime import Program


def plan(
    problem: Problem, planner: str, batches: Callable[[Problem], Mapping[int, int]] = equal
) -> Plan:
    """The server with the shortest iteration, with all data owners as workers."""
    counts = batches(problem)
    with_planner = partial(with_server, planner=planner)
    samples = problem.accumulate * sum(counts.values())
    return with_best_server(problem, counts, samples, with_planner, _least_s)


def _least_s(star: Star) -> float:
    """Lower bound on the seconds of an iteration, whatever the cuts.

    Forward begins after layer 1 is pulled; the gradients of layer 1 are pushed after backward.
    The last layer is computed after all pulls and before all pushes.
    """
    problem, sizes = star.problem, star.problem.profile.table["param_bytes"]
    longest_s = star.interface_s
    for node, *_ in star.kinds.values():
        times, speed = star.layer_times(node), problem.speeds[node]
        forward_s, backward_s = times.forward_s / speed, times.backward_s / speed
        if node != star.node:
            last = times.table[-1]
            forward_s = max(
                star.down.least_s(node, sizes[0]) + forward_s,
                star.down.least_s(node, problem.model_bytes) + last["forward_s"].item() / speed,
            )
            backward_s = max(
                backward_s + star.up.least_s(node, sizes[0]),
                last["backward_s"].item() / speed + star.up.least_s(node, problem.model_bytes),
            )
        longest_s = max(longest_s, forward_s + _between_s(star, node) + backward_s)
    return longest_s


def with_server(star: Star, planner: str) -> Plan:
    """The plan with this server, and all data owners as its workers."""
    problem, predicted_s = star.problem, 0.0
    planned = dict[Problem, dict[object, tuple[Job, Cuts, float]]]()
    for part, share in problem.periods:
        workers = {kind: nodes[0] for kind, nodes in star.kinds.items()}
        jobs = {kind: _planned(star.of(part), node, planner) for kind, node in workers.items()}
        predicted_s += share * max(worker_s for *_, worker_s in jobs.values())
        planned[part] = jobs
    return Plan.of(
        problem,
        periods(problem, lambda part: _phase(star, planned[part])),
        predicted_s=predicted_s,
        learns_from=star.workers,
        batches=star.all_batches,
        server=star.node,
        where=star.where,
        assumes=assumes(problem, star.batches),
        accumulates=problem.accumulate,
    )


def _phase(star: Star, planned: Mapping[object, tuple[Job, Cuts, float]]) -> Phase:
    """Iterations of workers with these jobs and cuts, by their kind."""
    kinds = {node: kind for kind, nodes in star.kinds.items() for node in nodes}

    def programs(iterations: int) -> list[Program]:
        jobs = {kind: replace(job, iterations=iterations) for kind, (job, _, _) in planned.items()}
        members: list[Program] = []
        for node in star.nodes:
            kind = kinds.get(node, kinds[star.workers[0]])
            if node not in kinds:
                members.append(Server(jobs[kind], 0))
            else:
                program = worker_and_server if node == star.node else Worker
                members.append(program(jobs[kind], FixedPlan(planned[kind][1])))
        return members

    samples = star.problem.accumulate * sum(star.batches.values())
    return Phase(star.cluster, star.nodes, programs, samples, first=1, last=2)


def _planned(star: Star, node: int, planner: str) -> tuple[Job, Cuts, float]:
    """A worker's job and cuts, and the seconds of an iteration by its cost model."""
    cuts = _cuts(star, node, planner)
    return _job(star, node), cuts, _predicted_s(star, node, cuts)


def _predicted_s(star: Star, node: int, cuts: Cuts) -> float:
    """Seconds of a worker's iteration by DynaComm's cost model (Cai et al. 2021, Eqs. 1-7)."""
    if node == star.node:
        times, speed = star.layer_times(node), star.problem.speeds[node]
        return star.problem.accumulate * (times.forward_s + times.backward_s) / speed
    down, up = (_costs(star, node, paths.links[node]) for paths in (star.down, star.up))
    passes_s = iteration(down, cuts).forward_s + iteration(up, cuts).backward_s
    return passes_s + _between_s(star, node)


def _between_s(star: Star, node: int) -> float:
    """Seconds between a worker's first forward and last backward pass of a step.

    The model is pulled in the forward pass of the first batch, and gradients are pushed in the
    backward pass of the last, so that cuts matter as they do to a single batch.
    """
    times = star.layer_times(node)
    batch_s = (times.forward_s + times.backward_s) / star.problem.speeds[node]
    return (star.problem.accumulate - 1) * batch_s


def _cuts(star: Star, node: int, planner: str) -> Cuts:
    """A worker's cuts, with its share of the server's interface if all exchange at a time."""
    if node == star.node:
        return Cuts((), ())
    down, up = star.down.links[node], star.up.links[node]
    cuts = PLANNERS[planner](_costs(star, node, down))
    if up == down:
        return cuts
    return Cuts(cuts.forward_cuts, PLANNERS[planner](_costs(star, node, up)).backward_cuts)


def _costs(star: Star, node: int, link: Link) -> LayerCosts:
    problem, speed = star.problem, star.problem.speeds[node]
    times = star.layer_times(node)
    costs = layer_costs(problem.profile, times, link)
    return replace(costs, forward_s=costs.forward_s / speed, backward_s=costs.backward_s / speed)


def _job(star: Star, node: int) -> Job:
    link = star.up.links[star.remote[0] if node == star.node else node]
    job = Job.of(
        star.problem.profile,
        star.layer_times(node),
        link,
        iterations=1,
        workers=len(star.workers),
        accumulate=star.problem.accumulate,
    )
    return replace(job, hub=star.place) if star.node in star.workers else job


METHODS = (
    *(
        Method(
            name=f"parameter server, {name}",
            system="DynaComm",
            update=EQUAL,
            planner=partial(plan, planner=name),
        )
        for name in PLANNERS
    ),
    Method(
        name="parameter server, batches by speed",
        system="DynaComm",
        update=BY_SPEED,
        planner=partial(plan, planner="dynacomm", batches=by_speed),
    ),
)
