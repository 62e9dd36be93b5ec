"""Workers o, s and l of hybrid parallelism (Liu et al. 2020, IV-B, Fig. 4).

Forward, worker s computes layers 1..m_s and worker l layers 1..m_l, each of its own samples, and
worker o takes their features further with its own. Backward, it returns each the gradient of its
features at once. Then it adds up the gradients of the parameters, layer by layer those of all who
have the layer, and every worker updates its own layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.hiertrain.costs.policy import Hybrid
from workbench.hiertrain.costs.problem import TIERS
from workbench.hiertrain.programs.worker import Worker, send

if TYPE_CHECKING:
    from workbench.runtime import Context, Program


class Task(NamedTuple):
    """What worker s or l does: layers 1 to `last` of samples, in blocks of layers."""

    tier: str
    last: int
    samples: range
    blocks: tuple[tuple[int, int], ...]


def hybrid_programs(policy: Hybrid, workers: Sequence[Worker]) -> list[Program]:
    """Programs of device, edge and cloud; o, s and l take the samples of a batch in this order."""
    o, s, l = policy.order  # noqa: E741
    behind_o = policy.b_o + policy.b_s
    short = Task(s, policy.m_s, range(policy.b_o, behind_o), ((1, policy.m_s),))
    blocks = ((1, policy.m_s), (policy.m_s + 1, policy.m_l))
    long = Task(l, policy.m_l, range(behind_o, policy.batch_size), blocks)
    of = dict(zip(TIERS, workers, strict=True))
    programs = {
        o: _original(policy, of[o], short, long),
        s: _helper(short, TIERS.index(o), of[s]),
        l: _helper(long, TIERS.index(o), of[l]),
    }
    return [programs[tier] for tier in TIERS]


def _helper(task: Task, o: int, worker: Worker) -> Program:
    """Program of worker s or l, with worker o on node `o`; ends at once without layers."""
    problem, learner, samples = worker.problem, worker.learner, len(task.samples)
    update_s = float(problem.update_sum_s[TIERS.index(task.tier), task.last])

    async def program(context: Context) -> None:
        for iteration in range(worker.iterations if task.last else 0):
            learner.begin(iteration)
            features = await worker.take_samples(context, iteration, task.samples)
            for layers in task.blocks:
                features = await worker.run(context, "forward", layers, samples, features)
            if samples:
                size_bytes = samples * problem.output_bytes[task.last - 1]
                send(context, TIERS[o], "features", features, size_bytes)
                gradient = (await context.receive("gradient", sender=o)).payload
                for layers in reversed(task.blocks):
                    gradient = await worker.run(context, "backward", layers, samples, gradient)
            weight_bytes = problem.param_sum_bytes[task.last]
            send(context, TIERS[o], "weight gradients", learner.gradients(task.last), weight_bytes)
            averaged = (await context.receive("averaged gradients", sender=o)).payload
            await worker.update(context, averaged, update_s)

    return program


def _original(policy: Hybrid, worker: Worker, short: Task, long: Task) -> Program:
    """Program of worker o.

    Its own samples come first in what it computes, then those of s, then those of l.
    """
    problem, learner, layers = worker.problem, worker.learner, worker.problem.layers
    blocks = ((1, policy.m_s), (policy.m_s + 1, policy.m_l), (policy.m_l + 1, layers))
    samples = (policy.b_o, policy.b_o + policy.b_s, policy.batch_size)
    joining = (None, short, long)  # whose features join before each block
    parts = list(zip(blocks, samples, joining, strict=True))
    helpers = [task for task in (short, long) if task.last]
    update_s = float(problem.update_sum_s[TIERS.index(worker.tier), layers])

    async def forward(context: Context, iteration: int) -> Any:
        features = await worker.take_samples(context, iteration, range(policy.b_o))
        for block, count, task in parts:
            if task is not None and task.samples:
                arrived = await context.receive("features", sender=TIERS.index(task.tier))
                features = learner.join([features, arrived.payload])
            features = await worker.run(context, "forward", block, count, features)
        return features

    async def backward(context: Context, gradient: Any) -> None:
        for block, count, task in reversed(parts):
            gradient = await worker.run(context, "backward", block, count, gradient)
            if task is not None and task.samples:
                gradient, its = learner.split(gradient, len(task.samples))
                size_bytes = len(task.samples) * problem.gradient_bytes[task.last - 1]
                send(context, task.tier, "gradient", its, size_bytes)

    async def program(context: Context) -> None:
        for iteration in range(worker.iterations):
            learner.begin(iteration)
            features = await forward(context, iteration)
            await backward(context, learner.loss(features))
            gradients = []
            for task in helpers:
                sender = TIERS.index(task.tier)
                gradients.append((await context.receive("weight gradients", sender=sender)).payload)
            averaged = learner.average(gradients)
            for task in helpers:
                part = learner.part(averaged, task.last)
                size_bytes = problem.param_sum_bytes[task.last]
                send(context, task.tier, "averaged gradients", part, size_bytes)
            await worker.update(context, averaged, update_s)

    return program
