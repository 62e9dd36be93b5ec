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
from workbench.hiertrain.programs.job import Job, Learner, send

if TYPE_CHECKING:
    from workbench.runtime import Context, Program


class Task(NamedTuple):
    """What worker s or l does: layers 1 to `last` of samples, in blocks of layers."""

    tier: str
    last: int
    samples: range
    blocks: tuple[tuple[int, int], ...]


def programs_of(job: Job, policy: Hybrid, learners: Sequence[Learner]) -> list[Program]:
    """Programs of device, edge and cloud; o, s and l take the samples of a batch in this order."""
    o, s, l = policy.order  # noqa: E741
    behind_o = policy.b_o + policy.b_s
    short = Task(s, policy.m_s, range(policy.b_o, behind_o), ((1, policy.m_s),))
    blocks = ((1, policy.m_s), (policy.m_s + 1, policy.m_l))
    long = Task(l, policy.m_l, range(behind_o, policy.batch_size), blocks)
    of = dict(zip(TIERS, learners, strict=True))
    programs = {
        o: original(job, policy, of[o], short, long),
        s: helper(job, short, o, of[s]),
        l: helper(job, long, o, of[l]),
    }
    return [programs[tier] for tier in TIERS]


def helper(job: Job, task: Task, o: str, learner: Learner) -> Program:
    """Program of worker s or l; ends at once without layers."""
    problem, samples, node_o = job.problem, len(task.samples), TIERS.index(o)

    async def program(context: Context) -> None:
        for iteration in range(job.iterations if task.last else 0):
            learner.begin(iteration)
            features = await job.take_samples(context, iteration, task.samples)
            for layers in task.blocks:
                features = await job.forward(context, learner, layers, samples, features)
            if samples:
                size_bytes = samples * problem.output_bytes[task.last - 1]
                send(context, o, "features", features, size_bytes)
                gradient = (await context.receive("gradient", sender=node_o)).payload
                for layers in reversed(task.blocks):
                    gradient = await job.backward(context, learner, layers, samples, gradient)
            weight_bytes = problem.param_sum_bytes[task.last]
            send(context, o, "weight gradients", learner.gradients(task.last), weight_bytes)
            averaged = (await context.receive("averaged gradients", sender=node_o)).payload
            update_s = float(problem.update_sum_s[task.tier][task.last])
            await job.update(context, learner, averaged, update_s)

    return program


def original(job: Job, policy: Hybrid, learner: Learner, short: Task, long: Task) -> Program:
    """Program of worker o.

    Its own samples come first in what it computes, then those of s, then those of l.
    """
    problem, layers = job.problem, job.problem.layers
    blocks = ((1, policy.m_s), (policy.m_s + 1, policy.m_l), (policy.m_l + 1, layers))
    samples = (policy.b_o, policy.b_o + policy.b_s, policy.batch_size)
    joining = (None, short, long)  # whose features join before each block
    others = [task for task in (short, long) if task.last]

    async def forward(context: Context, iteration: int) -> Any:
        features = await job.take_samples(context, iteration, range(policy.b_o))
        for block, count, task in zip(blocks, samples, joining, strict=True):
            if task is not None and task.samples:
                arrived = await context.receive("features", sender=TIERS.index(task.tier))
                features = learner.join([features, arrived.payload])
            features = await job.forward(context, learner, block, count, features)
        return features

    async def backward(context: Context, gradient: Any) -> None:
        for block, count, task in reversed(list(zip(blocks, samples, joining, strict=True))):
            gradient = await job.backward(context, learner, block, count, gradient)
            if task is not None and task.samples:
                gradient, its = learner.split(gradient, len(task.samples))
                size_bytes = len(task.samples) * problem.gradient_bytes[task.last - 1]
                send(context, task.tier, "gradient", its, size_bytes)

    async def program(context: Context) -> None:
        for iteration in range(job.iterations):
            learner.begin(iteration)
            features = await forward(context, iteration)
            await backward(context, learner.loss(features))
            parts = []
            for task in others:
                came = await context.receive("weight gradients", sender=TIERS.index(task.tier))
                parts.append(came.payload)
            averaged = learner.average(parts)
            for task in others:
                part = learner.part(averaged, task.last)
                size_bytes = problem.param_sum_bytes[task.last]
                send(context, task.tier, "averaged gradients", part, size_bytes)
            update_s = float(problem.update_sum_s[policy.order[0]][layers])
            await job.update(context, learner, averaged, update_s)

    return program
