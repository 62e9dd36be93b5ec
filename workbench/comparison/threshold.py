"""The bandwidth at which another system becomes the fastest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from workbench.clusters import Link, Schedule
from workbench.comparison.cost import carried
from workbench.comparison.methods import METHODS, Plan, usable
from workbench.comparison.problem import Problem
from workbench.comparison.routes import Pair, link_bps
from workbench.comparison.table import qualifies
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
            f"With {'more' if self.above else 'less'} bandwidth, {METHODS[self.method].label} "
            f"becomes the fastest at {three_digits(self.bandwidth_mbps)} Mbit/s ({self.links})."
        )


def threshold(problem: Problem, plans: Mapping[str, Plan]) -> Threshold | None:
    """The nearest bandwidth, above or else below, at which another method is the fastest.

    `plans` are those of the methods at the present bandwidth, the fastest first. The bandwidth is
    that of all links equal to its busiest. Bandwidths are tried on a geometric grid, `STEPS` steps
    of a ratio of `STEP`; a method that is ahead only between two grid points is not found.
    """
    hop = _busiest(problem, next(iter(plans.values())))
    if hop is None:
        return None
    rates = Rates(problem, problem.cluster.links[hop], plans)
    for above in (True, False):
        overtaking = first(rates.leader, STEP if above else 1 / STEP)
        if overtaking is not None:
            factor, winner = overtaking
            bandwidth_mbps = link_bps(rates.like) * factor / 1e6
            return Threshold(winner, _like(problem, hop), bandwidth_mbps, above)
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


class Rates:
    """Rates of methods by the factor on the bandwidth of all links equal to `like`.

    A plan is not reused at another bandwidth: planners choose cuts, servers and micro-batches by
    it, and the rate of a plan that stays the same has to be simulated again. But links that are n
    times as fast make a method n times as fast at most, and slower ones do not make it faster. So a
    method is planned only for bandwidths at which the rates that are known let it lead.
    """

    def __init__(self, problem: Problem, like: Link, plans: Mapping[str, Plan]) -> None:
        self.problem, self.like = problem, like
        self._known = {name: {1.0: plan.cost.samples_per_s} for name, plan in plans.items()}

    def leader(self, factor: float) -> str | None:
        """The fastest method, if it is not the first; else None."""
        own, *others = self._known
        most = self.rate(own, factor) * (1 + ROUNDING)
        rates = {
            name: self.rate(name, factor) for name in others if self._bound(name, factor) > most
        }
        best = max(rates, key=lambda name: rates[name], default="")
        return best if rates.get(best, 0.0) > most else None

    def rate(self, name: str, factor: float) -> float:
        """Samples a second; 0 where a method cannot be used, lacks memory or leaves samples out."""
        known = self._known[name]
        if factor not in known:
            problem = _with_bandwidth(self.problem, self.like, factor)
            plan = usable(problem, [METHODS[name]]).get(name)
            counts = plan is not None and qualifies(problem, plan)
            known[factor] = plan.cost.samples_per_s if plan and counts else 0.0
        return known[factor]

    def _bound(self, name: str, factor: float) -> float:
        known = self._known[name].items()
        return min(rate * max(1.0, factor / at) for at, rate in known if rate)


def _busiest(problem: Problem, plan: Plan) -> Pair | None:
    """The busiest link under a plan; the narrowest of all, if the plan uses none."""
    seconds = {hop: busy for hop, (_, busy) in carried(problem, plan.cost).items()}
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
