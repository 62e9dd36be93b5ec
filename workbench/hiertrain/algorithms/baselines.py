"""Baselines of HierTrain (Liu et al. 2020, VI-C): one tier alone, JointDNN, JALAD."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.hiertrain.costs import TIERS, Chain, Hybrid, Problem, check_problem, iteration

BITS = 8
"""JALAD's c, which HierTrain's paper compares with."""


def all_edge(problem: Problem) -> Hybrid:
    """All layers and samples on the edge: it is worker o, alone."""
    check_problem(problem)
    return Hybrid(("edge", "device", "cloud"), m_s=0, m_l=0, b_o=problem.batch, b_s=0, b_l=0)


def all_cloud(problem: Problem) -> Hybrid:
    """All layers and samples in the cloud: it is worker o, alone."""
    check_problem(problem)
    return Hybrid(("cloud", "device", "edge"), m_s=0, m_l=0, b_o=problem.batch, b_s=0, b_l=0)


def jointdnn(problem: Problem) -> Chain:
    """Layers on the device or in the cloud, by a shortest path (Eshratifar et al. 2018).

    Deviation: the loss is computed where the last layer is, though the labels are on the device:
    a few bytes a sample that are not charged.
    """
    return shortest_path(problem, ("device", "cloud"))


def jointdnn_plus(problem: Problem) -> Chain:
    """JointDNN over device, edge and cloud, as HierTrain's paper extends it.

    Never slower than JointDNN, whose path it takes where updates make that one faster.
    """
    paths = shortest_path(problem, TIERS), jointdnn(problem)
    return min(paths, key=lambda chain: iteration(problem, chain).total_s)


def shortest_path(problem: Problem, allowed: Sequence[str]) -> Chain:
    """Assignment of every layer to one of the allowed tiers with the least forward and backward.

    The graph has a node per layer and tier, from the samples on the device to the last layer. A
    node costs the layer's computation of the whole batch, an edge between tiers the features
    forward and their gradients back, and the first edge the samples. The update of the weights is
    no part of JointDNN's graph, so it does not count here; where several devices average what they
    train, the bytes of that count with each of their layers.
    """
    check_problem(problem)
    batch = problem.batch
    crossing = zip(problem.output_bytes, problem.gradient_bytes, strict=True)
    crossing_bytes = [(problem.sample_bytes,), *crossing]  # what enters each layer
    paths: dict[str, tuple[float, tuple[str, ...]]] = {"device": (0.0, ())}
    for layer, sizes in zip(range(problem.layers), crossing_bytes, strict=False):
        node_s = {tier: batch * float(problem.layer_s[tier][layer].sum()) for tier in allowed}
        if problem.averaging:
            link = problem.averaging_link("device", problem.hub("device"))
            averaged_s = 2 * link.transfer_s((problem.param_bytes[layer],))
            node_s["device"] += averaged_s / problem.accumulate
        edge_s = {
            (a, b): sum(problem.seconds(batch * size, a, b) for size in sizes)
            for a in paths
            for b in allowed
        }
        paths = {
            tier: min(
                (length_s + edge_s[before, tier] + node_s[tier], (*tiers, tier))
                for before, (length_s, tiers) in paths.items()
            )
            for tier in allowed
        }
    _, tiers = min(paths.values())
    return Chain(tiers, batch)


def jalad(problem: Problem, bits: int = BITS) -> Chain:
    """Fastest single cut between edge and cloud, with quantised features (Li et al. 2018).

    Of several such, the one that leaves most layers to the cloud. Layers up to the cut are the
    edge's, the others the cloud's; the samples go to the tier of layer 1. Features and gradients
    take `bits` a value (the paper's c).

    Deviation: JALAD is made for inference, and the paper does not say how its gradients travel.
    Quantising them as well is our reading: as they are, they would take four times as long as the
    features, and compression would save three eighths of the traffic instead of three quarters.

    Deviation: without any layer on the edge the samples go from device to cloud instead of resting
    at the edge, since the paper has JALAD equal All-Cloud at high bandwidth.

    Deviation: the least and the greatest value, which the cloud needs to read the quantised ones,
    are not charged: some bytes a message.
    """
    check_problem(problem)
    layers, batch = problem.layers, problem.batch
    chains = [
        Chain(("edge",) * cut + ("cloud",) * (layers - cut), batch, bits)
        for cut in range(layers + 1)
    ]
    return min(chains, key=lambda chain: iteration(problem, chain).total_s)
