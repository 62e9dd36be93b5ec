"""Runtimes that run the same programs: simulated and measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest

from workbench.clusters import Cluster, Link, Node
from workbench.runtime import Run, SimulationError
from workbench.runtime.measured import measure
from workbench.runtime.measured.capacity import fastest_bps

EARLY_S = 1e-6
"""By what less than its deadline the clock may read, as it rounds."""


@dataclass(frozen=True)
class Runtime:
    """A way to run programs, and what its clock promises.

    Virtual time is exact. A real clock is never early: what takes a time by the model takes it at
    least. It may be late by any amount on a busy machine, which no test holds against it.
    """

    run: Callable[..., Run]
    exact: bool

    def __call__(self, *args: Any, **options: Any) -> Run:
        return self.run(*args, **options)

    def agrees(self, times_s: Sequence[float] | float, expected_s: Sequence[float] | float) -> bool:
        """Whether times are those expected, or no earlier and in the same order."""
        if isinstance(times_s, int | float):
            times_s, expected_s = [times_s], [expected_s]  # type: ignore[list-item]
        assert isinstance(expected_s, Sequence)
        if self.exact:
            return list(times_s) == pytest.approx(list(expected_s), rel=1e-12)
        pairs = sorted(zip(expected_s, times_s, strict=True))
        in_order = all(one[1] <= other[1] for one, other in pairwise(pairs) if one[0] < other[0])
        return in_order and all(time_s >= least_s - EARLY_S for least_s, time_s in pairs)


def arbitrated(cluster: Cluster, programs: Any, **options: Any) -> Run:
    """Measure with a silent node that shares every downlink, so that an arbiter times all links."""
    own = len(cluster)
    links: dict[tuple[int | str, int | str], Link] = dict(cluster.links.items())
    nodes = [*cluster.nodes, Node("silent")]
    for index, node in enumerate(cluster.nodes):
        into = sum(fastest_bps(link) for (_, to), link in cluster.links.items() if to == index)
        links[own, index] = Link(1e6)
        if 0 < into < math.inf and node.downlink is None:
            nodes[index] = replace(node, downlink_bps=into)
    if not isinstance(programs, Mapping):
        programs = dict(enumerate(programs))
    try:
        run = measure(Cluster(nodes, links), programs, **options)
    except SimulationError as error:
        error.run = replace(error.run, links=error.run.links[: len(cluster.links)])
        raise
    return replace(run, links=run.links[: len(cluster.links)])
