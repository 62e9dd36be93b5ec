"""JALAD: one cut between edge and cloud, features quantised on their way (Li et al. 2018)."""

from __future__ import annotations

from workbench.hiertrain.costs.iteration import iteration
from workbench.hiertrain.costs.policy import Chain
from workbench.hiertrain.costs.problem import Problem, check_problem

BITS = 8
"""c, which HierTrain's paper compares with (Liu et al. 2020, VI-C.5)."""


def jalad(problem: Problem, bits: int = BITS, gradient_bits: int | None = None) -> Chain:
    """Fastest single cut between edge and cloud, with quantised features and gradients.

    Of several such, the one that leaves most layers to the cloud. Layers up to the cut are the
    edge's, the others the cloud's; the samples go to the tier of layer 1. Features take `bits` a
    value (the paper's c), gradients `gradient_bits`: None for as many, 32 for gradients as they
    are.

    Deviation: JALAD is made for inference, and the paper does not say how its gradients travel.
    Quantising them as well is our reading: as they are, they would take four times as long as the
    features, and compression would save three eighths of the traffic instead of three quarters.

    Deviation: without any layer on the edge the samples go from device to cloud instead of resting
    at the edge, since the paper has JALAD equal All-Cloud at high bandwidth.

    Deviation: the least and the greatest value, which the cloud needs to read the quantised ones,
    are not charged: some bytes a message.
    """
    check_problem(problem)
    chains = [chain_at(problem, cut, bits, gradient_bits) for cut in range(problem.layers + 1)]
    return min(chains, key=lambda chain: iteration(problem, chain).total_s)


def chain_at(
    problem: Problem, cut: int, bits: int = BITS, gradient_bits: int | None = None
) -> Chain:
    """Layers up to `cut` on the edge, the others in the cloud."""
    tiers = ("edge",) * cut + ("cloud",) * (problem.layers - cut)
    return Chain(tiers, problem.batch, bits, gradient_bits)
