"""Cost of an iteration on nodes and links, predicted, simulated or measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

from workbench.clusters import Cluster
from workbench.comparison.problem import Problem
from workbench.comparison.routes import Pair
from workbench.runtime import Program, Run, Trace, simulate


@dataclass(frozen=True)
class Cost:
    """Cost of an iteration, as a mean.

    Attributes
    ----------
    iteration_s
        Seconds from the start of an iteration to that of the next.
    samples
        Samples that all nodes together learn from.
    busy_s
        Node -> seconds of computing; the nodes that take part.
    link_bytes, messages
        (source, target) -> bytes and messages from one node to another, over any number of links.
    """

    iteration_s: float
    samples: float
    busy_s: Mapping[int, float]
    link_bytes: Mapping[Pair, float]
    messages: Mapping[Pair, float]

    @property
    def samples_per_s(self) -> float:
        """Samples a second, of all nodes."""
        return self.samples / self.iteration_s

    @property
    def waiting_share(self) -> float:
        """Share of the time in which a node does not compute: the mean of those that take part."""
        shares = [min(1.0, busy / self.iteration_s) for busy in self.busy_s.values()]
        return 1 - sum(shares) / len(shares) if shares else 0.0


class Limit(NamedTuple):
    """The node or link that is busy for the largest share of the time."""

    what: str
    share: float


def carried(problem: Problem, cost: Cost) -> dict[Pair, tuple[float, float]]:
    """Link of the cluster -> its bytes and busy seconds in an iteration.

    Overheads of messages between the same two nodes follow each other; those of different pairs
    overlap.
    """
    users: defaultdict[Pair, list[Pair]] = defaultdict(list)
    for pair in cost.link_bytes:
        for hop in pairwise(problem.routes.paths[pair]):
            users[hop].append(pair)
    loads = {}
    names = problem.cluster.names
    for hop, pairs in sorted(users.items(), key=lambda item: [names[node] for node in item[0]]):
        link, size = problem.cluster.links[hop], sum(cost.link_bytes[pair] for pair in pairs)
        seconds = {pair: 8 * cost.link_bytes[pair] / problem.routes.hop_bps(hop) for pair in pairs}
        longest_s = max(
            seconds[pair] + cost.messages.get(pair, 0.0) * link.overhead_s for pair in pairs
        )
        loads[hop] = size, max(longest_s, sum(seconds.values()))
    return loads


def within_links(problem: Problem, cost: Cost) -> Cost:
    """The same cost, in the time of the busiest link if that is longer.

    Cost models ignore that paths share links, and in a mean of few iterations some messages may
    not have arrived.
    """
    longest_s = max((seconds for _, seconds in carried(problem, cost).values()), default=0.0)
    return replace(cost, iteration_s=max(cost.iteration_s, longest_s))


def mean(costs: Sequence[Cost], shares: Sequence[float]) -> Cost:
    """Mean cost over several phases, weighted by their shares of all iterations."""
    if len(costs) == 1:
        return costs[0]
    seconds, samples = 0.0, costs[0].samples
    busy_s, link_bytes, messages = (defaultdict[Any, float](float) for _ in range(3))
    for cost, share in zip(costs, shares, strict=True):
        seconds += share * cost.iteration_s
        samples += share * (cost.samples - costs[0].samples)
        parts = (busy_s, cost.busy_s), (link_bytes, cost.link_bytes), (messages, cost.messages)
        for total, part in parts:
            for key, value in part.items():
                total[key] += share * value
    return Cost(seconds, samples, dict(busy_s), dict(link_bytes), dict(messages))


def shares(problem: Problem, samples: Sequence[float]) -> list[float]:
    """Share of each period of a training in all iterations, by the samples of an iteration."""
    counts = [share / size for (_, share), size in zip(problem.periods, samples, strict=True)]
    return [count / sum(counts) for count in counts]


def limit(problem: Problem, cost: Cost) -> Limit:
    """The node or link that is busy for the largest share of an iteration."""
    names = problem.cluster.names
    shares = {
        names[node]: cost.busy_s[node] / cost.iteration_s
        for node in problem.by_name
        if node in cost.busy_s
    }
    shares |= {
        f"link {names[a]} to {names[b]}": seconds / cost.iteration_s
        for (a, b), (_, seconds) in carried(problem, cost).items()
    }
    what = max(shares, key=lambda name: float(f"{shares[name]:.9g}"))
    return Limit(what, shares[what])


Runner = Callable[..., Run]
"""Function that runs programs on a cluster, such as `simulate` or `measure`."""


def no_work() -> None:
    """Work of a node in a dry run, which only takes time."""


@dataclass(frozen=True)
class Phase:
    """A part of a training, without learning: work takes its seconds, messages have their sizes.

    Attributes
    ----------
    cluster
        Cluster on which the programs run.
    nodes
        The problem's nodes, in the order of `cluster`.
    programs
        Makes the programs for a number of iterations.
    samples
        Samples of an iteration.
    first, last
        Iterations of a short and a long run, whose difference is the cost: the beginning cancels.
    end_s
        Time at which a run's iterations have ended.
    share
        Share of all iterations of the training.
    """

    cluster: Cluster
    nodes: Sequence[int]
    programs: Callable[[int], Sequence[Program]]
    samples: float
    first: int = 1
    last: int = 3
    end_s: Callable[[Run], float] = attrgetter("end_s")
    share: float = 1.0

    def trace(self, iterations: int = 2) -> Trace:
        """Trace of a simulated run."""
        trace = simulate(self.cluster, self.programs(iterations), trace=True).trace
        assert trace is not None
        return trace

    def cost(self, run: Runner = simulate, count: int | None = None) -> Cost:
        """Cost of an iteration, as the mean of `count` after the first."""
        count = count or self.last - self.first
        short, long = (
            run(self.cluster, self.programs(iterations), trace=True)
            for iterations in (self.first, self.first + count)
        )
        by_name = dict(zip(self.cluster.names, self.nodes, strict=True))
        by_lane = {f"to {name}": node for name, node in by_name.items()}
        busy: defaultdict[int, float] = defaultdict(float)
        messages: defaultdict[Pair, float] = defaultdict(float)
        for dry_run, sign in ((short, -1), (long, 1)):
            assert dry_run.trace is not None
            for node, lane, _, start_s, end_s, size, kind in dry_run.trace.frame.iter_rows():
                if size:  # requests cost no overhead
                    messages[by_name[node], by_lane[lane]] += sign / count
                elif kind == "work" and end_s > start_s:
                    busy[by_name[node]] += sign * (end_s - start_s) / count
        sizes: dict[Pair, float] = {}
        for before, after in zip(short.links, long.links, strict=True):
            if after.bytes > before.bytes:
                pair = by_name[after.source], by_name[after.target]
                sizes[pair] = (after.bytes - before.bytes) / count
        seconds = (self.end_s(long) - self.end_s(short)) / count
        return Cost(seconds, self.samples, dict(busy), sizes, dict(messages))


def periods(problem: Problem, phase: Callable[[Problem], Phase]) -> list[Phase]:
    """Phases of the periods of a training, with their shares of all iterations."""
    phases = [phase(part) for part, _ in problem.periods]
    of_all = shares(problem, [each.samples for each in phases])
    return [replace(each, share=share) for each, share in zip(phases, of_all, strict=True)]
