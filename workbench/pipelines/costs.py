"""Seconds, bytes and memory of the parts of a step under a plan: passes, updates, messages, stages.

The pass of a micro-batch takes the seconds of its samples in the layers of the stage; a message
takes the overhead of its link, then its bytes, in order of sending; it arrives the latency later.
`longest_path` puts them together.
"""

from __future__ import annotations

import math

from workbench.clusters import Link, Schedule
from workbench.pipelines.problems import Problem
from workbench.pipelines.schedules import Pass, Plan, Transfer
from workbench.profiles import Tied
from workbench.sharding.collective_costs import AllReduce
from workbench.sharding.problem import FloatArray
from workbench.utils.checks import UserError, check_kind


def check(problem: Problem, plan: Plan) -> None:
    """Refuse a plan with other layers, nodes or samples than the problem's."""
    check_kind("problem", problem, Problem, "a pipelines.Problem")
    check_kind("plan", plan, Plan, "a pipelines.Plan")
    if plan.stages[-1].last != problem.layers:
        raise UserError(
            f"the plan's stages end with layer {plan.stages[-1].last}, the model with layer "
            f"{problem.layers}"
        )
    if plan.nodes[-1] >= problem.nodes:
        raise UserError(f"the plan has node {plan.nodes[-1]}; nodes are 0 to {problem.nodes - 1}")
    if plan.samples * plan.microbatches != problem.batch:
        raise UserError(
            f"{plan.microbatches} micro-batches of {plan.samples} samples are "
            f"{plan.samples * plan.microbatches}, not the batch of {problem.batch}"
        )


def of_layers(sums: FloatArray, first: int, last: int) -> FloatArray:
    """Sum over the layers `first` to `last`, from sums over the layers 1 to l; see `Problem.sums`.

    Other axes, such as that of nodes, stay.
    """
    difference: FloatArray = sums[..., last] - sums[..., first - 1]
    return difference


def pass_s(problem: Problem, plan: Plan, node: int, pass_: Pass) -> float:
    """Seconds of a pass on a node; a backward pass may repeat the forward pass."""
    stage, sums = plan.stages[pass_.stage], problem.sums
    samples = dict(stage.samples)[node]

    def seconds(of_sample: FloatArray, fixed: FloatArray) -> float:
        each_s, fixed_s = (
            of_layers(table[node], stage.first, stage.last) for table in (of_sample, fixed)
        )
        return float(samples * each_s + fixed_s)

    if not pass_.backward:
        return seconds(sums.forward_s, sums.forward_fixed_s)
    repeats = plan.recompute[pass_.stage]
    repeated_s = seconds(sums.forward_s, sums.forward_fixed_s) if repeats else 0.0
    return repeated_s + seconds(sums.backward_s, sums.backward_fixed_s)


def update_s(problem: Problem, plan: Plan, node: int) -> float:
    """Seconds in which a node updates the weights of all its stages."""
    sums_s = problem.sums.update_s[node]
    stages = [stage for stage in plan.stages if node in stage.nodes]
    return float(sum(of_layers(sums_s, stage.first, stage.last) for stage in stages))


def samples_sent(problem: Problem, plan: Plan) -> dict[tuple[int, int], float]:
    """(owner, node of the first stage) -> bytes of samples that it is sent for a step."""
    batch_bytes = problem.batch * problem.sample_bytes / plan.samples
    return {
        (owner, node): batch_bytes * count * share
        for node, count in plan.stages[0].samples
        for owner, share in (problem.owners or {}).items()
        if owner != node
    }


def transfer_bytes(problem: Problem, plan: Plan, transfer: Transfer) -> float:
    """Bytes of a message between stages; gradients are as large as activations."""
    layer = plan.stages[transfer.cut].last
    return float(problem.output_bytes[layer - 1]) * transfer.rows


def reductions(problem: Problem, plan: Plan) -> list[AllReduce]:
    """All-reduces at the end of a step, in the order in which each node takes part in them.

    They are those of the stages with replicas, in order, then those of weights tied over several
    stages.
    """
    param_bytes = problem.sums.param_bytes
    sizes = [float(of_layers(param_bytes, stage.first, stage.last)) for stage in plan.stages]
    tied = []
    for weight in problem.tied:
        stages = holders(plan, weight)
        if len(stages) > 1:
            sizes[stages[0]] -= weight.size_bytes
            nodes = sorted({node for n in stages for node in plan.stages[n].nodes})
            tied.append(AllReduce(tuple(nodes), weight.size_bytes))
    own = [AllReduce(stage.nodes, size) for stage, size in zip(plan.stages, sizes, strict=True)]
    return [each for each in (*own, *tied) if len(each.nodes) > 1 and each.size_bytes > 0]


def holders(plan: Plan, weight: Tied) -> list[int]:
    """Stages, from 0, with layers of a tied weight."""
    return [
        number
        for number, stage in enumerate(plan.stages)
        if any(stage.first <= layer <= stage.last for layer in weight.layers)
    ]


def needed_bytes(problem: Problem, plan: Plan) -> dict[int, float]:
    """Bytes that each node needs at its peak for all its stages; empty where that is not known."""
    check(problem, plan)
    if problem.needed is None:
        return {}
    needed = dict.fromkeys(plan.nodes, 0.0)
    for number, stage in enumerate(plan.stages):
        depth = 1 if stage.last < problem.first_trained else plan.depth(number)
        for node, samples in stage.samples:
            needed[node] += problem.needed(
                stage.first, stage.last, samples, depth, plan.recompute[number]
            )
    return needed


def fits(problem: Problem, plan: Plan) -> bool:
    """Whether no node needs more memory than it has; True where the need is not known."""
    limits = problem.limits_bytes
    return all(size <= limits[node] for node, size in needed_bytes(problem, plan).items())


def link_of(problem: Problem, source: int, target: int) -> Link:
    """Return the link between two nodes; refuse a pair that has none."""
    link = problem.links.get((source, target))
    if link is None:
        raise UserError(f"the plan sends from node {source} to {target}, which have no link")
    return link


def message_s(link: Link, size_bytes: float, start_s: float = 0.0) -> float:
    """Seconds for which a message occupies a link; its latency comes on top."""
    bits, overhead_s, rate = 8 * size_bytes, link.overhead_s, link.bandwidth
    if isinstance(rate, Schedule):
        return overhead_s + rate.seconds_for(bits, start_s + overhead_s)
    return overhead_s + bits / rate


def least_arrival_s(problem: Problem, source: int, target: int, size_bytes: float) -> float:
    """Least seconds until a message arrives, at the highest bandwidth where that changes."""
    if source == target:
        return 0.0
    link = problem.links.get((source, target))
    if link is None:
        return math.inf
    return link.overhead_s + 8 * size_bytes / fastest_bps(link) + link.latency_s


def fastest_bps(link: Link) -> float:
    """Bandwidth of a link, the highest where that changes."""
    rate = link.bandwidth
    return max(rate.values) if isinstance(rate, Schedule) else rate
