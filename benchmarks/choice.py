"""How good are the cost models of the papers: against their programs, on random clusters.

``python benchmarks/choice.py [COUNT]`` draws clusters of 2 to 12 nodes, bandwidths over three
decades, speeds over two, with five models in turn. Of each method that is equal to SGD and has a
cost model it prints how far this is from what its programs take without learning, and how long it
takes to compare all of them.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from workbench.clusters import Cluster, Link, Node
from workbench.clusters.cluster import Name
from workbench.comparison import Problem
from workbench.comparison.methods import EXACT, usable
from workbench.profiles import profile_model

MODELS = ("lenet5", "alexnet", "resnet18", "mobilenet_v2", "resnet50")


def drawn(seed: int) -> Cluster:
    """Draw a connected cluster, of which some nodes hold samples; in half they may leave it."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 13))
    nodes = [
        Node(
            f"n{at}",
            flops_per_s=float(10 ** rng.uniform(9, 11)),
            samples=int(rng.integers(100, 5000)) if at == 0 or rng.random() < 0.6 else 0,
        )
        for at in range(count)
    ]
    links: dict[tuple[Name, Name], Link] = {}
    for at in range(1, count):
        others = {int(rng.integers(at))} | {other for other in range(at) if rng.random() < 0.3}
        for other in sorted(others):
            link = Link(
                float(10 ** rng.uniform(6, 9)), overhead_s=float(10 ** rng.uniform(-4, -1.5))
            )
            links[at, other] = links[other, at] = link
    return Cluster(nodes, links, raw_samples_may_leave=seed % 2 == 0)


def main(count: int) -> None:
    """Print errors of each cost model, and what a comparison takes."""
    compared_s, errors = list[float](), dict[str, list[float]]()
    for seed in range(count):
        problem = Problem(profile_model(MODELS[seed % len(MODELS)]), drawn(seed))
        began_s = time.perf_counter()
        found = usable(problem, EXACT)
        compared_s.append(time.perf_counter() - began_s)
        for name, plan in found.items():
            if plan.predicted_s is not None:
                ratio = plan.cost.iteration_s / plan.predicted_s
                errors.setdefault(name, []).append(ratio - 1)
    for name, ratios in errors.items():
        print(
            f"{name:34} simulated over predicted seconds: median {np.median(np.abs(ratios)):.2%}, "
            f"worst {max(ratios, key=abs):+.1%} of {len(ratios)}"
        )
    print(f"{count} comparisons, median {np.median(compared_s):.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
