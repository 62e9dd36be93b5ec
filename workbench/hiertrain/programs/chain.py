"""Model parallelism: runs of layers on one tier each, all samples through all of them.

As JointDNN, JointDNN+ and JALAD do. The phases follow each other as in the cost model: the weights
are updated when the last gradient is there, on all tiers at once, and the next iteration begins
when all have finished; these notifications are free. Several devices compute side by side, each
its own samples, and average the gradients of their layers before the update.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from workbench.hiertrain.costs.policy import Chain
from workbench.hiertrain.costs.problem import TIERS
from workbench.hiertrain.programs.worker import Team, Worker, average

if TYPE_CHECKING:
    from workbench.runtime import Context, Program


def chain_program(policy: Chain, worker: Worker, team: Team, hub: Worker) -> Program:
    """Program of a worker; one that holds no layers, and averages none, ends at once."""
    problem, batch, tier, learner = worker.problem, policy.batch, worker.tier, worker.learner
    runs = [(holder, (first, last or 0)) for holder, first, last, _ in policy.rows()]
    mine = [index for index, (holder, _) in enumerate(runs) if holder == tier]
    update = _updating(policy, worker, team, hub)

    def pass_on(context: Context, topic: str, tensors: Any, to: str, cut: int) -> None:
        """Send features of layer `cut`, or their gradient."""
        back = topic == "gradient"
        if (bits := policy.bits_between(tier, to, back=back)) < 32:
            tensors = learner.quantise(tensors, bits)
        size_bytes = policy.crossing_bytes(problem, cut, back=back)
        worker.send(context, team[to], topic, tensors, size_bytes)

    async def forward(context: Context, iteration: int) -> Any:
        """Features behind the last layer; only its tier uses them."""
        features = None
        for index in mine:
            if index == 0:
                features = await worker.take_samples(context, iteration, range(batch))
            else:
                before = team[runs[index - 1][0]]
                features, *_ = await worker.receive(context, before, "features")
            layers = runs[index][1]
            features = await worker.run(context, "forward", layers, batch, features)
            if index + 1 < len(runs):
                pass_on(context, "features", features, runs[index + 1][0], layers[1])
        return features

    async def backward(context: Context, gradient: Any) -> None:
        for index in reversed(mine):
            if index + 1 < len(runs):
                behind = team[runs[index + 1][0]]
                gradient, *_ = await worker.receive(context, behind, "gradient")
            layers = runs[index][1]
            gradient = await worker.run(context, "backward", layers, batch, gradient)
            if index > 0:
                pass_on(context, "gradient", gradient, runs[index - 1][0], layers[0] - 1)

    async def program(context: Context) -> None:
        for iteration in range(worker.iterations):
            learner.begin(iteration)
            features = await forward(context, iteration)
            await backward(context, worker.loss(context, features) if runs[-1][0] == tier else None)
            await update(context)

    async def helping(context: Context) -> None:
        for _ in range(worker.iterations if worker == hub else 0):
            await update(context)

    return program if mine else helping


def _updating(
    policy: Chain, worker: Worker, team: Team, hub: Worker
) -> Callable[[Context], Awaitable[None]]:
    """What follows the last gradient; a hub without layers only averages."""
    problem, tiers = worker.problem, policy.tiers
    heads = team[tiers[0]]
    others = [one for tier in TIERS if tier in tiers and tier != tiers[0] for one in team[tier]]
    averaged_bytes = policy.param_bytes(problem, "device")
    devices = dict.fromkeys(team["device"], (problem.layers, averaged_bytes))
    averages = averaged_bytes > 0 and hub not in devices and (worker == hub or worker in devices)

    async def update(context: Context) -> None:
        if worker in heads:
            worker.send(context, others, "backward done", None, 0)
        elif worker in others:
            await worker.receive(context, heads, "backward done")
        if averages:
            await average(context, worker, hub, devices)
        if worker in heads or worker in others:
            await worker.update(context, None, policy.update_s(problem, worker.tier))
        if worker in heads:
            await worker.receive(context, others, "updated")
        elif worker in others:
            worker.send(context, heads, "updated", None, 0)

    return update
