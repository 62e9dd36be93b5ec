"""PipeDream without a flush: each micro-batch is a step of SGD, with older weights in early stages.

A stage with w micro-batches in flight begins one with the weights of w - 1 updates before those
that its gradients are applied to, and keeps (stashes) them for its backward pass. With the default
w = S - s, the first stage of S has a staleness of S - 1 and the last none (Narayanan et al. 2019,
"PipeDream", Sec. 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from workbench.pipelines.bounds import network_s
from workbench.pipelines.costs import (
    check,
    holders,
    link_of,
    message_s,
    of_layers,
    pass_s,
    reductions,
    transfer_bytes,
    update_s,
)
from workbench.pipelines.problems import Problem
from workbench.pipelines.schedules import Pass, Plan, Stage, source, target, transfers
from workbench.sharding.collective_costs import ROUNDS
from workbench.sharding.problem import FloatArray
from workbench.utils.checks import UserError


def check_without_flush(problem: Problem, plan: Plan) -> None:
    """Refuse a plan that PipeDream cannot carry out.

    Raises UserError: GPipe's schedule; a node with several stages; a weight tied over stages, whose
    copies would be updated at different times.
    """
    if plan.schedule != "1f1b":
        raise UserError(f"schedule is {plan.schedule!r}; a pipeline without a flush needs '1f1b'")
    if sum(len(stage.samples) for stage in plan.stages) > len(plan.nodes):
        raise UserError("a node is in several stages; without a flush give each node one stage")
    for weight in problem.tied:
        stages = [number + 1 for number in holders(plan, weight)]
        if len(stages) > 1:
            raise UserError(
                f"layers {', '.join(map(str, weight.layers))} share a weight, but are in stages "
                f"{', '.join(map(str, stages))}, which update it at different times; give them to "
                "one stage, or train with a flush"
            )


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

    Raises UserError: a plan that `check_without_flush` refuses, or one with blocking messages.
    """
    check(problem, plan)
    check_without_flush(problem, plan)
    if plan.blocking:
        raise UserError("blocking is True; a pipeline without a flush queues its messages")
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
        solution = linprog(costs, A_ub=matrix, b_ub=limits, bounds=bounds, method="highs")
        if not solution.success:
            raise UserError(f"the nodes wait for each other for ever: {solution.message}")
        return float(solution.x[-1])


class _Event(NamedTuple):
    """A pass, a message, a sum or an update, which happens once a micro-batch.

    Attributes
    ----------
    ahead
        How many micro-batches it is ahead of the node's backward pass.
    resource
        Node or link that it occupies.
    after
        Other events that it waits for, each with a latency.
    """

    name: Hashable
    ahead: int
    seconds: float
    resource: Hashable
    after: Sequence[tuple[Hashable, float]]


def _period_s(problem: Problem, plan: Plan) -> float:
    waits = _Waits()
    for number, stage in enumerate(plan.stages):
        for node in stage.nodes:
            first_on: dict[Hashable, _Event] = {}
            last_on: dict[Hashable, _Event] = {}
            for event in _cycle(problem, plan, number, node):
                for other, latency_s in event.after:
                    waits.add(event.name, other, 0, latency_s + event.seconds)
                if event.resource in last_on:
                    last = last_on[event.resource]
                    waits.add(event.name, last.name, event.ahead - last.ahead, event.seconds)
                else:
                    first_on[event.resource] = event
                last_on[event.resource] = event
            for resource, event in first_on.items():  # the next time round
                last = last_on[resource]
                waits.add(event.name, last.name, event.ahead + 1 - last.ahead, event.seconds)
    return waits.least_s()


def _cycle(problem: Problem, plan: Plan, number: int, node: int) -> Iterator[_Event]:
    """Operations of a node that repeat for ever: backward, sums, update, a later forward pass.

    Passes and messages of other nodes go by the same names.
    """
    forward, backward = Pass(number, 0, False), Pass(number, 0, True)
    if plan.stages[number].last < problem.first_trained:
        yield from _pass_events(problem, plan, node, forward, ahead=0)
        return
    yield from _pass_events(problem, plan, node, backward, ahead=0)
    done: Hashable = (backward, node)
    for count, reduction in enumerate(reductions(problem, plan)):
        if node not in reduction.nodes:
            continue
        others = reduction.others(node)
        for part in ROUNDS:
            for other in others:
                name = count, part, node, other
                yield _sending(problem, name, (node, other), reduction.share_bytes, done)
            done = (count, part, node)
            arrivals = [
                ((count, part, other, node), link_of(problem, other, node).latency_s)
                for other in others
            ]
            yield _Event(done, 0, 0.0, node, arrivals)
    yield _Event(("update", node), 0, update_s(problem, plan, node), node, ())
    yield from _pass_events(problem, plan, node, forward, ahead=plan.in_flight[number])


