"""PipeDream without a flush: each micro-batch is a step, with weights as old as its stage is early.

A stage with w micro-batches in flight begins one with the weights of w - 1 updates before those
that its gradients are applied to, and keeps (stashes) them for its backward pass. With the default
w = S - s, the first stage of S has a staleness of S - 1 and the last none (Narayanan et al. 2019,
"PipeDream", Sec. 3.3).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from workbench.pipelines.costs import (
    Problem,
    check,
    holders,
    link_of,
    message_s,
    reductions,
    step_s,
    update_s,
)
from workbench.pipelines.schedules import Plan, Step, Transfer, transfers
from workbench.utils.checks import UserError


class Steady(NamedTuple):
    """A pipeline without a flush, once it is full.

    Attributes
    ----------
    microbatch_s
        Seconds from one micro-batch, and its update, to the next.
    staleness
        By stage: updates between the weights that a micro-batch's gradients were computed with and
        those that they are applied to. 0 for a stage that trains nothing.
    """

    microbatch_s: float
    staleness: tuple[int, ...]


def steady(problem: Problem, plan: Plan) -> Steady:
    """Time per micro-batch in the steady state of PipeDream, exactly.

    Each pass and message happens once every T seconds. T is the least for which all can: where an
    event k micro-batches later waits for another, its start plus k T is not before the other's end.
    That is a linear programme, whose optimum is the greatest mean of a cycle of waiting.

    Raises UserError: a plan of another schedule, with blocking messages, with a node in several
    stages or with layers of a tied weight in several.
    """
    check(problem, plan)
    if plan.schedule != "1f1b" or plan.blocking:
        raise UserError("PipeDream keeps micro-batches in flight with 1f1b and queued messages")
    if len(plan.nodes) < sum(len(stage.samples) for stage in plan.stages):
        raise UserError("PipeDream has each node in one stage; the plan has one in several")
    if any(len(holders(plan, weight)) > 1 for weight in problem.tied):
        raise UserError("PipeDream has a weight in one stage; the plan has a tied one in several")
    staleness = [
        depth - 1 if stage.last >= problem.first_trained else 0
        for stage, depth in zip(plan.stages, plan.in_flight, strict=True)
    ]
    return Steady(_period_s(problem, plan), tuple(staleness))


@dataclass
class _Waits:
    """Waiting of events: which, for which other, how many micro-batches later, and how long."""

    rows: list[tuple[Hashable, Hashable, int, float]] = field(default_factory=list)

    def add(self, event: Hashable, other: Hashable, later: int, seconds: float) -> None:
        """Event's end, `later` micro-batches on, is at least `seconds` after the other's end."""
        self.rows.append((event, other, later, seconds))

    def least_s(self) -> float:
        """Least T for which x[event] + later T - x[other] >= seconds, for all rows."""
        names = {
            name: n for n, name in enumerate(dict.fromkeys(n for r in self.rows for n in r[:2]))
        }
        matrix = np.zeros((len(self.rows), len(names) + 1))
        for row, (event, other, later, _) in zip(matrix, self.rows, strict=True):
            row[names[event]] -= 1
            row[names[other]] += 1
            row[-1] = -later
        bounds = [(None, None)] * len(names) + [(0, None)]
        costs = np.zeros(len(names) + 1)
        costs[-1] = 1
        limits = [-seconds for *_, seconds in self.rows]
        found = linprog(costs, A_ub=matrix, b_ub=limits, bounds=bounds, method="highs")
        if not found.success:
            raise UserError(f"the nodes wait for each other for ever: {found.message}")
        return float(found.x[-1])


def _period_s(problem: Problem, plan: Plan) -> float:
    waits = _Waits()
    for number, stage in enumerate(plan.stages):
        for node in stage.nodes:
            cycle = list(_cycle(problem, plan, number, node))
            last_on: dict[Hashable, tuple[Hashable, int]] = {}
            first_on: dict[Hashable, tuple[Hashable, int, float]] = {}
            for event, later, seconds, resource, after in cycle:
                for other, latency_s in after:
                    waits.add(event, other, 0, latency_s + seconds)
                if resource in last_on:
                    other, before = last_on[resource]
                    waits.add(event, other, later - before, seconds)
                else:
                    first_on[resource] = event, later, seconds
                last_on[resource] = event, later
            for resource, (event, later, seconds) in first_on.items():  # the next time round
                other, before = last_on[resource]
                waits.add(event, other, later + 1 - before, seconds)
    return waits.least_s()


Event = tuple[Hashable, int, float, Hashable, list[tuple[Hashable, float]]]
"""An event's name, how many micro-batches ahead it is, its seconds, the node or link that it
occupies, and what else it waits for, each with a latency."""


def _cycle(problem: Problem, plan: Plan, number: int, node: int) -> Iterator[Event]:
    """Operations of a node that repeat for ever: backward, sums, update, a later forward pass.

    Passes and messages of other nodes go by the same names.
    """
    stage, trained = plan.stages[number], problem.first_trained
    forward, backward = Step(number, 0, False), Step(number, 0, True)

    def compute(step: Step, ahead: int) -> Iterator[Event]:
        other = number + 1 if step.backward else number - 1
        inputs: list[tuple[Hashable, float]] = []
        if 0 <= other < len(plan.stages):
            arriving = transfers(plan, Step(other, *step[1:]), step)
            inputs = [
                (each, link_of(problem, each.sender, node).latency_s)
                for each in arriving
                if each.receiver == node
            ]
        yield (step, node), ahead, step_s(problem, plan, node, step), node, inputs
        to = number - 1 if step.backward else number + 1
        if not 0 <= to < len(plan.stages) or (step.backward and plan.stages[to].last < trained):
            return
        for each in transfers(plan, step, Step(to, *step[1:])):
            if each.sender == node:
                yield message(each, each.receiver, ahead, _bytes(problem, plan, each), (step, node))

    def message(name: Hashable, to: int, ahead: int, size: float, after: Hashable) -> Event:
        seconds = message_s(link_of(problem, node, to), size)
        return name, ahead, seconds, (node, to), [(after, 0.0)]

    if stage.last < trained:
        yield from compute(forward, 0)
        return
    yield from compute(backward, 0)
    done: Hashable = (backward, node)
    for count, (nodes, size) in enumerate(reductions(problem, plan)):
        if node not in nodes:
            continue
        others = [other for other in nodes if other != node]
        for part in ("part", "sum"):
            for other in others:
                yield message((count, part, node, other), other, 0, size / len(nodes), done)
            done = (count, part, node)
            arrivals: list[tuple[Hashable, float]] = [
                ((count, part, other, node), link_of(problem, other, node).latency_s)
                for other in others
            ]
            yield done, 0, 0.0, node, arrivals
    yield ("update", node), 0, update_s(problem, plan, node), node, []
    yield from compute(forward, plan.in_flight[number])


def _bytes(problem: Problem, plan: Plan, each: Transfer) -> float:
    cut = plan.stages[each.after.stage - each.after.backward].last
    return float(problem.output_bytes[cut - 1]) * (each.stop - each.start)
