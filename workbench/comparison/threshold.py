"""The bandwidth at which another system becomes the fastest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from workbench.clusters import Link, Schedule
from workbench.comparison.cost import carried
from workbench.comparison.methods import METHODS, Method
from workbench.comparison.problem import Problem, UnusableError
from workbench.comparison.routes import Pair, link_bps
from workbench.comparison.table import fits
from workbench.utils.numbers import three_digits

STEP = 2.0
"""Ratio of neighbouring bandwidths on the grid."""

STEPS = 8
"""Steps of the grid in either direction: a factor of 256."""

RESOLUTION = 1.02
"""Ratio of bandwidths to which a threshold is narrowed down."""

ROUNDING = 1e-9
"""Relative difference below which two rates are equal."""


@dataclass(frozen=True)
class Threshold:
    """A bandwidth, `above` the present one or below, at which another method becomes the fastest.

    `links` names the links that get this bandwidth.
    """

    method: str
    links: str
    bandwidth_mbps: float
    above: bool

    def __str__(self) -> str:
        return (
            f"With {'more' if self.above else 'less'} bandwidth, {named(METHODS[self.method])} "
            f"becomes the fastest at {three_digits(self.bandwidth_mbps)} Mbit/s ({self.links})."
        )


def named(method: Method) -> str:
    """Name of a method's system, with the method's own name where that says more."""
    if method.name.split(", ")[-1] == method.system.lower():
        return method.system
    return (
        method.name if method.name.startswith(method.system) else f"{method.system} ({method.name})"
    )


def threshold(problem: Problem, method: str, among: Iterable[str]) -> Threshold | None:
    """The nearest bandwidth, above or else below, at which another system is the fastest.

    The bandwidth is that of all links equal to the busiest under `method`; `among` are the methods
    it is compared with. Bandwidths are tried on a geometric grid, `STEPS` steps of a ratio of
    `STEP`; a system that is ahead only between two grid points is not found.
    """
    methods = [METHODS[name] for name in dict.fromkeys((method, *among))]
    hop = _busiest(problem, methods[0])
    if hop is None:
        return None
    like = problem.cluster.links[hop]
    for above in (True, False):
        overtaking = first(partial(_leader, problem, like, methods), STEP if above else 1 / STEP)
        if overtaking is not None:
            factor, winner = overtaking
            return Threshold(winner, _like(problem, hop), link_bps(like) * factor / 1e6, above)
    return None


def first(leader: Callable[[float], str | None], step: float) -> tuple[float, str] | None:
    """The first factor on the grid with a leader, narrowed down by bisection; and that leader."""
    near = 1.0
    for far in (step**count for count in range(1, STEPS + 1)):
        if winner := leader(far):
            break
        near = far
    else:
        return None
    while max(near / far, far / near) > RESOLUTION:
        middle = math.sqrt(near * far)
        if ahead := leader(middle):
            far, winner = middle, ahead
        else:
            near = middle
    return far, winner


def _leader(problem: Problem, like: Link, methods: list[Method], factor: float) -> str | None:
    """The fastest method, if it is of another system than the first method; else None."""
    changed = _with_bandwidth(problem, like, factor)
    rates = {method.name: _rate(changed, method) for method in methods}
    own = max(rates[method.name] for method in methods if method.system == methods[0].system)
    best = max(rates, key=lambda name: rates[name])
    return best if rates[best] * (1 - ROUNDING) > own else None


def _rate(problem: Problem, method: Method) -> float:
    """Samples a second; 0 where the method cannot be used, does not fit or leaves samples out."""
    try:
        plan = method.plan(problem)
    except UnusableError:
        return 0.0
    whole = fits(problem, plan) and problem.share(plan.learns_from) == 1
    return plan.cost.samples_per_s if whole else 0.0


def _busiest(problem: Problem, method: Method) -> Pair | None:
    """The busiest link under a method; the narrowest of all, if the method uses none."""
    seconds = {hop: busy for hop, (_, busy) in carried(problem, method.plan(problem).cost).items()}
    if seconds:
        return max(seconds, key=lambda hop: seconds[hop])
    links = problem.cluster.links
    return min(links, key=lambda hop: link_bps(links[hop]), default=None)


def _like(problem: Problem, hop: Pair) -> str:
    """The links that equal a given one, in words."""
    cluster = problem.cluster
    ends = f"{cluster.names[hop[0]]} to {cluster.names[hop[1]]}"
    same = [pair for pair, link in cluster.links.items() if link == cluster.links[hop]]
    if set(same) == {hop}:
        return ends
    if set(same) == {hop, hop[::-1]}:
        return f"{ends} and back"
    return f"all links like {ends}"


def _with_bandwidth(problem: Problem, like: Link, factor: float) -> Problem:
    """The problem, with the bandwidth of all links equal to `like` multiplied by a factor."""
    rate = like.bandwidth
    if isinstance(rate, Schedule):
        rate = Schedule(rate.starts_s, tuple(value * factor for value in rate.values))
    else:
        rate = rate * factor
    changed, cluster = replace(like, bandwidth_bps=rate), problem.cluster
    links = {hop: changed if link == like else link for hop, link in cluster.links.items()}
    return replace(problem, cluster=replace(cluster, links=links))
