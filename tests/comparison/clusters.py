"""Random clusters for comparisons."""

from __future__ import annotations

from hypothesis import strategies as st

from workbench.clusters import Cluster, Link, Node
from workbench.clusters.cluster import Name


@st.composite
def clusters(draw: st.DrawFn, least: int = 2, most: int = 5) -> Cluster:
    """Connected clusters on coarse grids of speeds and bandwidths, so that equals occur."""
    count = draw(st.integers(least, most))
    nodes = [
        Node(
            f"n{at}",
            flops_per_s=draw(st.sampled_from([1e9, 1e10, 2e10, 1e12])),
            samples=draw(st.sampled_from([0, 1, 100, 1000])),
        )
        for at in range(count)
    ]
    links: dict[tuple[Name, Name], Link] = {}
    for at in range(1, count):
        others = draw(st.sets(st.integers(0, at - 1), min_size=1, max_size=2))
        for other in sorted(others):
            link = Link(
                draw(st.sampled_from([1e6, 1e7, 1e8, 1e9])),
                overhead_s=draw(st.sampled_from([0.0, 0.001, 0.02])),
            )
            links[at, other] = links[other, at] = link
    return Cluster(nodes, links)
