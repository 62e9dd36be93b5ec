"""Model parallelism: runs of layers on one tier each, all samples through all of them.

As JointDNN, JointDNN+ and JALAD do. The phases follow each other as in the cost model: the weights
are updated when the last gradient is there, on all tiers at once, and the next iteration begins
when all have finished; these notifications are free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.hiertrain.costs.policy import Chain
from workbench.hiertrain.costs.problem import TIERS
from workbench.hiertrain.programs.worker import Worker, send

if TYPE_CHECKING:
    from workbench.runtime import Context, Program


def chain_program(policy: Chain, worker: Worker) -> Program:
    """Program of a tier; one that holds no layers ends at once."""
    problem, batch, tier, learner = worker.problem, policy.batch, worker.tier, worker.learner
    runs = [(holder, (first, last or 0)) for holder, first, last, _ in policy.rows()]
    mine = [index for index, (holder, _) in enumerate(runs) if holder == tier]
    head = runs[0][0]
    others = [other for other in TIERS if other != head and other in policy.tiers]
    update_s = policy.update_s(problem, tier)

    def narrow(tensors: Any, to: str, *, back: bool) -> Any:
        bits = policy.bits_between(tier, to, back=back)
        return learner.quantise(tensors, bits) if bits < 32 else tensors

    async def forward(context: Context, iteration: int) -> Any:
        """Features behind the last layer; only its tier uses them."""
        features = None
        for index in mine:
            if index == 0:
                features = await worker.take_samples(context, iteration, range(batch))
            else:
                before = TIERS.index(runs[index - 1][0])
                features = (await context.receive("features", sender=before)).payload
            layers = runs[index][1]
            features = await worker.run(context, "forward", layers, batch, features)
            if index + 1 < len(runs):
                to, size_bytes = runs[index + 1][0], policy.crossing_bytes(problem, layers[1])
                send(context, to, "features", narrow(features, to, back=False), size_bytes)
        return features

    async def backward(context: Context, gradient: Any) -> None:
        for index in reversed(mine):
            if index + 1 < len(runs):
                behind = TIERS.index(runs[index + 1][0])
                gradient = (await context.receive("gradient", sender=behind)).payload
            layers = runs[index][1]
            gradient = await worker.run(context, "backward", layers, batch, gradient)
            if index > 0:
                to = runs[index - 1][0]
                size_bytes = policy.crossing_bytes(problem, layers[0] - 1, back=True)
                send(context, to, "gradient", narrow(gradient, to, back=True), size_bytes)

    async def update(context: Context) -> None:
        if tier != head:
            await context.receive("backward done", sender=TIERS.index(head))
        for other in others if tier == head else ():
            send(context, other, "backward done", None, 0)
        await worker.update(context, None, update_s)
        if tier != head:
            send(context, head, "updated", None, 0)
        for other in others if tier == head else ():
            await context.receive("updated", sender=TIERS.index(other))

    async def program(context: Context) -> None:
        for iteration in range(worker.iterations if mine else 0):
            learner.begin(iteration)
            features = await forward(context, iteration)
            await backward(context, learner.loss(features) if runs[-1][0] == tier else None)
            await update(context)

    return program
