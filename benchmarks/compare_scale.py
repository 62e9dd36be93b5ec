"""How long a comparison takes with ever more phones around one server.

``python benchmarks/compare_scale.py [NODES ...]`` compares all methods of training MobileNetV2 on
as many phones, by default 40, 400 and 1,000, and prints the slowest methods. The bars are 6, 30 and
90 s on two quiet cores.
"""

from __future__ import annotations

import sys
import time

from workbench.clusters import Cluster, Link, Node, star
from workbench.comparison import METHODS, Problem
from workbench.comparison.memory import memory_of
from workbench.comparison.methods import plans
from workbench.profiles import profile_model

MODEL = "mobilenet_v2_cifar"
BARS_S = {40: 6, 400: 30, 1000: 90}
SLOWEST = 5


def phones(count: int) -> Cluster:
    """Equal phones that hold samples, each linked with the server."""
    nodes = [
        Node(f"phone{at}", flops_per_s=5e9, samples=500, memory_bytes=4e9) for at in range(count)
    ]
    server = Node("server", flops_per_s=2e11, memory_bytes=16e9)
    return star(nodes, [server], Link(2e7, overhead_s=0.005))


def main(counts: list[int]) -> int:
    """Print seconds of each comparison; returns how many bars are missed."""
    missed = 0
    for count in counts:
        taken_s, refused = dict[str, float](), list[str]()
        problem = Problem(profile_model(MODEL), phones(count), memory=memory_of(MODEL, None, None))
        for method in METHODS.values():
            began_s = time.perf_counter()
            ((_, plan),) = plans(problem, [method])
            taken_s[method.name] = time.perf_counter() - began_s
            refused += [method.name] if isinstance(plan, str) else []
        whole_s, bar_s = sum(taken_s.values()), BARS_S.get(count)
        missed += bar_s is not None and whole_s > bar_s
        print(
            f"{count:5} phones: {whole_s:6.1f} s (bar {bar_s} s), {len(refused)} methods left out"
        )
        for name in sorted(taken_s, key=lambda name: -taken_s[name])[:SLOWEST]:
            print(f"      {taken_s[name]:6.1f} s  {name}")
    return missed


if __name__ == "__main__":
    sys.exit(main([int(each) for each in sys.argv[1:]] or [*BARS_S]))
