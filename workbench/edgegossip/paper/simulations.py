"""Trainings on the simulated testbed: true learning, the paper's virtual seconds.

What learns may be smaller than what is timed. A training of fewer samples counts each for as many
of the paper's as it lacks, and its network carries the learner's model as fast as the testbed's
carries the timed one; so virtual times are those of the paper's size, and so are the ratios that
the balancer sets. Accuracy is the learner's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from workbench import decentralised
from workbench.datasets import Dataset, partition
from workbench.decentralised import GossipSetup, Trained
from workbench.edgegossip.costs import course as costs
from workbench.edgegossip.paper.testbed import (
    LOAD_SEED,
    PLATFORMS,
    POINTS,
    RATIO,
    STATED,
    Deployment,
    Testbed,
    forward_share,
    paper_testbed,
)
from workbench.edgegossip.programs.trainer import EdgeGossip
from workbench.profiles import profile_model
from workbench.training import Sgd

if TYPE_CHECKING:
    from workbench.runtime import Fault
    from workbench.runtime.progress import Progress


@dataclass(frozen=True)
class Learning:
    """What learns, and for how long.

    Attributes
    ----------
    learner
        Model of the zoo that is trained; None for the one that is timed.
    data
        What it learns from, not yet fitted to its input.
    epochs, batch_size, learning_rate
        Of the training.
    evaluate_every
        Epochs from one evaluation to the next.
    """

    learner: str | None
    data: Dataset
    epochs: int
    batch_size: int = STATED["training"]["batch_size"]
    learning_rate: float = STATED["training"]["learning_rate"]
    evaluate_every: int = 1


class Case(NamedTuple):
    """One training of EdgeGossip, or the plain one beside it.

    Attributes
    ----------
    model
        That is timed.
    platforms
        How many, or the kind of each.
    technique, ratio, strategy, order
        Of EdgeGossip.
    seed
        Of weights, shards, loads and whatever is drawn.
    slower
        How many times slower than its kind each platform is; None for none.
    uplink_mbps
        Of each platform.
    """

    model: str
    platforms: int | tuple[str, ...] = PLATFORMS
    technique: str = "svd_kmeans"
    ratio: float = RATIO
    strategy: str = "accuracy_aware"
    order: str = "shuffled"
    seed: int = 1
    slower: tuple[float, ...] | None = None
    uplink_mbps: float = STATED["assumed"]["uplink_mbps"]

    @property
    def nodes(self) -> int:
        """How many platforms."""
        return self.platforms if isinstance(self.platforms, int) else len(self.platforms)


@lru_cache(maxsize=256)
def deployed(case: Case, points: int, testbed: Testbed | None = None) -> Deployment:
    """The platforms of a case, for so many training samples in place of the paper's."""
    return (testbed or paper_testbed()).deployment(
        case.model,
        case.platforms,
        points=points,
        uplink_mbps=case.uplink_mbps,
        slower=case.slower,
        seed=LOAD_SEED + case.seed,
        stands_for=POINTS / points,
    )


def setup(case: Case, learning: Learning, **changes: Any) -> GossipSetup:
    """The gossip training of a case: a model's exchange an epoch on a complete graph."""
    learner = learning.learner or case.model
    deployment = deployed(case, len(learning.data.y_train))
    count = len(deployment.platforms)
    shards = partition.by_size(learning.data.y_train, [1] * count, seed=case.seed)
    given: dict[str, Any] = {
        "model": learner,
        "dataset": learning.data.fitted(_input_shape(learner)),
        "shards": shards,
        "cluster": deployment.cluster(profile_model(learner).param_bytes),
        "mixing": decentralised.metropolis_hastings(decentralised.complete(count)),
        "batch_size": learning.batch_size,
        "epochs": learning.epochs,
        "sgd": Sgd(learning.learning_rate, momentum=STATED["training"]["momentum"]),
        "sample_s": [one.sample_s for one in deployment.platforms],
        "evaluate_every": learning.evaluate_every,
        "seed": case.seed,
    }
    return GossipSetup(**{**given, **changes})


def selecting(case: Case, given: GossipSetup, **changes: Any) -> EdgeGossip:
    """EdgeGossip for the training of a case."""
    points = len(given.dataset.y_train)
    assumed, balancer = STATED["assumed"], STATED["balancer"]
    stated: dict[str, Any] = {
        "platforms": deployed(case, points).platforms,
        "shards": given.shards,
        "technique": case.technique,
        "ratio": case.ratio,
        "strategy": case.strategy,
        "order": case.order,
        "threshold": balancer["threshold"],
        "failed_share": balancer["failed_share"],
        "forward_share": forward_share(),
        "operations_per_s": assumed["operations_per_s"],
        "stands_for": POINTS / points,
        "features": prod(_input_shape(case.model)),
        "window_s": assumed["window_s"],
        "seed": case.seed,
    }
    return EdgeGossip(**{**stated, **changes})


def train(
    case: Case,
    learning: Learning,
    method: str = "edgegossip",
    *,
    faults: Iterable[Fault] = (),
    patience_s: float | None = None,
    trace: bool = False,
    progress: Progress | bool = False,
    **changes: Any,
) -> Trained:
    """Train a case with GoSGD or with EdgeGossip, given `changes` of its parameters."""
    given = setup(case, learning, patience_s=patience_s)
    ours = selecting(case, given, **changes) if method == "edgegossip" else None
    return decentralised.train(given, ours, faults=tuple(faults), trace=trace, progress=progress)


def curve(trained: Trained, points: int) -> pl.DataFrame:
    """Mean over the platforms of each evaluated epoch.

    Returns
    -------
    polars.DataFrame
        ``epoch``, ``at_s`` (of the last platform), ``top1``, ``loss`` and ``kept``, the share of
        all samples that were learnt from.
    """
    return (
        trained.epochs.group_by("epoch", maintain_order=True)
        .agg(
            pl.col("at_s").max(),
            pl.col("top1").mean(),
            pl.col("loss").mean(),
            kept=pl.col("samples").sum() / points,
        )
        .filter(pl.col("top1").is_not_null())
    )


def epoch_ends(epochs: Sequence[costs.Epoch]) -> list[float]:
    """Second at which the last platform is through with each epoch."""
    last = max(one.epoch for one in epochs)
    return [
        max(one.end_s for one in epochs if one.epoch == number) for number in range(1, last + 1)
    ]


def _input_shape(model: str) -> tuple[int, int, int]:
    from workbench.zoo import MODELS

    return MODELS[model].input_shape
