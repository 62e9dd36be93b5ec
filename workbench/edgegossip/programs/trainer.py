"""EdgeGossip's part in a gossip training: who learns from which of its points in each epoch.

Han et al. 2021, Fig. 2: each platform aggregates its points once; before each epoch it predicts its
throughput and reports it to the balancer (Alg. 1), which runs on one platform and answers with the
share of its points that each keeps; of these it learns from what a strategy selects (Alg. 2, or
another for comparison). Deviations:

- A subset holds one class, and neighbours in rank often the same one, so batches of points as they
  are ranked teach one class after the other; training with them is slow and unsteady, or fails. So
  the chosen points are shuffled into batches unless ``order="ranked"``.
- Alg. 2 goes on until a whole batch reaches |X| r points. In a small training slow platforms would
  so learn from half as many again as the balancer allows, and all others wait. So exactly |X| r
  points, rounded up, are learnt from, but for ``order="ranked"``.
- Failures: a platform that is silent for the setup's `patience_s` has none of its report before
  the balancer, and counts as failed. One that restarts keeps its own shard; others give back what
  they took over of it in the epoch after. Where the balancer itself is silent, its newest decision
  holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.clusters import Cluster
from workbench.datasets import Dataset
from workbench.decentralised import View
from workbench.decentralised.selecting import Batches, shuffled
from workbench.edgegossip.aggregation import Aggregation, aggregate
from workbench.edgegossip.aggregation.aggregation import Indices, check_ratio
from workbench.edgegossip.aggregation.costs import COUNTED, generation_s
from workbench.edgegossip.algorithms import STRATEGIES, Strategy
from workbench.edgegossip.algorithms.balancer import (
    FAILED_SHARE,
    THRESHOLD,
    Ratios,
    balance,
)
from workbench.edgegossip.algorithms.effects import point_losses, quota
from workbench.edgegossip.algorithms.failures import POLICIES, held_after
from workbench.edgegossip.costs.platforms import Platform
from workbench.training.repeatable import AGGREGATE, SELECT, derive
from workbench.training.trained import DivergedError
from workbench.utils.checks import (
    ABOVE_ZERO,
    NOT_NEGATIVE,
    UserError,
    at_least,
    between,
    check_fields,
    check_name,
    optional,
)

ORDERS = ("shuffled", "ranked")
BALANCERS = ("with_ranking", "literal")


@dataclass(frozen=True, eq=False)
class State:
    """State of a platform from epoch to epoch."""

    held: Indices  # training samples: its shard, and what it took over
    baseline_s: float  # its estimate of t_0
    taken: tuple[Any, ...] = ()  # handovers when `held` was set
    aggregation: Aggregation | None = None  # of `held`


def has_means(dataset: Dataset) -> bool:
    """Whether points of a class can be aggregated: they are floats, with a class each."""
    inputs, labels = dataset.inputs, dataset.y_train
    floats = len(inputs) == 1 and inputs[0].dtype.startswith("float")
    return floats and labels.ndim == 1 and labels.dtype == np.int64


@dataclass(frozen=True)
class EdgeGossip:
    """Options of EdgeGossip; they select the samples of each platform of a `Setup`.

    In virtual time, aggregating takes the operations of the paper's Table 3, and ranking
    `forward_share` of the seconds that learning from as many points takes; the balancer and the
    predictor, which are a few numbers, take none.

    Parameters
    ----------
    technique
        Aggregation technique, one of the three whose operations Table 3 counts: ``"svd_kmeans"``,
        ``"incremental_svd_lsh"`` or ``"hash_kmeans"``.
    ratio
        Points for each aggregated one; at most as many as the smallest shard has.
    strategy
        A name in `STRATEGIES`.
    order
        Order of the chosen points: ``"shuffled"``, exactly as many as the balancer allows; or
        ``"ranked"``, whole subsets, largest effect first.
    balancer
        ``"with_ranking"`` counts what ranking takes before an epoch, ``"literal"`` is Alg. 1, which
        does not.
    threshold, failed_share, on_failures
        How the balancer handles failures. A platform fails when it is predicted to be slower than
        `threshold`, or is silent. While at most `failed_share` of the platforms have failed, their
        points are left out. Beyond that, ``"reassign"`` lets the others take them over until they
        are back, in proportion to throughput without contention; ``"stop"`` ends the run.
    coordinator
        Index of the platform on which the balancer runs; it needs links with all others.
    forward_share
        Seconds of evaluating a point over those of learning from it.
    operations_per_s
        Operations a second that a platform does in aggregating.
    stands_for
        Points of the paper that each training sample stands for in the cost of aggregating; the
        platforms' seconds per sample should be as many times as long, too.
    features
        Features of each of those points; None for as many as the samples have.
    window_s
        Seconds over which contention is averaged before a prediction.
    """

    technique: str = "svd_kmeans"
    ratio: float = 10.0
    strategy: str = "accuracy_aware"
    order: str = "shuffled"
    balancer: str = "with_ranking"
    threshold: float = field(default=THRESHOLD, metadata=ABOVE_ZERO)
    failed_share: float = field(default=FAILED_SHARE, metadata=between(0, 1))
    on_failures: str = "reassign"
    coordinator: int = field(default=0, metadata=at_least(0))
    forward_share: float = field(default=1 / 3, metadata=NOT_NEGATIVE)
    operations_per_s: float = field(default=1e9, metadata=ABOVE_ZERO)
    stands_for: float = field(default=1.0, metadata=ABOVE_ZERO)
    features: int | None = field(default=None, metadata=optional(at_least(1)))
    window_s: float = field(default=60.0, metadata=NOT_NEGATIVE)

    def __post_init__(self) -> None:
        check_name("technique of Table 3", self.technique, COUNTED)
        check_name("strategy", self.strategy, STRATEGIES)
        check_name("order", self.order, ORDERS)
        check_name("balancer", self.balancer, BALANCERS)
        check_name("on_failures", self.on_failures, POLICIES)
        check_ratio(self.ratio)
        check_fields(self)

    def fitted(self, setup: Any) -> PlatformSelector:
        """Return the selector for a training on the setup's platforms."""
        platforms = getattr(setup, "platforms", None)
        if platforms is None:
            raise UserError(
                f"EdgeGossip learns on platforms, which a {type(setup).__name__} has not; give an "
                "edgegossip.Setup"
            )
        if setup.exchange.in_lockstep:
            raise UserError(
                f"{type(setup.exchange).__name__} needs as many batches on each platform, but the "
                "balancer gives slow ones fewer; give exchange=Gossip(...), GoSgd(...) or AdPsgd()"
            )
        self._check_coordinator(setup.network)
        inputs, labels = setup.dataset.inputs, setup.dataset.y_train
        if self.how.aggregates and not has_means(setup.dataset):
            without = [name for name, one in STRATEGIES.items() if not one.aggregates]
            raise UserError(
                f"{self.strategy} aggregates points by means of their features, class by class; "
                f"{setup.dataset.name} has {', '.join(map(str, inputs))} a sample, and labels of "
                f"{labels.dtype}{list(labels.shape[1:])}. Give strategy={' or '.join(without)}, "
                "which choose among the points themselves"
            )
        for platform, shard in zip(platforms, setup.held, strict=True):
            if self.how.aggregates and len(shard) < self.ratio:
                raise UserError(
                    f"{platform.name} has {len(shard)} points, less than one aggregated point "
                    f"at the ratio {self.ratio:g}; give it more points, or a smaller ratio"
                )
        return PlatformSelector(self, platforms, setup.held, setup.seed)

    def _check_coordinator(self, cluster: Cluster) -> None:
        if self.coordinator >= len(cluster):
            raise UserError(
                f"coordinator is {self.coordinator}; the platforms are 0 to {len(cluster) - 1}"
            )
        others = (node for node in range(len(cluster)) if node != self.coordinator)
        missing = [
            cluster.names[node]
            for node in others
            if not {(node, self.coordinator), (self.coordinator, node)} <= cluster.links.keys()
        ]
        if missing:
            raise UserError(
                f"the balancer runs on {cluster.names[self.coordinator]}, which has no links both "
                f"ways with {', '.join(missing)}; add them, or give the coordinator= that has"
            )

    @property
    def how(self) -> Strategy:
        """The strategy."""
        return STRATEGIES[self.strategy]

    @property
    def points_per_loss(self) -> float:
        """Points for each loss that is computed before an epoch."""
        return {"aggregated": self.ratio, "points": 1.0, "none": math.inf}[self.how.effects]

    def aggregating_s(self, points: int, features: int | None = None, classes: int = 10) -> float:
        """Seconds of aggregating points with this number of features, unless `self` has another."""
        if not self.how.aggregates:
            return 0.0
        features = self.features or features
        if features is None:
            raise UserError(
                "features is None, and there are no samples to count them; give a number"
            )
        return generation_s(
            self.technique,
            points * self.stands_for,
            features,
            self.ratio,
            self.operations_per_s,
            classes=classes,
        )

    def decide(
        self, points: Sequence[int], throughput: Sequence[float], platforms: Sequence[Platform]
    ) -> Ratios:
        """Share of its points that each platform keeps, and who takes over whose (Alg. 1)."""
        counted = self.forward_share if self.balancer == "with_ranking" else 0.0
        return balance(
            points,
            throughput,
            self.threshold,
            self.failed_share,
            self.on_failures,
            ranking_share=counted / self.points_per_loss,
            taking_over=[platform.alone for platform in platforms],
        )


