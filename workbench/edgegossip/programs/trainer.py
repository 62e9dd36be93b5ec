"""EdgeGossip's part in a gossip training: who learns from which of its points in each epoch.

Han et al. 2021, Fig. 2: each platform aggregates its points once; before each epoch it predicts its
throughput and reports it, sets its ratio of points by the balancer (Alg. 1), and learns from those
that a strategy selects (Alg. 2, or another for comparison). Deviations:

- A subset holds one class, and neighbours in rank often the same one, so batches of points as they
  are ranked teach one class after the other; training with them is slow and unsteady, or fails. So
  the chosen points are shuffled into batches unless ``order="ranked"``.
- Alg. 2 goes on until a whole batch reaches |X| r points. In a small training slow platforms would
  so learn from half as many again as the balancer allows, and all others wait. So exactly |X| r
  points, rounded up, are learnt from, but for ``order="ranked"``.
- There is no central balancer. Reports travel with the models, and each platform runs the balancer
  on those that it has: on a complete graph without faults all have the same, elsewhere a report is
  as many epochs old as its path has hops, so ratios differ a little. All know of a crash in the
  same epoch, and who then learns from which points depends on nothing else.

A platform always keeps its own points. Each knows of a restart when the report comes; until then it
keeps what it took over, or still takes over if silence becomes too long, so these points are learnt
from twice, at any patience. Where a crash partitions the graph (a star without its hub), all take
over from the crashed node as if all were still there, nobody from another part, and nobody learns
from the points of a part that fails as well. Where more fails at once than `reporting.hops_of`
allows for, platforms may disagree on who has failed: until reports come through again some points
are learnt from twice, or by nobody.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from workbench.datasets import Dataset
from workbench.decentralised import Mixing, View
from workbench.decentralised.selecting import Batches, shuffled
from workbench.decentralised.setup import Gossip
from workbench.edgegossip.aggregation import Aggregation, aggregate
from workbench.edgegossip.aggregation.aggregation import Indices, check_ratio
from workbench.edgegossip.aggregation.costs import COUNTED, generation_s
from workbench.edgegossip.algorithms import STRATEGIES, Strategy
from workbench.edgegossip.algorithms.balancer import (
    BALANCERS,
    FAILED_SHARE,
    THRESHOLD,
    Balance,
    Ratios,
    balance,
    check_balancer,
    ranking_share,
)
from workbench.edgegossip.algorithms.effects import point_losses, quota
from workbench.edgegossip.algorithms.failures import held_after
from workbench.edgegossip.costs.platforms import Platform
from workbench.edgegossip.programs.reporting import Report, hops_of, rates
from workbench.training.repeatable import AGGREGATE, SELECT, derive
from workbench.training.trained import DivergedError
from workbench.utils.checks import (
    ABOVE_ZERO,
    NOT_NEGATIVE,
    UserError,
    at_least,
    check_fields,
    check_name,
    optional,
)

__all__ = ["ORDERS", "EdgeGossip", "Report", "State"]

ORDERS = ("shuffled", "ranked")


@dataclass(frozen=True, eq=False)
class State:
    """State of a platform from epoch to epoch."""

    held: Indices  # training samples: its shard, and what it took over
    failed: tuple[int, ...] = ()  # platforms that counted as failed when `held` was set
    aggregation: Aggregation | None = None  # of `held`
    began: int | None = None  # first epoch since it (re)started


def has_means(dataset: Dataset) -> bool:
    """Whether points of a class can be aggregated: they are floats, with a class each."""
    inputs, labels = dataset.inputs, dataset.y_train
    floats = len(inputs) == 1 and inputs[0].dtype.startswith("float")
    return floats and labels.ndim == 1 and labels.dtype == np.int64


@dataclass(frozen=True, eq=False)
class EdgeGossip:
    """Selects what each platform of a `Setup` learns from, in `workbench.decentralised.train`.

    In virtual time, aggregating takes the operations of the paper's Table 3, and ranking
    `forward_share` of the seconds that learning from as many points takes; the balancer and the
    predictor, which are a few numbers, take none.

    Parameters
    ----------
    technique
        Of aggregation: one of those that Table 3 counts, `COUNTED`.
    ratio
        Points for each aggregated one; at most the least shard's.
    strategy
        A name in `STRATEGIES`.
    order
        Of the chosen points: ``"shuffled"``, just as many as the ratio asks for, in batches; or
        ``"ranked"``, in the batches of whole subsets that were selected, largest effect first.
    balancer
        One of `BALANCERS`: ``"with_ranking"`` counts what ranking takes before an epoch,
        ``"literal"`` is Alg. 1, which does not.
    threshold, failed_share, on_failures
        Of the balancer. A platform fails when it is predicted to be slower than `threshold`, or
        when its last report is more than `hops` epochs old and one who hears it directly has gone
        on without it. ``"reassign"`` lets the others take over its points, and aggregate theirs
        again, until it is back; ``"stop"`` ends the run. Up to `failed_share` its points are left
        out. Platforms take over in proportion to their throughput without contention, which all
        know.
    hops
        Exchanges within which a report is everywhere; None for what the setup's mixing needs. More
        are more patient with faults.
    forward_share
        Seconds that evaluating a point takes over those that learning from it does.
    operations_per_s
        In aggregating.
    stands_for
        Points of the paper that each training sample stands for in the cost of aggregating; the
        platforms' seconds per sample should be as many times as long, too.
    features
        Of each of those; None for as many as the samples have.
    window_s
        Over which contention is averaged before a prediction.
    """

    technique: str = "svd_kmeans"
    ratio: float = 10.0
    strategy: str = "accuracy_aware"
    order: str = "shuffled"
    balancer: str = "with_ranking"
    threshold: float = THRESHOLD
    failed_share: float = FAILED_SHARE
    on_failures: str = "reassign"
    hops: int | None = field(default=None, metadata=optional(at_least(1)))
    forward_share: float = field(default=1 / 3, metadata=NOT_NEGATIVE)
    operations_per_s: float = field(default=1e9, metadata=ABOVE_ZERO)
    stands_for: float = field(default=1.0, metadata=ABOVE_ZERO)
    features: int | None = field(default=None, metadata=optional(at_least(1)))
    window_s: float = field(default=60.0, metadata=NOT_NEGATIVE)

    # Of the setup, once fitted.
    platforms: Sequence[Platform] = field(default=(), init=False)
    shards: Sequence[Indices] = field(default=(), init=False)
    mixing: Mixing | None = field(default=None, init=False)
    seed: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        check_name("technique of Table 3", self.technique, COUNTED)
        check_name("strategy", self.strategy, STRATEGIES)
        check_name("order", self.order, ORDERS)
        check_name("balancer", self.balancer, BALANCERS)
        check_balancer(self.threshold, self.failed_share, self.on_failures)
        check_ratio(self.ratio)
        check_fields(self)

    def fitted(self, setup: Gossip) -> Self:
        """What runs in a training: with the setup's platforms, and the `hops` that these need."""
        platforms = getattr(setup, "platforms", None)
        if platforms is None:
            raise UserError(
                f"EdgeGossip learns on platforms, which a {type(setup).__name__} has not; give an "
                "edgegossip.Setup"
            )
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
        fitted = replace(self, hops=hops_of(setup, self.hops))
        for name, value in (
            ("platforms", platforms),
            ("shards", setup.held),
            ("mixing", setup.mixing),
            ("seed", setup.seed),
        ):
            object.__setattr__(fitted, name, value)
        return fitted

    @property
    def how(self) -> Strategy:
        """The strategy."""
        return STRATEGIES[self.strategy]

    def begin(self, node: int) -> State:
        """A platform's own shard, whatever others took over meanwhile."""
        return State(self.shards[node])

    def report(self, state: State, epoch: int, view: View) -> Report:
        """Follow t_0 by the last epoch, and predict the throughput from recent contention."""
        platform, last = self.platforms[view.node], view.last
        before = view.reports.get(view.node)
        baseline_s = platform.baseline_s if before is None else before.baseline_s
        if last is not None:
            baseline_s = platform.observe(baseline_s, last.samples, last.seconds, view.now_s)
        rate = platform.throughput(baseline_s, view.now_s, self.window_s)
        return Report(epoch, len(state.held), rate, baseline_s)

    def step(self, state: State, epoch: int, view: View) -> tuple[State, Batches, float]:
        """Balance, take over or give back points, rank and select."""
        if state.began is None:
            state = replace(state, began=epoch)
        ratios, failed = self._balanced(state, epoch, view)
        if failed != state.failed:
            held = held_after(self.shards, view.node, ratios.handovers)
            state = replace(state, held=held, failed=failed, aggregation=None)
        ratio, cost_s = ratios.ratios[view.node], 0.0
        if not ratio:
            return state, [], 0.0
        if state.aggregation is None:
            state, cost_s = self._aggregated(state, view)
        assert state.aggregation is not None
        effects, ranking_s = self._effects(state.aggregation, state.held, epoch, view)
        draws = derive(self.seed, SELECT, view.node, epoch)
        chosen = self.how.select(state.aggregation, effects, ratio, view.batch_size, draws)
        batches: Batches = [state.held[batch] for batch in chosen]
        if self.order == "shuffled":
            first = np.concatenate(batches)[: quota(len(state.held), ratio)]
            batches = shuffled(first, self.seed, epoch, view)
        return state, batches, cost_s + ranking_s

    def _balanced(self, state: State, epoch: int, view: View) -> tuple[Ratios, tuple[int, ...]]:
        """How much each platform learns from, and which have failed."""
        reports: dict[int, Report] = dict(view.reports)
        if view.node not in reports:  # just restarted
            reports[view.node] = self.report(state, epoch - 1, replace(view, last=None))
        sizes = list(map(len, self.shards))
        points, throughput = rates(
            reports,
            sizes,
            self.platforms,
            epoch=epoch,
            began=epoch if state.began is None else state.began,
            hops=self.hops or 1,
            mixing=self.mixing,
        )
        failed = tuple(node for node, rate in enumerate(throughput) if rate < self.threshold)
        # Points that were handed over stay; if others have failed, all are dealt out again.
        if failed == state.failed:
            held = [0 if node in failed else count for node, count in enumerate(points)]
        else:
            held = sizes
        ratio = {"aggregated": self.ratio, "points": 1.0, "none": math.inf}[self.how.effects]
        ratios = balance(
            Balance(held, throughput),
            self.threshold,
            self.failed_share,
            self.on_failures,
            ranking_share=ranking_share(self.balancer, self.forward_share, ratio),
            taking_over=[platform.alone for platform in self.platforms],
        )
        return ratios, failed

    def _aggregated(self, state: State, view: View) -> tuple[State, float]:
        """The state with `held` aggregated; the seconds that this takes."""
        if not self.how.aggregates:  # every point by itself, of which only the index is needed
            each = np.arange(len(state.held), dtype=np.int64)
            by_index = state.held[:, None].astype(np.float64)
            return replace(state, aggregation=Aggregation(by_index, each, each, 1.0)), 0.0
        x, y = view.dataset.x_train[state.held], view.dataset.y_train[state.held]
        draws = derive(self.seed, AGGREGATE, view.node) % 2**31
        made = aggregate(x, y, self.technique, self.ratio, draws)
        seconds = generation_s(
            self.technique,
            len(x) * self.stands_for,
            x[0].size if self.features is None else self.features,
            self.ratio,
            self.operations_per_s,
            classes=len(np.unique(y)),
        )
        return replace(state, aggregation=made), seconds

    def _effects(
        self, aggregation: Aggregation, held: Indices, epoch: int, view: View
    ) -> tuple[NDArray[np.float64], float]:
        """Losses that the strategy ranks by, and the seconds that computing them takes."""
        if self.how.effects == "none":
            return np.zeros(len(aggregation)), 0.0
        x, y = aggregation.points, aggregation.labels
        if not self.how.aggregates:
            x, y = view.dataset.x_train[held], view.dataset.y_train[held]
        losses = point_losses(view.flat.module, x, y, objective=view.setup.objective)
        worst = losses[np.argmin(np.isfinite(losses))]
        if not math.isfinite(worst):
            name = self.platforms[view.node].name
            raise DivergedError(worst, f"of a point that {name} ranks before epoch {epoch}")
        return losses, len(losses) * view.sample_s * self.forward_share
