"""The answer in a sentence: the fastest way, what limits it, and where another overtakes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from workbench.clusters import Cluster, Link, Schedule
from workbench.comparison.compare import memory, question_of, table
from workbench.comparison.question import Pair, Question, UnusableError, link_bps
from workbench.comparison.use import carried
from workbench.comparison.ways import WAYS, Way
from workbench.comparison.ways.way import EQUAL

if TYPE_CHECKING:
    import torch

    from workbench.clusters.cluster import Name
    from workbench.profiles import LayerTimes, ModelProfile

EXACT = [way for way in WAYS.values() if way.update == EQUAL]

MOST = 2.0**10
"""Largest factor on a bandwidth at which another way is sought; the smallest is its inverse."""

FASTER = 1.05
"""Ways that are faster by less are not worth a sentence."""

PRECISION = 1.02
"""A threshold is exact to a factor of this."""


@dataclass(frozen=True)
class Threshold:
    """Another way is the fastest from a bandwidth on (`above`), or below it."""

    way: str
    link: str
    bandwidth_mbps: float
    above: bool

    def __str__(self) -> str:
        side = "From" if self.above else "Below"
        on = " on" if self.above else ""
        mbps = (
            f"{self.bandwidth_mbps:,.3g}"
            if self.bandwidth_mbps < 1000
            else f"{self.bandwidth_mbps:,.0f}"
        )
        return f"{side} {mbps} Mbit/s{on} ({self.link}), {self.way} is faster."


@dataclass(frozen=True)
class Answer:
    """Which way is the fastest of those that equal SGD on all samples, and why.

    Attributes
    ----------
    frame
        All ways, as `compare` returns them.
    way, system
        The fastest that fits in memory; None if there is none.
    over_next
        Its samples a second over those of the next system.
    threshold
        Where the bandwidth of its busiest link would make another system the fastest.
    """

    frame: pl.DataFrame
    way: str | None
    system: str | None
    over_next: float | None
    threshold: Threshold | None

    def __str__(self) -> str:
        if self.way is None:
            return "No way that equals SGD on all samples can be used here and fits in memory."
        row = self.frame.row(by_predicate=pl.col("way") == self.way, named=True)
        others = _usable(self.frame).filter(pl.col("system") != self.system)
        ahead = ""
        if self.over_next is not None:
            ahead = f", {self.over_next:.3g} x as fast as {others['way'][0]}"
        busy = f"{row['limited_by']} is busy for {row['busy_share']:.0%} of an iteration"
        parts = [f"{self.way}{ahead}: {busy}."]
        if self.over_next is None:
            unfit = _equal_to_sgd(self.frame).filter(~pl.col("fits"))["way"].n_unique()
            parts.append(
                f"{unfit} other ways that equal SGD do not fit in memory." if unfit else ""
            )
        parts += [str(self.threshold or ""), self._faster(row["samples_per_s"])]
        return " ".join(filter(None, parts))

    def _faster(self, samples_per_s: float) -> str:
        """What would be faster with other updates, or on some of the samples."""
        usable = self.frame.filter(pl.col("reason").is_null() & pl.col("fits").fill_null(True))
        exact = pl.col("update") == EQUAL
        kinds = {
            "If updates may differ": usable.filter(~exact),
            "On some of the samples": usable.filter(exact & (pl.col("samples_share") < 1)),
        }
        said = []
        for what, ways in kinds.items():
            if len(ways):
                best = ways.row(int(ways["samples_per_s"].arg_max() or 0), named=True)
                ratio = best["samples_per_s"] / samples_per_s
                share = f" ({best['samples_share']:.0%})" if best["samples_share"] < 1 else ""
                if ratio > FASTER:
                    said.append(f"{what}, {best['way']}{share} is {ratio:.3g} x as fast.")
        return " ".join(said)


def answer(
    model: str | torch.nn.Module | ModelProfile,
    cluster: Cluster,
    batch_size: int = 32,
    *,
    input_shape: Sequence[int] | Sequence[Sequence[int]] | None = None,
    input_dtype: str = "float32",
    times: Mapping[str, LayerTimes] | None = None,
    epochs: int = 10,
    simulate: bool = False,
) -> Answer:
    """Compare all ways; say which is the fastest, why, and up to which bandwidth. See `compare`."""
    inputs = input_shape, input_dtype
    question = question_of(model, cluster, batch_size, inputs, times, epochs=epochs)
    frame = table(question, simulate=simulate)
    usable = _usable(frame)
    if usable.is_empty():
        return Answer(frame, None, None, None, None)
    first = usable.row(0, named=True)
    others = usable.filter(pl.col("system") != first["system"])
    over_next = first["samples_per_s"] / others["samples_per_s"][0] if len(others) else None
    overtaken = None
    if len(others):
        overtaken = threshold(question, first["way"], set(usable["way"]))
    return Answer(frame, first["way"], first["system"], over_next, overtaken)


def _usable(frame: pl.DataFrame) -> pl.DataFrame:
    """Ways that equal SGD on all samples, can be used and fit, the fastest first."""
    return _equal_to_sgd(frame).filter(pl.col("fits").fill_null(True))


def _equal_to_sgd(frame: pl.DataFrame) -> pl.DataFrame:
    """Ways that equal SGD on all samples and can be used."""
    exact = (pl.col("update") == EQUAL) & (pl.col("samples_share") == 1)
    return frame.filter(pl.col("reason").is_null() & exact)


def threshold(question: Question, way: str, among: set[str]) -> Threshold | None:
    """Find the bandwidth at which another system than this way's overtakes it.

    All links equal to the busiest under `way` get more bandwidth or, if that changes nothing,
    less; the first change is narrowed down to `PRECISION`.
    """
    ways = [WAYS[way], *(one for one in EXACT if one.name in among)]
    system = WAYS[way].system
    hop = _busiest(question, WAYS[way])
    if hop is None:
        return None
    link = question.cluster.links[hop]

    def fastest(factor: float) -> Way:
        return max(ways, key=_rate(_with_bandwidth(question, link, factor)))

    for above in (True, False):
        step = 2.0 if above else 0.5
        here, there = 1.0, step
        while 1 / MOST <= there <= MOST:
            other = fastest(there)
            if other.system != system:
                while max(there / here, here / there) > PRECISION:
                    middle = (here * there) ** 0.5
                    candidate = fastest(middle)
                    if candidate.system == system:
                        here = middle
                    else:
                        there, other = middle, candidate
                names = question.cluster.names
                mbps = link_bps(link) * there / 1e6
                return Threshold(other.name, f"{names[hop[0]]} to {names[hop[1]]}", mbps, above)
            here, there = there, there * step
    return None


def _rate(question: Question) -> Callable[[Way], float]:
    """Samples a second of a way, 0 where it does not fit or leaves samples out."""

    def samples_per_s(way: Way) -> float:
        try:
            option = way.find(question)
        except UnusableError:
            return 0.0
        fits = memory(question, option).get("fits") is not False
        return option.use.samples_per_s if fits and question.share(option.learns_from) == 1 else 0.0

    return samples_per_s


def _busiest(question: Question, way: Way) -> Pair | None:
    """The link that is busy for longest under a way; if it uses none, the narrowest of all."""
    seconds = {hop: busy for hop, (_, busy) in carried(question, way.find(question).use).items()}
    if seconds:
        return max(seconds, key=lambda hop: seconds[hop])
    links = question.cluster.links
    return min(links, key=lambda hop: link_bps(links[hop]), default=None)


def _with_bandwidth(question: Question, like: Link, factor: float) -> Question:
    """The question, with the bandwidth of all links equal to `like` multiplied by a factor."""
    links: dict[tuple[Name, Name], Link] = {}
    for hop, link in question.cluster.links.items():
        changed = link
        if link == like:
            rate = link.bandwidth
            if isinstance(rate, Schedule):
                rate = Schedule(rate.starts_s, tuple(value * factor for value in rate.values))
            else:
                rate = rate * factor
            changed = replace(link, bandwidth_bps=rate)
        links[hop] = changed
    cluster = question.cluster
    again = Cluster(cluster.nodes, links, raw_samples_may_leave=cluster.raw_samples_may_leave)
    return replace(question, cluster=again)
