"""Gossip without a server: rings of unequal nodes, and a mesh in which links share an uplink."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import networkx as nx

from workbench.clusters import Cluster, Link, Node, full_mesh
from workbench.comparison.ways.rounds import peer
from workbench.datasets import partition
from workbench.decentralised import GossipSetup, complete, metropolis_hastings, ring
from workbench.runtime import simulate
from workbench.three_ways.case import Case
from workbench.three_ways.samples import digits

MODEL, BATCH_SIZE, SAMPLES, EPOCHS = "lenet5", 16, 48, 4
FLOPS_PER_S = 1e9
BANDWIDTHS_MBPS = (5.0, 20.0)


def cases() -> Iterator[Case]:
    """Rings of three and five nodes, and a mesh of four with shared uplinks."""
    for mbps in BANDWIDTHS_MBPS:
        yield case(mbps, 3)
        yield case(mbps, 4, shared=True)
    yield case(BANDWIDTHS_MBPS[0], 5)
    yield case(BANDWIDTHS_MBPS[-1], 3, overhead_s=0.2)


def case(
    mbps: float,
    nodes: int,
    *,
    shared: bool = False,
    overhead_s: float = 0.005,
    model: str = MODEL,
    batch_size: int = BATCH_SIZE,
    samples_each: int = SAMPLES,
    seed: int = 0,
    sample_s: float | None = None,
) -> Case:
    """Epochs of nodes of which each is faster than the last; an iteration is an epoch.

    With `sample_s` of this machine, unpadded: all nodes are as fast.
    """
    uplink_bps = mbps * 1e6 if shared else None
    machines = [
        Node(
            f"node{index}",
            speed=1 + index / 2 if sample_s is None else 1.0,
            uplink_bps=uplink_bps,
        )
        for index in range(nodes)
    ]
    graph = complete(nodes) if shared else ring(nodes)
    samples = digits(samples_each * nodes, model)
    setup = GossipSetup(
        model,
        samples,
        partition.by_size(samples.y_train, [1] * nodes, seed=seed),
        full_mesh(machines, Link(mbps * 1e6, overhead_s)),
        mixing=metropolis_hastings(graph),
        batch_size=batch_size,
        epochs=EPOCHS,
        sample_s=sample_s,
        flops_per_s=FLOPS_PER_S,
        evaluate_every=EPOCHS,
        seed=seed,
    )
    where = f"mesh of {nodes}, shared uplinks" if shared else f"ring of {nodes}"
    return Case(
        system="gossip",
        setting=f"{model}, {where}, {mbps:g} Mbit/s, {overhead_s * 1e3:g} ms",
        choice="an epoch",
        arm="padded" if sample_s is None else "unpadded",
        setup=setup,
        how=None,
        iterations=EPOCHS,
        predict=partial(predicted_s, setup, graph),
        predicted_by="dry run",
        duplex=True,
    )


def predicted_s(setup: GossipSetup, graph: nx.Graph) -> float:
    """Seconds of an epoch, dry: nodes compute, send a model's bytes to their peers, and wait."""
    own_s = [
        len(shard) * seconds
        for shard, seconds in zip(setup.held, setup.seconds_per_sample, strict=True)
    ]
    size = float(setup.profile.param_bytes)
    programs = [
        peer(sorted(graph.neighbors(node)), setup.epochs, cost_s, size)
        for node, cost_s in enumerate(own_s)
    ]
    cluster: Cluster = setup.cluster
    return simulate(cluster, programs).end_s / setup.epochs