@dataclass(frozen=True, eq=False)
class PlatformSelector:
    """EdgeGossip on the platforms of a setup: a `Selector` that is `Coordinated`."""

    options: EdgeGossip
    platforms: Sequence[Platform]
    shards: Sequence[Indices]
    seed: int

    @property
    def coordinator(self) -> int:
        """The platform on which the balancer runs."""
        return self.options.coordinator

    def begin(self, node: int) -> State:
        """First state: a platform's own shard, whatever others took over meanwhile."""
        return State(self.shards[node], self.platforms[node].baseline_s)

    def report(self, state: State, view: View) -> tuple[State, float]:
        """Follow t_0 by the last epoch, and predict samples per second from recent contention."""
        platform, last = self.platforms[view.node], view.last
        if last is not None:
            baseline_s = platform.observe(
                state.baseline_s, last.samples, last.seconds, last.ended_s
            )
            state = replace(state, baseline_s=baseline_s)
        return state, platform.throughput(state.baseline_s, view.now_s, self.options.window_s)

    def decide(self, reports: Mapping[int, float]) -> Ratios:
        """Set the share of its points that each platform keeps, and who takes over whose."""
        throughput = [reports.get(node, 0.0) for node in range(len(self.shards))]
        return self.options.decide(list(map(len, self.shards)), throughput, self.platforms)

    def step(self, state: State, epoch: int, view: View) -> tuple[State, Batches, float]:
        """Take over or give back points, rank and select."""
        decision: Ratios | None = view.decision
        ratio, cost_s = 1.0, 0.0  # all points, before anything is decided
        if decision is not None:
            ratio = decision.ratios[view.node]
            if decision.handovers != state.taken:
                held = held_after(self.shards, view.node, decision.handovers)
                state = replace(state, held=held, taken=decision.handovers, aggregation=None)
        if not ratio:
            return state, [], 0.0
        if state.aggregation is None:
            state, cost_s = self._aggregated(state, view)
        assert state.aggregation is not None
        effects, ranking_s = self._effects(state.aggregation, state.held, epoch, view)
        draws = derive(self.seed, SELECT, view.node, epoch)
        chosen = self.options.how.select(state.aggregation, effects, ratio, view.batch_size, draws)
        batches: Batches = [state.held[batch] for batch in chosen]
        if self.options.order == "shuffled":
            first = np.concatenate(batches)[: quota(len(state.held), ratio)]
            batches = shuffled(first, self.seed, epoch, view)
        return state, batches, cost_s + ranking_s

    def _aggregated(self, state: State, view: View) -> tuple[State, float]:
        """The state with `held` aggregated; the seconds that this takes."""
        if not self.options.how.aggregates:  # every point by itself: only its index is needed
            each = np.arange(len(state.held), dtype=np.int64)
            by_index = state.held[:, None].astype(np.float64)
            return replace(state, aggregation=Aggregation(by_index, each, each, 1.0)), 0.0
        x, y = view.dataset.x_train[state.held], view.dataset.y_train[state.held]
        draws = derive(self.seed, AGGREGATE, view.node) % 2**31
        made = aggregate(x, y, self.options.technique, self.options.ratio, draws)
        seconds = self.options.aggregating_s(len(x), x[0].size, len(np.unique(y)))
        return replace(state, aggregation=made), seconds

    def _effects(
        self, aggregation: Aggregation, held: Indices, epoch: int, view: View
    ) -> tuple[NDArray[np.float64], float]:
        """Losses that the strategy ranks by, and the seconds that computing them takes."""
        if self.options.how.effects == "none":
            return np.zeros(len(aggregation)), 0.0
        x, y = aggregation.points, aggregation.labels
        if not self.options.how.aggregates:
            x, y = view.dataset.x_train[held], view.dataset.y_train[held]
        losses = point_losses(view.flat.module, x, y, objective=view.setup.objective)
        worst = losses[np.argmin(np.isfinite(losses))]
        if not math.isfinite(worst):
            name = self.platforms[view.node].name
            raise DivergedError(worst, f"of a point that {name} ranks before epoch {epoch}")
        return losses, len(losses) * view.sample_s * self.options.forward_share
