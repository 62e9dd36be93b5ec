"""JointDNN: every layer on the device or in the cloud, by a shortest path (Eshratifar et al. 2018).

The graph has a node per layer and tier. A node costs the layer's forward and backward computation
of the whole batch, an edge between tiers the features forward and their gradients back,
and the first edge the samples, which lie on the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import le
from typing import NamedTuple

import numpy as np

from workbench.hiertrain.costs.policy import Chain
from workbench.hiertrain.costs.problem import Problem, check_problem

SAME = 1 + 1e-12  # sums in another order differ by about N units in the last place


def jointdnn(problem: Problem) -> Chain:
    """Fastest assignment of layers to device and cloud; always the same one of several.

    Deviation: the loss is computed where the last layer is, though the labels are on the device:
    a few bytes a sample that are not charged. The weights' update, which JointDNN's own graph has
    not, is charged as in `costs.iteration`.
    """
    return fastest_chain(problem, ("device", "cloud"))


class Path(NamedTuple):
    """A path through the graph up to a layer."""

    tiers: tuple[str, ...]
    length_s: float  # computation and messages, without updates
    updates_s: tuple[float, ...]  # for each allowed tier, of the layers that it holds
    averages: bool = False  # whether several devices have parameters, which they average

    @property
    def duration_s(self) -> float:
        """Length and the longest update."""
        return self.length_s + max(self.updates_s)


def fastest_chain(problem: Problem, allowed: Sequence[str]) -> Chain:
    """Fastest assignment of every layer to one of the allowed tiers.

    Updates run on all tiers at once, so the longest counts (Eq. 11), which no single number per
    edge expresses. Hence several paths are kept to a node: those that no other beats in length and
    every tier's update, and whose length with the shortest rest and the longest update so far does
    not exceed the duration of the path that is shortest without updates. Updates are short beside
    all else, so few are kept; where they are not, their number may grow steeply with the layers.

    What several devices average counts with each of their layers, its overheads with the first.
    """
    check_problem(problem)
    step_s = _step_s(problem, allowed)
    update_s = np.stack([problem.update_s[tier] for tier in allowed], axis=1).tolist()
    averaging_s = 0.0
    if problem.averaging:
        averaging_s = 2 * problem.overhead_s["device", problem.averaging.hub]

    def extended(path: Path, tier: str) -> Path:
        """Put the next layer of a path on a tier."""
        layer, own = len(path.tiers), allowed.index(tier)
        before = path.tiers[-1] if layer else None
        updates_s = list(path.updates_s)
        updates_s[own] += update_s[layer][own]
        length_s = path.length_s + step_s[layer][before, tier]
        averages = averaging_s > 0 and tier == "device" and problem.param_bytes[layer] > 0
        if averages and not path.averages:
            length_s += averaging_s
        return Path((*path.tiers, tier), length_s, tuple(updates_s), path.averages or averages)

    empty = Path((), 0.0, (0.0,) * len(allowed))
    to_go_s = _to_go_s(step_s, allowed)
    shortest = empty  # updates left aside
    for after_s in to_go_s:
        steps = [extended(shortest, tier) for tier in allowed]
        shortest = min(steps, key=lambda step: step.length_s + after_s[step.tiers[-1]])
    most_s = shortest.duration_s * SAME
    paths = [empty]
    for after_s in to_go_s:
        paths = [
            step
            for step in (extended(path, tier) for path in paths for tier in allowed)
            if step.duration_s + after_s[step.tiers[-1]] <= most_s
        ]
        paths = [path for tier in allowed for path in _unbeaten(paths, tier)]
    return Chain(min(paths, key=lambda path: (path.duration_s, path.tiers)).tiers, problem.batch)


def _step_s(problem: Problem, allowed: Sequence[str]) -> list[dict[tuple[str | None, str], float]]:
    """Seconds of each layer on a tier, and of the messages to and from it.

    By the tier of the layer before, None for the first, and its own.
    """
    batch = problem.batch
    compute_s = {tier: (batch * problem.layer_s[tier].sum(axis=1)).tolist() for tier in allowed}
    if problem.averaging:
        averaging_bps = problem.averaging.bandwidth_bps[problem.averaging.hub]
        averaged_s = 2 * 8 * problem.param_bytes / averaging_bps
        compute_s["device"] = (averaged_s + compute_s["device"]).tolist()
    samples_bytes = batch * problem.sample_bytes
    step_s: list[dict[tuple[str | None, str], float]] = [
        {
            (None, tier): compute_s[tier][0] + problem.seconds(samples_bytes, "device", tier)
            for tier in allowed
        }
    ]
    crossing = zip(problem.output_bytes.tolist(), problem.gradient_bytes.tolist(), strict=True)
    for layer, sizes in zip(range(1, problem.layers), crossing, strict=False):
        step_s.append(
            {
                (before, tier): compute_s[tier][layer]
                + sum(problem.seconds(batch * size, before, tier) for size in sizes)
                for before in allowed
                for tier in allowed
            }
        )
    return step_s


def _to_go_s(
    step_s: list[dict[tuple[str | None, str], float]], allowed: Sequence[str]
) -> list[dict[str, float]]:
    """For each layer and its tier, the shortest path from there to the last layer."""
    to_go_s = [dict.fromkeys(allowed, 0.0)]
    for here_s in reversed(step_s[1:]):
        after_s = to_go_s[0]
        to_go_s.insert(
            0, {tier: min(here_s[tier, to] + after_s[to] for to in allowed) for tier in allowed}
        )
    return to_go_s


def _unbeaten(paths: Sequence[Path], tier: str) -> list[Path]:
    """Return the paths to a tier that are not dominated by another path to it.

    A path without averaging so far does not dominate one that has paid its overheads.
    """
    kept: list[Path] = []
    ending = (path for path in paths if path.tiers[-1] == tier)
    for path in sorted(ending, key=lambda path: (path.length_s, path.updates_s, path.tiers)):
        if not any(
            all(map(le, other.updates_s, path.updates_s)) and other.averages >= path.averages
            for other in kept
        ):
            kept.append(path)
    return kept
