"""EdgeGossip's part in a gossip training: who learns from which of its points in each epoch.

Han et al. 2021, Fig. 2: each platform aggregates its points once; before each epoch it predicts its
throughput and tells the others, sets its ratio of points by the balancer (Alg. 1), and learns from
those that a strategy selects (Alg. 2, or another for comparison).

Deviation: read to the letter, Alg. 2 makes batches of points as they are ranked. A subset holds one
class and neighbours in rank often the same one, so such batches teach one class after the other;
with them training is slow and unsteady, or does not learn at all. So the chosen points are shuffled
into batches unless ``order="ranked"`` is asked for.

Deviation: Alg. 2 goes on until a whole batch reaches |X| r points. Of thousands of points the rest
of a batch is nothing; of the few hundred of a small training it would have slow platforms learn
from half as many again as the balancer allows, and all others wait. So of the points in the order
of their ranking exactly |X| r, rounded up, are learnt from, but for ``order="ranked"``.

Deviation: there is no central balancer. Reports travel with the models, and each platform runs the
balancer on those it has; on a complete graph all have the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.clusters.checks import check_number, whole
from workbench.edgegossip.aggregation import Aggregation, aggregate, operations
from workbench.edgegossip.aggregation.costs import SELECTED
from workbench.edgegossip.balancer import Balance, Ratios, balance
from workbench.edgegossip.failures import POLICIES, Handover
from workbench.edgegossip.losses import point_losses
from workbench.edgegossip.platforms import Platform
from workbench.edgegossip.predictor import Baseline
from workbench.edgegossip.quota import quota
from workbench.edgegossip.selection import STRATEGIES, Strategy
from workbench.gossip import View
from workbench.gossip.selecting import Batches
from workbench.names import check_name
from workbench.training.repeatable import SHUFFLE, derive

Indices = NDArray[np.int64]

ORDERS = ("shuffled", "ranked")


class Report(NamedTuple):
    """What a platform tells the others behind an epoch.

    Attributes
    ----------
    epoch
        Behind which it was made; 0 before the first.
    points
        That the platform holds.
    throughput
        p, samples per second.
    baseline
        What it knows of its t_0.
    """

    epoch: int
    points: int
    throughput: float
    baseline: Baseline


@dataclass(frozen=True, eq=False)
class State:
    """What a platform keeps from epoch to epoch.

    Attributes
    ----------
    held
        Training samples it learns from: its shard, and what it took over.
    failed
        Platforms that counted as failed when `held` was set.
    aggregation
        Of `held`; None before the first epoch.
    """

    held: Indices
    failed: tuple[int, ...] = ()
    aggregation: Aggregation | None = None


@dataclass(frozen=True, eq=False)
class EdgeGossip:
    """Selects what each platform learns from; give it to `workbench.gossip.train`.

    Costs in virtual time, so that runs repeat bit for bit: aggregating, by the operations that the
    paper's Table 3 counts; the losses that points are ranked by, `forward_share` of the seconds
    that learning from as many takes; nothing for the balancer and the predictor, which are a few
    numbers. Strategies that need no aggregated points pay for none.

    Parameters
    ----------
    platforms
        By node.
    shards
        Training samples of each, as in the `GossipSetup`.
    technique
        Of aggregation: one of those that Table 3 counts, `SELECTED`.
    ratio
        Points for each aggregated one; at most the least shard's.
    strategy
        A name in `STRATEGIES`.
    order
        Of the chosen points: ``"shuffled"``, just as many as the ratio asks for, in batches; or
        ``"ranked"``, in the batches of whole subsets that were selected, largest effect first.
    threshold, failed_share, on_failures
        Of the balancer. A platform fails when it is predicted to be slower than `threshold`, or
        when its last report is more than `hops` epochs old. ``"reassign"`` lets the others take
        over its points, and aggregate theirs again, until it is back; ``"stop"`` ends the run.
        Below `failed_share` its points are left out.
    hops
        Exchanges that a report takes to get everywhere: the graph's diameter.
    forward_share
        Seconds that evaluating a point takes over those that learning from it does.
    operations_per_s
        In aggregating.
    stands_for
        Points of the paper that each training sample stands for, so that aggregating takes as long
        as theirs would; the platforms' seconds per sample should be so many times as long, too.
    features
        Of each of those; None for as many as the samples have.
    window_s
        Over which contention is averaged before a prediction.
    seed
        Of aggregating and of strategies that draw.

    Raises
    ------
    workbench.names.UnknownNameError
        A technique, strategy or policy that is not there.
    ValueError
        Not as many platforms as shards, a shard with fewer points than the ratio, a number out of
        range.
    """

    platforms: Sequence[Platform]
    shards: Sequence[Indices]
    technique: str = "svd_kmeans"
    ratio: float = 10.0
    strategy: str = "accuracy_aware"
    order: str = "shuffled"
    threshold: float = 0.001
    failed_share: float = 0.1
    on_failures: str = "reassign"
    hops: int = 1
    forward_share: float = 1 / 3
    operations_per_s: float = 1e9
    stands_for: float = 1.0
    features: int | None = None
    window_s: float = 60.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_name("technique of Table 3", self.technique, SELECTED)
        check_name("strategy", self.strategy, STRATEGIES)
        check_name("order", self.order, ORDERS)
        check_name("policy", self.on_failures, POLICIES)
        if not self.platforms or len(self.platforms) != len(self.shards):
            raise ValueError(
                f"{len(self.platforms)} platforms, {len(self.shards)} shards; each platform "
                "needs one"
            )
        for name, low in (("ratio", 1.0), ("stands_for", 0.0), ("operations_per_s", 0.0)):
            number = check_number(name, getattr(self, name))
            if not low <= number < math.inf or not number:
                raise ValueError(f"{name} is {number}; give a finite number, {_least(low)}")
        for name in ("forward_share", "window_s"):
            if not 0 <= check_number(name, getattr(self, name)) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; give a number of at least 0")
        for name in ("hops", "features"):
            given = getattr(self, name)
            count = 1 if given is None and name == "features" else whole(given)
            if count is None or count < 1:
                raise ValueError(f"{name} is {given!r}; give a whole number of at least 1")
        for platform, shard in zip(self.platforms, self.shards, strict=True):
            if self.how.effects != "points" and len(shard) < self.ratio:
                raise ValueError(
                    f"{platform.name} has {len(shard)} points, less than one aggregated point "
                    f"at the ratio {self.ratio:g}; give it more points, or a smaller ratio"
                )

    @property
    def how(self) -> Strategy:
        """The strategy."""
        return STRATEGIES[self.strategy]

    @property
    def aggregates(self) -> bool:
        """Whether the strategy needs aggregated points."""
        return self.strategy in ("accuracy_aware", "random_subsets")

    def begin(self, node: int) -> State:
        """Begin with a platform's own shard, whatever others took over meanwhile."""
        return State(np.asarray(self.shards[node], np.int64))

    def report(self, state: State, epoch: int, view: View) -> Report:
        """Follow t_0 by what the epoch took, and predict the throughput from recent contention."""
        platform = self.platforms[view.node]
        before = view.reports.get(view.node)
        known = platform.predictor.start() if before is None else before.baseline
        if view.last is not None:
            known = platform.observe(known, view.last.samples, view.last.seconds, view.now_s)
        rate = platform.throughput(known, view.now_s, self.window_s)
        return Report(epoch, len(state.held), rate, known)

    def step(self, state: State, epoch: int, view: View) -> tuple[State, Batches, float]:
        """Balance, take over or give back points, rank and select."""
        ratios, failed = self._balanced(state, epoch, view)
        if failed != state.failed:
            state = State(self._held(view.node, ratios.handovers), failed)
        ratio, cost_s = ratios.ratios[view.node], 0.0
        if not ratio:
            return state, [], 0.0
        if state.aggregation is None:
            state, cost_s = self._aggregated(state, view)
        assert state.aggregation is not None
        effects, ranking_s = self._effects(state.aggregation, state.held, view)
        chosen = self.how.select(
            state.aggregation,
            effects,
            ratio,
            view.batch_size,
            derive(self.seed, view.node, epoch),
        )
        batches = [state.held[batch] for batch in chosen]
        if self.order == "shuffled":
            batches = self._shuffled(batches, quota(len(state.held), ratio), epoch, view)
        return state, batches, cost_s + ranking_s

    def _shuffled(
        self, batches: Sequence[Indices], count: int, epoch: int, view: View
    ) -> list[Indices]:
        stream = np.random.SeedSequence(self.seed, spawn_key=(SHUFFLE, epoch, view.node))
        order = np.random.default_rng(stream).permutation(np.concatenate(batches)[:count])
        return np.split(order, range(view.batch_size, len(order), view.batch_size))

    def _balanced(self, state: State, epoch: int, view: View) -> tuple[Ratios, tuple[int, ...]]:
        """Ratios for an epoch, and who has failed."""
        reports = self._reports(state, epoch, view)
        rates = [report.throughput if report else 0.0 for report in reports]
        failed = tuple(node for node, rate in enumerate(rates) if rate < self.threshold)
        if failed == state.failed:  # what was handed over stays where it is
            points = [
                0 if node in failed or report is None else report.points
                for node, report in enumerate(reports)
            ]
        else:
            points = [len(shard) for shard in self.shards]
        state_of_all = Balance(points, rates)
        return balance(state_of_all, self.threshold, self.failed_share, self.on_failures), failed

    def _reports(self, state: State, epoch: int, view: View) -> list[Report | None]:
        """Each platform's newest report; None where it is too old, or there is none."""
        newest: Mapping[int, Report] = view.reports
        found = [newest.get(node) for node in range(len(self.platforms))]
        found = [one if one and one.epoch >= epoch - self.hops else None for one in found]
        if found[view.node] is None:  # just restarted
            found[view.node] = self.report(state, epoch - 1, replace(view, last=None))
        return found

    def _held(self, node: int, handovers: Sequence[Handover]) -> Indices:
        """A platform's own shard and what it takes over."""
        taken = [
            np.asarray(self.shards[one.source])[one.first : one.stop]
            for one in handovers
            if one.target == node
        ]
        return np.concatenate([np.asarray(self.shards[node], np.int64), *taken])

    def _aggregated(self, state: State, view: View) -> tuple[State, float]:
        """Aggregate what is held; the seconds that this takes."""
        x, y = view.dataset.x_train[state.held], view.dataset.y_train[state.held]
        if not self.aggregates:  # every point by itself
            alone = Aggregation(x, y, np.arange(len(x), dtype=np.int64), 1.0)
            return replace(state, aggregation=alone), 0.0
        made = aggregate(x, y, self.technique, self.ratio, derive(self.seed, view.node) % 2**31)
        seconds = generation_s(
            self.technique,
            len(x) * self.stands_for,
            x[0].size if self.features is None else self.features,
            self.ratio,
            self.operations_per_s,
        )
        return replace(state, aggregation=made), seconds

    def _effects(
        self, aggregation: Aggregation, held: Indices, view: View
    ) -> tuple[NDArray[np.float64], float]:
        """Losses that the strategy ranks by, and the seconds that computing them takes."""
        if self.how.effects == "none":
            return np.zeros(len(aggregation)), 0.0
        found = point_losses(view.flat.module, aggregation.points, aggregation.labels)
        return found, len(found) * view.sample_s * self.forward_share


def generation_s(
    technique: str, points: float, features: int, ratio: float, operations_per_s: float
) -> float:
    """Seconds of aggregating: the operations of reducing and dividing as Table 3 counts them."""
    return sum(operations(technique, max(1, round(points)), features, ratio)) / operations_per_s


def _least(low: float) -> str:
    return f"at least {low:g}" if low else "above 0"
