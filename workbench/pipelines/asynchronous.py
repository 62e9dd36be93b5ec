"""PipeDream without a flush: each micro-batch is a step of SGD, with older weights in early stages.

A stage with w micro-batches in flight begins one with the weights of w - 1 updates before those
that its gradients are applied to, and keeps (stashes) them for its backward pass. With the default
w = S - s, the first stage of S has a staleness of S - 1 and the last none (Narayanan et al. 2019,
"PipeDream", Sec. 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from workbench.pipelines.bounds import network_s
from workbench.pipelines.costs import holders, link_of, message_s, of_layers
from workbench.pipelines.problems import Problem
from workbench.pipelines.schedules import Plan, Stage
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