def _pass_events(
    problem: Problem, plan: Plan, node: int, pass_: Pass, *, ahead: int
) -> Iterator[_Event]:
    """Events of a pass, and of the messages that it sends."""
    before, after = source(plan, pass_), target(plan, pass_, problem.first_trained)
    arriving = [] if before is None else transfers(plan, before, pass_)
    inputs = [
        (transfer, link_of(problem, transfer.sender, node).latency_s)
        for transfer in arriving
        if transfer.receiver == node
    ]
    done = pass_, node
    yield _Event(done, ahead, pass_s(problem, plan, node, pass_), node, inputs)
    for transfer in [] if after is None else transfers(plan, pass_, after):
        if transfer.sender == node:
            size_bytes = transfer_bytes(problem, plan, transfer)
            ends = node, transfer.receiver
            yield _sending(problem, transfer, ends, size_bytes, done, ahead=ahead)


def _sending(
    problem: Problem,
    name: Hashable,
    ends: tuple[int, int],
    size_bytes: float,
    after: Hashable,
    *,
    ahead: int = 0,
) -> _Event:
    seconds = message_s(link_of(problem, *ends), size_bytes)
    return _Event(name, ahead, seconds, ends, [(after, 0.0)])


def balanced(problem: Problem, order: Sequence[int]) -> Plan:
    """PipeDream's plan on these nodes in turn, without replicas (Narayanan et al. 2019, Sec. 3.1).

    Their recurrence for a given order of unlike nodes, with W(l, k) the seconds of a batch in the
    layers 1 to l and of their update on the k-th node, and C(i, k) those of the activations behind
    layer i on the link from the node before:

        A(l, 1) = W(l, 1)
        A(l, k) = min over i < l of  max( A(i, k - 1),  C(i, k),  W(l, k) - W(i, k) )

    A(l, k) is the shortest busiest stage or link with layers 1 to l on the first k nodes.
    Deviation: gradients travel back on a link of their own, so a cut counts once, theirs twice.
    """
    work_s, layers = _work_s(problem), problem.layers
    best, choices = work_s[order[0]].copy(), []
    best[0] = math.inf
    for before, node in pairwise(order):
        link = link_of(problem, before, node)
        cut_s = [message_s(link, problem.batch * size) for size in problem.output_bytes]
        until = np.maximum(best, [math.inf, *cut_s])  # by the layer before the cut
        own_s = work_s[node][None, :] - work_s[node][:, None]
        longest = np.where(
            np.triu(np.ones_like(own_s), 1) > 0, np.maximum(until[:, None], own_s), math.inf
        )
        choices.append(longest.argmin(axis=0))
        best = longest.min(axis=0)
    lasts = [layers]
    for choice in reversed(choices):
        lasts.insert(0, int(choice[lasts[0]]))
    firsts = [1, *(last + 1 for last in lasts[:-1])]
    stages = [
        Stage(first, last, ((node, problem.batch),))
        for first, last, node in zip(firsts, lasts, order, strict=True)
    ]
    return Plan(stages=tuple(stages), microbatches=1)


def busiest_stage_or_link_s(problem: Problem, plan: Plan) -> float:
    """Seconds of a step in the busiest stage, link or capacity, where a stage has one node."""
    work_s = _work_s(problem)
    stages = [
        float(of_layers(work_s[node], stage.first, stage.last))
        for stage in plan.stages
        for node in stage.nodes
    ]
    return max(network_s(problem, plan), *stages)


def _work_s(problem: Problem) -> FloatArray:
    """Seconds of a batch and the update after it on each node, by layers 1 to l."""
    sums = problem.sums
    fixed_s = sums.forward_fixed_s + sums.backward_fixed_s
    work_s: FloatArray = (
        problem.batch * (sums.forward_s + sums.backward_s) + fixed_s + sums.update_s
    )
    return work_s
