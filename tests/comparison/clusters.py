"""Clusters for comparisons, random ones and one that many tests compare methods on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import permutations
from typing import Any

from hypothesis import strategies as st

from workbench.clusters import Cluster, Link, Node, star
from workbench.clusters.cluster import Name
from workbench.comparison import METHODS, Comparison, compare

FIRST = {method.system: name for name, method in reversed(METHODS.items())}
OF_EACH_SYSTEM = [*FIRST.values(), "pipeline, pipedream"]
"""The first method of each system, and the one whose pipeline is never flushed."""


def linked(nodes: Sequence[Node], links: Mapping[Any, Link]) -> Cluster:
    """Pairs of nodes linked in both directions."""
    return Cluster(
        nodes, {(a, b): link for ends, link in links.items() for a, b in permutations(ends)}
    )


def home(mbps: float = 20, *, may_leave: bool = True, memory_bytes: float | None = 1e9) -> Cluster:
    """Three boards that hold samples around an edge server."""
    boards = [
        Node(f"board{at}", flops_per_s=8e9, samples=1000, memory_bytes=memory_bytes, watts=5)
        for at in range(3)
    ]
    edge = Node("edge", flops_per_s=200e9, memory_bytes=8e9, watts=50)
    cluster = star(boards, [edge], Link(mbps * 1e6, overhead_s=0.005))
    return replace(cluster, raw_samples_may_leave=may_leave)


@cache
def at_home(
    mbps: float = 20,
    batch_size: int = 32,
    *,
    model: str = "lenet5",
    may_leave: bool = True,
    memory_bytes: float = 1e9,
) -> Comparison:
    """All methods compared on `home`, once for all tests that look at them."""
    return compare(model, home(mbps, may_leave=may_leave, memory_bytes=memory_bytes), batch_size)


@st.composite
def clusters(draw: st.DrawFn, least: int = 2, most: int = 5, *, far: bool = False) -> Cluster:
    """Connected clusters on coarse grids of speeds and bandwidths, so that equals occur.

    With `far`, links have latencies, and differ in their directions, and interfaces have limits.
    """
    limits = st.sampled_from([None, 1e6, 5e6, 3e7]) if far else st.none()
    latencies = st.sampled_from([0.0, 0.005, 0.1]) if far else st.just(0.0)
    drawn = st.builds(
        Link,
        st.sampled_from([1e6, 1e7, 1e8, 1e9]),
        overhead_s=st.sampled_from([0.0, 0.001, 0.02]),
        latency_s=latencies,
    )
    count = draw(st.integers(least, most))
    nodes = [
        Node(
            f"n{at}",
            flops_per_s=draw(st.sampled_from([1e9, 1e10, 2e10, 1e12])),
            samples=draw(st.sampled_from([0, 1, 100, 1000])),
            uplink_bps=draw(limits),
            downlink_bps=draw(limits),
        )
        for at in range(count)
    ]
    links: dict[tuple[Name, Name], Link] = {}
    for at in range(1, count):
        others = draw(st.sets(st.integers(0, at - 1), min_size=1, max_size=2))
        for other in sorted(others):
            links[at, other] = links[other, at] = draw(drawn)
            if far:
                links[other, at] = draw(drawn)
    return Cluster(nodes, links)
