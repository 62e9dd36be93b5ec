"""Workers o, s and l of hybrid parallelism (Liu et al. 2020, IV-B, Fig. 4).

Forward, worker s computes layers 1..m_s and worker l layers 1..m_l, each of its own samples, and
worker o takes their features further with its own. Backward, it returns each the gradient of its
features at once. Then it adds up the gradients of the parameters, layer by layer those of all who
have the layer, and every worker updates its own layers.

Of several devices each is a worker with its share of the samples; as worker o they do this for the
features of their own samples, and edge or cloud adds up (`costs.tier`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.hiertrain.costs.policy import Hybrid
from workbench.hiertrain.costs.problem import TIERS
from workbench.hiertrain.programs.worker import Team, Worker, average

if TYPE_CHECKING:
    from workbench.runtime import Context, Program

Passes = Callable[["Context", int], Awaitable[None]]
"""Forward and backward of an iteration."""


class Task(NamedTuple):
    """What worker s or l does: layers 1 to `last` of samples, in blocks of layers."""

    tier: str
    last: int
    samples: range
    blocks: tuple[tuple[int, int], ...]


def hybrid_program(policy: Hybrid, worker: Worker, team: Team, hub: Worker) -> Program:
    """Program of a worker; o, s and l take the samples of a batch in this order."""
    o, s, l = policy.order  # noqa: E741
    behind_o, layers = policy.b_o + policy.b_s, worker.problem.layers
    short = Task(s, policy.m_s, range(policy.b_o, behind_o), ((1, policy.m_s),))
    blocks = ((1, policy.m_s), (policy.m_s + 1, policy.m_l))
    long = Task(l, policy.m_l, range(behind_o, policy.batch_size), blocks)
    lasts = {s: short.last, l: long.last, o: layers}
    members = {
        member: (last, float(worker.problem.param_sum_bytes[last]))
        for tier, last in lasts.items()
        for member in team[tier]
        if last and member != hub
    }
    last = lasts[worker.tier]
    if worker.tier == o:
        step = _original(policy, worker, short, long, team)
    else:
        step = _helper(short if worker.tier == s else long, worker, team[o])
    update_s = float(worker.problem.update_sum_s[TIERS.index(worker.tier), last])

    async def program(context: Context) -> None:
        for iteration in range(worker.iterations if last or worker == hub else 0):
            worker.learner.begin(iteration)
            await step(context, iteration)
            averaged = await average(context, worker, hub, members)
            if last:
                await worker.update(context, averaged, update_s)

    return program


def _helper(task: Task, worker: Worker, originals: Sequence[Worker]) -> Passes:
    """Passes of worker s or l."""
    problem, samples = worker.problem, len(task.samples)

    async def step(context: Context, iteration: int) -> None:
        features = await worker.take_samples(context, iteration, task.samples)
        for layers in task.blocks:
            features = await worker.run(context, "forward", layers, samples, features)
        if not samples:
            return
        size_bytes = samples * problem.output_bytes[task.last - 1]
        worker.send(context, originals, "features", features, size_bytes)
        gradient, *_ = await worker.receive(context, originals, "gradient")
        for layers in reversed(task.blocks):
            gradient = await worker.run(context, "backward", layers, samples, gradient)

    return step


def _original(policy: Hybrid, worker: Worker, short: Task, long: Task, team: Team) -> Passes:
    """Passes of worker o.

    Its own samples come first in what it computes, then those of s, then those of l.
    """
    problem, learner, layers = worker.problem, worker.learner, worker.problem.layers
    blocks = ((1, policy.m_s), (policy.m_s + 1, policy.m_l), (policy.m_l + 1, layers))
    samples = (policy.b_o, policy.b_o + policy.b_s, policy.batch_size)
    joining = (None, short, long)  # whose features join before each block
    parts = list(zip(blocks, samples, joining, strict=True))

    async def forward(context: Context, iteration: int) -> Any:
        features = await worker.take_samples(context, iteration, range(policy.b_o))
        for block, count, task in parts:
            if task is not None and task.samples:
                arrived = await worker.receive(context, team[task.tier], "features")
                features = learner.join([features, *arrived])
            features = await worker.run(context, "forward", block, count, features)
        return features

    async def backward(context: Context, gradient: Any) -> None:
        for block, count, task in reversed(parts):
            gradient = await worker.run(context, "backward", block, count, gradient)
            if task is not None and (count := len(task.samples)):
                gradient, its = learner.split(gradient, count)
                size_bytes = count * problem.gradient_bytes[task.last - 1]
                worker.send(context, team[task.tier], "gradient", its, size_bytes)

    async def step(context: Context, iteration: int) -> None:
        features = await forward(context, iteration)
        await backward(context, worker.loss(context, features))

    return step
