"""At which bandwidth another system becomes the fastest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from workbench.clusters import Link, Schedule
from workbench.comparison.compare import fits
from workbench.comparison.question import Pair, Question, UnusableError, link_bps
from workbench.comparison.use import carried
from workbench.comparison.ways import WAYS, Way
from workbench.utils.numbers import three_digits

STEP = 1.02
"""A threshold is exact to this factor on a bandwidth."""

MOST = 350
"""Steps up, and down, within which it is sought: a factor of about a thousand."""

NARROW = 8
"""Steps within which another system may be ahead unseen: where it is not ahead at both ends."""

ROUNDING = 1e-9
"""Ways that are faster by less are as fast."""


@dataclass(frozen=True)
class Threshold:
    """Another way is the fastest from a bandwidth on (`above`), or below it.

    `links` says of which links the bandwidth changes, all to the same.
    """

    way: str
    links: str
    bandwidth_mbps: float
    above: bool

    def __str__(self) -> str:
        rate = f"{three_digits(self.bandwidth_mbps)} Mbit/s"
        where = f"From {rate} on" if self.above else f"Below {rate}"
        return f"{where} ({self.links}), {named(WAYS[self.way])} is the fastest."


def named(way: Way) -> str:
    """A system, with the way where its name says more."""
    if way.name.split(", ")[-1] == way.system.lower():
        return way.system
    return way.name if way.name.startswith(way.system) else f"{way.system} ({way.name})"


def threshold(question: Question, way: str, among: Iterable[str]) -> Threshold | None:
    """The nearest bandwidth, above or else below, at which another system is the fastest.

    All links equal to the busiest under `way` get another bandwidth. No way gets slower by more
    bandwidth, or faster by a larger factor than that: so most ways need not be looked at, at most
    bandwidths. `among` are the ways that count.
    """
    ways = [WAYS[name] for name in dict.fromkeys((way, *among))]
    hop = _busiest(question, ways[0])
    if hop is None:
        return None
    search = _Search(question, question.cluster.links[hop], ways)
    for up in (True, False):
        found = search.first(0, MOST if up else -MOST)
        if found is not None:
            at, other = found
            mbps = link_bps(question.cluster.links[hop]) * STEP**at / 1e6
            return Threshold(other.name, _like(question, hop), mbps, up)
    return None


class _Search:
    """Rates of ways by the bandwidth of some links, in steps."""

    def __init__(self, question: Question, like: Link, ways: list[Way]) -> None:
        self._question, self._like = question, like
        self._own = [one for one in ways if one.system == ways[0].system]
        self._others = [one for one in ways if one.system != ways[0].system]
        self._questions: dict[int, Question] = {0: question}
        self._rates: defaultdict[str, dict[int, float]] = defaultdict(dict)
        # the same whether or not it fits: more bandwidth may make a node faster that does not
        self._any: defaultdict[str, dict[int, float]] = defaultdict(dict)

    def first(self, near: int, far: int) -> tuple[int, Way] | None:
        """The step nearest to `near`, up to `far`, at which another system leads; None if none."""
        low, high = min(near, far), max(near, far)
        if not self._may_lead(low, high):
            return None
        for at in (high, low):
            self._rate(self._own[0], at)
        for other in self._may_lead(low, high):
            self._rate(other, high)
        contenders = self._may_lead(low, high)
        if not contenders:
            return None
        if high - low > NARROW:
            middle = (near + far) // 2
            return self.first(near, middle) or self.first(middle, far)
        leader = self._leader(far, contenders)
        if leader is None:
            return None
        while abs(far - near) > 1:
            middle = (near + far) // 2
            candidate = self._leader(middle, contenders)
            near, far = (middle, far) if candidate is None else (near, middle)
            leader = candidate or leader
        return far, leader

    def _may_lead(self, low: int, high: int) -> list[Way]:
        """Others that might be faster somewhere in between."""
        own = max(self._least(one, low) for one in self._own)
        return [other for other in self._others if self._most(other, high) > own]

    def _leader(self, at: int, contenders: list[Way]) -> Way | None:
        """The fastest of other systems, if it is faster than all of the own one."""
        best = max(contenders, key=lambda one: self._rate(one, at))
        rate = self._rate(best, at) * (1 - ROUNDING)
        ahead = any(self._most(one, at) >= rate <= self._rate(one, at) for one in self._own)
        return None if ahead else best

    def _rate(self, way: Way, at: int) -> float:
        """Samples a second, 0 where it cannot be used, does not fit or leaves samples out."""
        known = self._rates[way.name]
        if at not in known:
            if at not in self._questions:
                self._questions[at] = _with_bandwidth(self._question, self._like, STEP**at)
            question = self._questions[at]
            try:
                option = way.find(question)
            except UnusableError:
                known[at] = self._any[way.name][at] = 0.0
            else:
                rate = self._any[way.name][at] = option.use.samples_per_s
                whole = fits(question, option) and question.share(option.learns_from) == 1
                known[at] = rate if whole else 0.0
        return known[at]

    def _least(self, way: Way, at: int) -> float:
        """Below which its rate is not, by the rates that are known."""
        self._rate(way, 0)
        return max(
            rate if one <= at else rate * STEP ** (at - one)
            for one, rate in self._rates[way.name].items()
        )

    def _most(self, way: Way, at: int) -> float:
        """Above which its rate is not, by the rates that are known."""
        self._rate(way, 0)
        return min(
            rate if one >= at else rate * STEP ** (at - one)
            for one, rate in self._any[way.name].items()
        )


def _busiest(question: Question, way: Way) -> Pair | None:
    """The link that is busy for longest under a way; if it uses none, the narrowest of all."""
    seconds = {hop: busy for hop, (_, busy) in carried(question, way.find(question).use).items()}
    if seconds:
        return max(seconds, key=lambda hop: seconds[hop])
    links = question.cluster.links
    return min(links, key=lambda hop: link_bps(links[hop]), default=None)


def _like(question: Question, hop: Pair) -> str:
    """The links that are equal to one, in words."""
    cluster = question.cluster
    ends = f"{cluster.names[hop[0]]} to {cluster.names[hop[1]]}"
    same = [pair for pair, link in cluster.links.items() if link == cluster.links[hop]]
    if set(same) == {hop}:
        return ends
    if set(same) == {hop, hop[::-1]}:
        return f"{ends} and back"
    return f"all links like {ends}"


def _with_bandwidth(question: Question, like: Link, factor: float) -> Question:
    """The question, with the bandwidth of all links equal to `like` multiplied by a factor."""
    rate = like.bandwidth
    if isinstance(rate, Schedule):
        rate = Schedule(rate.starts_s, tuple(value * factor for value in rate.values))
    else:
        rate = rate * factor
    changed, cluster = replace(like, bandwidth_bps=rate), question.cluster
    links = {hop: changed if link == like else link for hop, link in cluster.links.items()}
    return replace(question, cluster=replace(cluster, links=links))
