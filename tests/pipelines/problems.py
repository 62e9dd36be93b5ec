"""Problems and plans for the tests of pipelines."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.clusters import Link
from workbench.pipelines import Plan, Problem, Stage


def uniform(nodes: int, batch: int, *, link: Link | None = None, **changes: Any) -> Problem:
    """As many equal layers as nodes: a second forward, two backward, links that take no time."""
    link = link or Link(float("inf"))
    given: dict[str, Any] = {
        "forward_s": np.ones((nodes, nodes)),
        "backward_s": np.full((nodes, nodes), 2.0),
        "update_s": np.zeros((nodes, nodes)),
        "param_bytes": np.ones(nodes),
        "output_bytes": np.ones(nodes),
        "links": {(a, b): link for a in range(nodes) for b in range(nodes) if a != b},
        "batch": batch,
    }
    return Problem(**{**given, **changes})


def chain(lasts: Sequence[int], samples: int = 1, **changes: Any) -> Plan:
    """Stages that end with these layers, on the nodes 0, 1, ..."""
    firsts = [1, *(last + 1 for last in lasts[:-1])]
    ends = enumerate(zip(firsts, lasts, strict=True))
    stages = tuple(Stage(first, last, ((node, samples),)) for node, (first, last) in ends)
    return Plan(stages=stages, **changes)
