"""How good is the way that `compare` names: against the best simulated one, on random clusters.

``python benchmarks/choice.py [COUNT]`` draws clusters of 2 to 12 nodes, bandwidths over three
decades, speeds over two, with five models in turn. Of each it runs the programs of all ways that
are equal to SGD, without learning, and prints how far the named one is behind the best simulated.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

import numpy as np

from workbench.clusters import Cluster, Link, Node
from workbench.clusters.cluster import Name
from workbench.comparison import Question
from workbench.comparison.ways import EXACT, options
from workbench.profiles import profile_model

MODELS = ("lenet5", "alexnet", "resnet18", "mobilenet_v2", "resnet50")
WITHIN = 0.05


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


def main(count: int) -> int:
    """Print the result of each miss, and how many were within five percent."""
    behind, answers_s, errors = list[float](), list[float](), dict[str, list[float]]()
    named_ways, began_s = Counter[str](), time.perf_counter()
    for seed in range(count):
        model = MODELS[seed % len(MODELS)]
        question = Question(profile_model(model), drawn(seed))
        simulated = dict[str, float]()
        asked_s = time.perf_counter()
        usable = {
            way.name: option
            for way, option in options(question, EXACT)
            if not isinstance(option, str)
        }
        predicted = {name: option.use.samples_per_s for name, option in usable.items()}
        answers_s.append(time.perf_counter() - asked_s)
        for name, option in usable.items():
            simulated[name] = option.simulate().samples_per_s
        whole = [name for name, one in usable.items() if question.share(one.learns_from) == 1]
        named = max(whole or predicted, key=lambda name: predicted[name])
        best = max(whole or simulated, key=lambda name: simulated[name])
        behind.append(1 - simulated[named] / simulated[best])
        if behind[-1] > WITHIN:
            print(
                f"{seed} ({model}, {len(question.cluster)} nodes): {named} {behind[-1]:.1%} behind "
                f"{best}; predicted {predicted[named]:.4g} and {predicted[best]:.4g}, simulated "
                f"{simulated[named]:.4g} and {simulated[best]:.4g}",
                flush=True,
            )
        named_ways[named] += 1
        for name, rate in simulated.items():
            errors.setdefault(name, []).append(predicted[name] / rate - 1)
    for name, found in errors.items():
        worst = max(found, key=abs)
        print(
            f"{name:34} named {named_ways[name]:3}, predicted over simulated: median "
            f"{np.median(np.abs(found)):.2%}, worst {worst:+.1%} of {len(found)}"
        )
    good = sum(one <= WITHIN for one in behind)
    print(
        f"{good} of {count} within {WITHIN:.0%} of the best ({good / count:.1%}); "
        f"median answer {np.median(answers_s):.2f} s, all {time.perf_counter() - began_s:.0f} s"
    )
    return int(good < 0.95 * count)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
