"""Problems and plans for the tests of pipelines."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from workbench.clusters import Link
from workbench.pipelines import Plan, Problem, Stage
from workbench.pipelines.schedules import Recompute


def uniform(nodes: int, batch: int, *, link: Link | None = None, **changes: Any) -> Problem:
    """Problem of as many equal layers as nodes, with links that take no time."""
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


def drawn(rng: np.random.Generator, *, layers: int, nodes: int, batch: int, equal: bool) -> Problem:
    """A problem in whole seconds and bytes, in which sums are exact; half of them with limits."""
    speeds = np.ones(nodes) if equal else 2.0 ** rng.integers(-1, 2, nodes)
    forward_s = rng.integers(1, 9, layers) / speeds[:, None]
    links = {}
    alike = link(rng)
    for a in range(nodes):
        for b in range(nodes):
            if a != b and (equal or rng.random() < 0.9):
                links[a, b] = alike if equal else link(rng)
    kept = rng.integers(1, 9, layers)
    weights = rng.integers(0, 20, layers).astype(float)

    def needed(first: int, last: int, samples: int, in_flight: int, recompute: Recompute) -> float:
        inputs, values = int(kept[first - 1]), int(kept[first - 1 : last].sum())
        held = in_flight * inputs + values if recompute else in_flight * values
        return float(2 * weights[first - 1 : last].sum() + samples * held)

    whole = needed(1, layers, batch, 1, False)
    limits = whole * (np.full(nodes, rng.uniform(0.2, 1)) if equal else rng.uniform(0.2, 1, nodes))
    limited = rng.random() < 0.5
    fixed_s = rng.integers(0, 3, layers) / speeds[:, None] if rng.random() < 0.3 else None
    return Problem(
        forward_s=forward_s,
        backward_s=forward_s * 2,
        update_s=np.full((nodes, layers), 0.25) / speeds[:, None],
        param_bytes=weights,
        output_bytes=rng.integers(1, 9, layers).astype(float),
        links=links,
        batch=batch,
        forward_fixed_s=fixed_s,
        backward_fixed_s=None if fixed_s is None else 2 * fixed_s,
        first_trained=int(rng.integers(1, layers + 1)) if rng.random() < 0.3 else 1,
        memory_bytes=limits if limited else None,
        needed=needed if limited else None,
    )


def owned(rng: np.random.Generator, problem: Problem) -> Problem:
    """The problem with samples on all nodes, and on one that trains nothing."""
    places = problem.nodes + 1
    shares = rng.dirichlet(np.ones(places))
    ends = range(problem.nodes)
    more = {pair: link(rng) for n in ends for pair in ((n, places - 1), (places - 1, n))}
    return replace(
        problem,
        links={**problem.links, **more},
        owners=dict(enumerate(shares.tolist())),
        sample_bytes=float(rng.integers(0, 9)),
    )


def link(rng: np.random.Generator) -> Link:
    """A link that takes whole seconds for a few bytes, or next to none."""
    return Link(
        float(8.0 * 2.0 ** rng.integers(-2, 8)),
        overhead_s=float(rng.integers(0, 3) / 4),
        latency_s=float(rng.integers(0, 3) / 4),
    )


def some_plan(rng: np.random.Generator, problem: Problem) -> Plan:
    """Draw a plan, whether it fits or not."""
    count = int(rng.integers(1, min(problem.nodes, problem.layers) + 1))
    cuts = sorted(rng.choice(problem.layers - 1, count - 1, replace=False) + 1)
    lasts = [*map(int, cuts), problem.layers]
    order = list(map(int, rng.permutation(problem.nodes)))
    ends = sorted(rng.choice(problem.nodes - 1, count - 1, replace=False) + 1)
    groups = [order[a:b] for a, b in pairwise([0, *map(int, ends), problem.nodes])]
    count = int(rng.choice([m for m in (1, 2, 4) if problem.batch // m >= max(map(len, groups))]))
    samples = problem.batch // count
    stages = []
    for first, last, nodes in zip([1, *(n + 1 for n in lasts)], lasts, groups, strict=False):
        cut = sorted(rng.choice(samples - 1, len(nodes) - 1, replace=False) + 1)
        shares = [int(b - a) for a, b in pairwise([0, *cut, samples])]
        stages.append(Stage(first, last, tuple(zip(nodes, shares, strict=True))))
    depths = sorted(map(int, rng.integers(1, 6, len(stages))), reverse=True)
    return Plan(
        stages=tuple(stages),
        microbatches=count,
        schedule=str(rng.choice(["gpipe", "1f1b"])),
        in_flight=tuple(depths),
        recompute=tuple(map(bool, rng.integers(0, 2, len(stages)))),
    )
