"""Random problems of sharded training."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from workbench.clusters import Cluster, Link, Node
from workbench.clusters.cluster import Name
from workbench.profiles import Tied
from workbench.sharding import Plan, Problem


def random_problem(seed: int) -> Problem:
    """Unlike nodes and links; some layers have no parameters, and some share a weight."""
    rng = np.random.default_rng(seed)
    nodes, layers = int(rng.integers(1, 6)), int(rng.integers(1, 8))
    forward_s, backward_s, update_s = rng.uniform(0.0, 0.1, (3, nodes, layers))
    links = {
        pair: Link(
            float(rng.choice([1e6, 1e7, 3e7])),
            overhead_s=float(rng.choice([0.0, 0.01])),
            latency_s=float(rng.choice([0.0, 0.005, 0.1])),
        )
        for pair in permutations(range(nodes), 2)
    }
    sizes = rng.integers(1, 200_000, layers) * (rng.random(layers) < 0.8)
    tied = (Tied(0, (1, layers)),) if layers > 1 and seed % 3 == 0 else ()
    return Problem(
        forward_s=forward_s,
        backward_s=backward_s,
        update_s=update_s,
        param_bytes=sizes.astype(float),
        links=links,
        tied=tied,
        accumulate=1 + seed % 5 // 2,
        optimiser_vectors=float(seed % 2),
    )


def random_plan(problem: Problem, seed: int) -> Plan:
    """Any stage and any buckets."""
    rng = np.random.default_rng(seed)
    cuts = [cut for cut in range(1, problem.layers) if rng.random() < 0.5]
    return Plan(stage=int(rng.integers(4)), cuts=tuple(cuts))


def cluster_of(problem: Problem) -> Cluster:
    """Nodes of speed 1 with the problem's links."""
    nodes = [Node(f"n{at}") for at in range(problem.nodes)]
    links: dict[tuple[Name, Name], Link] = {(a, b): link for (a, b), link in problem.links.items()}
    return Cluster(nodes, links)
