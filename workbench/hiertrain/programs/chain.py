"""Model parallelism: runs of layers on one tier each, all samples through all of them.

As JointDNN, JointDNN+ and JALAD do. The phases follow each other as in the cost model: the weights
are updated when the last gradient is there, on all tiers at once, and the next iteration begins
when all have finished; these notifications are free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workbench.hiertrain.costs.policy import Chain
from workbench.hiertrain.costs.problem import TIERS
from workbench.hiertrain.programs.job import Job, Learner, send

if TYPE_CHECKING:
    from workbench.runtime import Context, Program


def programs_of(job: Job, policy: Chain, learners: Sequence[Learner]) -> list[Program]:
    """Programs of device, edge and cloud."""
    return [
        holder(job, policy, tier, learner) for tier, learner in zip(TIERS, learners, strict=True)
    ]


def holder(job: Job, policy: Chain, tier: str, learner: Learner) -> Program:
    """Program of a tier; one that holds no layers ends at once."""
    problem, batch = job.problem, policy.batch
    runs = [(holder, (first, last or 0)) for holder, first, last, _ in policy.rows()]
    mine = [index for index, (holder, _) in enumerate(runs) if holder == tier]
    head = runs[0][0]
    others = [one for one in TIERS if one != head and one in policy.tiers]
    update_s = sum(
        float(problem.update_s[tier][layer])
        for layer, holder in enumerate(policy.tiers)
        if holder == tier
    )
    back_bits = policy.bits if policy.gradient_bits is None else policy.gradient_bits

    def packed(tensors: Any, bits: int | None, to: str) -> Any:
        narrow = bits is not None and bits < 32 and {tier, to} == {"edge", "cloud"}
        return learner.quantise(tensors, bits or 0) if narrow else tensors

    async def forward(context: Context, iteration: int) -> Any:
        """Features behind the last layer; only its tier uses them."""
        features = None
        for index in mine:
            if index == 0:
                features = await job.take_samples(context, iteration, range(batch))
            else:
                before = TIERS.index(runs[index - 1][0])
                features = (await context.receive("features", sender=before)).payload
            layers = runs[index][1]
            features = await job.forward(context, learner, layers, batch, features)
            if index + 1 < len(runs):
                to, size_bytes = runs[index + 1][0], policy.feature_bytes(problem, layers[1])
                send(context, to, "features", packed(features, policy.bits, to), size_bytes)
        return features

    async def backward(context: Context, gradient: Any) -> None:
        for index in reversed(mine):
            if index + 1 < len(runs):
                behind = TIERS.index(runs[index + 1][0])
                gradient = (await context.receive("gradient", sender=behind)).payload
            layers = runs[index][1]
            gradient = await job.backward(context, learner, layers, batch, gradient)
            if index > 0:
                to, size_bytes = runs[index - 1][0], policy.gradient_bytes(problem, layers[0] - 1)
                send(context, to, "gradient", packed(gradient, back_bits, to), size_bytes)

    async def update(context: Context) -> None:
        if tier != head:
            await context.receive("backward done", sender=TIERS.index(head))
        for other in others if tier == head else ():
            send(context, other, "backward done", None, 0)
        await job.update(context, learner, None, update_s)
        if tier != head:
            send(context, head, "updated", None, 0)
        for other in others if tier == head else ():
            await context.receive("updated", sender=TIERS.index(other))

    async def program(context: Context) -> None:
        for iteration in range(job.iterations if mine else 0):
            learner.begin(iteration)
            features = await forward(context, iteration)
            await backward(context, learner.loss(features) if runs[-1][0] == tier else None)
            await update(context)

    return program
