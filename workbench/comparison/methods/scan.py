"""The backward pass as a parallel scan over the nodes, as in OLPB and BPPSA.

The fastest data owner computes the forward pass and the update. The Jacobians of groups of
operators are spread over the nodes. Jacobian costs are stored for the models of the zoo.
"""

from __future__ import annotations

from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

from workbench.comparison.cost import Phase, no_work, periods
from workbench.comparison.methods.method import EQUAL, Method, Plan
from workbench.comparison.problem import Problem, UnusableError
from workbench.olpb.algorithms.scans import SCANS
from workbench.olpb.algorithms.schedules import Schedule
from workbench.olpb.costs.backward import plan as schedule_of
from workbench.olpb.costs.stored_passes import NODES, stored_work
from workbench.olpb.costs.subtasks import Node, Pool
from workbench.olpb.costs.timing import Timing, Work, scan_timing
from workbench.olpb.programs.cluster import send_by_link
from workbench.olpb.programs.node import Order, carry_out
from workbench.profiles import profile_model
from workbench.runtime import Message
from workbench.utils.numbers import bytes_as_text
from workbench.zoo import MODELS

if TYPE_CHECKING:
    from workbench.runtime import Context, Program

GROUPS = {"olpb": [("operator", levels) for levels in (1, 2, 4, 8)], "bppsa": [("matrix_layer", 1)]}
"""Groupings that are tried: by levels of operators, or by layers."""


class ScanPlan(NamedTuple):
    """A scan on some nodes, the data owner first, and its predicted time."""

    timing: Timing
    schedule: Schedule
    work: Work
    pool: Pool
    nodes: list[int]
    groups: str

    @property
    def largest_bytes(self) -> float:
        """Bytes of the largest product of Jacobians."""
        return max(self.work.value_bytes or [0.0])


def plan(problem: Problem, groups: str) -> Plan:
    """The nodes, the grouping and the scan with the shortest backward pass."""
    name, count = problem.profile.name, min(len(problem.cluster), NODES)
    if count < 2:
        raise UnusableError("a scan needs a second node")
    if name not in MODELS or not profile_model(name).table.equals(problem.profile.table):
        raise UnusableError(
            "Jacobian costs are stored only for the zoo's models; olpb.scan_gradients scans any"
        )
    owner = min(problem.owners, key=problem.batch_s)
    others = sorted((node for node in problem.by_name if node != owner), key=problem.batch_s)
    sizes = sorted({2**power for power in range(1, count.bit_length())} | {count})
    scans, least_bytes = list[ScanPlan](), float("inf")
    for unit, levels in GROUPS[groups]:
        for scan in SCANS:
            for size in sizes:
                trial = _planned(problem, [owner, *others[: size - 1]], unit, levels, scan)
                least_bytes = min(least_bytes, trial.largest_bytes)
                if trial.largest_bytes <= _least_memory_bytes(problem, trial.nodes):
                    scans.append(trial)
    if not scans:
        raise UnusableError(
            f"the largest product of Jacobians takes {bytes_as_text(least_bytes)} for a batch, "
            "more than the nodes' memory"
        )
    return _as_plan(problem, min(scans, key=lambda trial: trial.timing.seconds))


def _planned(problem: Problem, nodes: list[int], unit: str, levels: int, scan: str) -> ScanPlan:
    of_sample = stored_work(problem.profile.name, unit, levels, len(nodes), scan)
    schedule = schedule_of(len(of_sample.after_flops), len(nodes), scan)
    work, pool = of_sample.times(problem.batch_size), _pool(problem, nodes)
    groups = f"groups of {levels} level{'s' * (levels > 1)}" if unit == "operator" else "layers"
    timing = scan_timing(schedule, work, pool)
    return ScanPlan(timing, schedule, work, pool, nodes, groups)


def _pool(problem: Problem, nodes: list[int]) -> Pool:
    """The nodes as OLPB's cost model has them: a bandwidth for each sender, and one delay."""
    pairs = list(permutations(nodes, 2))
    links = [problem.routes.link(*pair) for pair in pairs]
    bps = {a: min(problem.routes.path_bps(a, b) for b in nodes if b != a) for a in nodes}
    machines = [Node(_flops_per_s(problem, node), bandwidth_bps=bps[node]) for node in nodes]
    delay_s = max(link.overhead_s + link.latency_s for link in links)
    return Pool(tuple(machines), delay_s=delay_s)


def _flops_per_s(problem: Problem, node: int) -> float:
    """Rate of a node in the model's ordinary backward pass."""
    flops = float(problem.profile.table["backward_flops"].sum()) * problem.batch_size
    return flops / problem.layer_times(node).backward_s * problem.speeds[node]


def _least_memory_bytes(problem: Problem, nodes: list[int]) -> float:
    return min(problem.cluster.nodes[node].memory_bytes or float("inf") for node in nodes)


def _as_plan(problem: Problem, best: ScanPlan) -> Plan:
    nodes, (owner, *_) = best.nodes, best.nodes
    cluster = problem.routes.part(nodes, [1.0] * len(nodes))

    def step_of(part: Problem) -> Step:
        times, speed = part.layer_times(owner), part.speeds[owner]
        return Step(part.accumulate, times.forward_s / speed, times.update_s / speed)

    def phase(part: Problem) -> Phase:
        step = step_of(part)

        def programs(iterations: int) -> list[Program]:
            learner = partial(_owner, best, iterations, step)
            return [learner, *[partial(_node, best, iterations * step.batches)] * (len(nodes) - 1)]

        return Phase(cluster, nodes, programs, problem.step_samples, first=1, last=2)

    step = step_of(problem)
    return Plan.of(
        problem,
        periods(problem, phase),
        predicted_s=step.batches * (step.forward_s + best.timing.seconds) + step.update_s,
        learns_from=(owner,),
        batches={owner: problem.batch_size},
        assumes=(
            f"learns from the samples of {problem.cluster.names[owner]}, on {len(nodes)} nodes, "
            f"in {best.groups}",
            f"the largest product of Jacobians takes {bytes_as_text(best.largest_bytes)}",
            "Jacobians are already computed, and gradients stay on their nodes",
        ),
        accumulates=step.batches,
    )


class Step(NamedTuple):
    """Batches of a step, and the seconds of the data owner's forward pass and update."""

    batches: int
    forward_s: float
    update_s: float


async def _owner(best: ScanPlan, iterations: int, step: Step, context: Context) -> None:
    others = range(1, len(best.nodes))
    for number in range(iterations * step.batches):
        await context.compute(no_work, cost_s=step.forward_s, lane="forward", label=str(number))
        for node in others:
            context.send(node, Message(context.node, "begin", control=True))
        await _scan(best, number, context)
        for node in others:
            await context.receive("done", sender=node)
        if (number + 1) % step.batches == 0:
            await context.compute(no_work, cost_s=step.update_s, lane="update", label=str(number))


async def _node(best: ScanPlan, scans: int, context: Context) -> None:
    for number in range(scans):
        await context.receive("begin")
        await _scan(best, number, context)
        context.send(0, Message(context.node, "done", control=True))


async def _scan(best: ScanPlan, number: int, context: Context) -> None:
    """Carry out a node's part of a scan as OLPB's nodes do, over the cluster's links."""
    order = Order(number, best.schedule, best.work)
    await carry_out(context, order, best.pool, send_by_link)


METHODS = tuple(
    Method(
        name=name,
        system="OLPB",
        update=EQUAL,
        splits_model=True,
        planner=partial(plan, groups=name),
    )
    for name in GROUPS
)
