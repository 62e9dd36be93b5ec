"""Trainings on the paper's testbed: true learning on its platforms, in its virtual seconds.

The learner may be smaller than the timed model: each of its samples counts for as many of the
paper's as it lacks, and its network carries its model as fast as the testbed's carries the timed
one. So times, and the balancer's ratios, are those of the paper's size.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench import datasets, decentralised
from workbench.datasets import Dataset, partition
from workbench.decentralised import Gossip, nearest
from workbench.edgegossip.paper.testbed import (
    DEFAULTS,
    EPOCHS,
    LOAD_SEED,
    MODELS,
    PLATFORMS,
    POINTS,
    STATED,
    Deployment,
    paper_testbed,
)
from workbench.edgegossip.programs.trainer import EdgeGossip
from workbench.edgegossip.training import Setup
from workbench.profiles import profile_model
from workbench.reproduction.data import data_set, loaded_once
from workbench.reproduction.scales import Scaled
from workbench.training import Sgd
from workbench.training.repeatable import DEAL, derive
from workbench.zoo import MODELS as ZOO

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.runtime import Fault
    from workbench.training import Trained


class Case(NamedTuple):
    """One training of EdgeGossip, or of plain gossip beside it."""

    model: str  # that is timed
    platforms: int | tuple[str, ...] = PLATFORMS  # how many, or the kind of each
    how: EdgeGossip = DEFAULTS
    seed: int = 1  # of weights, shards, loads and all that is drawn
    slower: tuple[float, ...] | None = None  # how many times slower than its kind each platform is
    learner: str | None = None  # who learns, as itself; None for whom the scale has learn

    @property
    def nodes(self) -> int:
        """Number of platforms."""
        return self.platforms if isinstance(self.platforms, int) else len(self.platforms)


class Learning(NamedTuple):
    """A model that learns, itself timed or in the place of one that is; its data and training."""

    learner: str  # model of the zoo
    source: str
    samples: int | None  # at most; None for all
    test_samples: int | None  # as `samples`
    epochs: int
    points: int = POINTS  # that the paper trains on
    batch_size: int = STATED["training"]["batch_size"]
    learning_rate: float = STATED["training"]["learning_rate"]
    evaluate_every: int = 1  # epochs

    @property
    def data(self) -> Dataset:
        """The data, not yet fitted to the learner's input."""
        return data(self.source, self.samples, self.test_samples)


_SMALL = Learning("lenet5", "", 1500, 1000, 20, batch_size=16, learning_rate=0.02, evaluate_every=4)
_SMALLEST = _SMALL._replace(samples=240, test_samples=60, epochs=2, evaluate_every=1)
LEARNING = Scaled(
    smoke=dict.fromkeys(MODELS, _SMALLEST)
    | {"alexnet_cifar": _SMALLEST._replace(learner="alexnet_small")},
    default=dict.fromkeys(MODELS, _SMALL),
    paper={name: Learning(name, "", POINTS, None, EPOCHS) for name in MODELS},
)
"""Trainings by the model that is timed; `learning_at` adds the data."""

IMAGENET, IMAGENET_POINTS = "imagenet8", 1_281_167
"""AlexNet's second data set (Sec. 4.1), learnt from as a whole at scale ``paper``."""


@loaded_once
def data(source: str, samples: int | None, test_samples: int | None) -> Dataset:
    """Load a data set, cut to these numbers of samples and standardised."""
    return datasets.load(source).limit(train=samples, test=test_samples).standardised()


def source_of(scale: str, learner: str, dataset: str = "auto") -> str:
    """Name what a model learns from; the paper's are MNIST with LeNet-5, else CIFAR-10."""
    return data_set(scale, "mnist" if learner == "lenet5" else "cifar10", dataset)


def learning_at(scale: str, case: Case, dataset: str = "auto") -> Learning:
    """Learner and data of a case at a scale."""
    learning = LEARNING.at(scale)[case.learner or case.model]
    source = source_of(scale, learning.learner, dataset)
    if source != IMAGENET:
        return learning._replace(source=source)
    samples = None if learning.samples == POINTS else learning.samples
    return learning._replace(source=source, samples=samples, points=IMAGENET_POINTS)


@lru_cache(maxsize=256)
def deployed(case: Case, points: int, paper_points: int = POINTS) -> Deployment:
    """The platforms of a case, with `points` training samples for the paper's `paper_points`.

    Each has its part of the data on the first deployment.
    """
    parts = [points // PLATFORMS + (at < points % PLATFORMS) for at in range(PLATFORMS)]
    return paper_testbed().deployment(
        case.model,
        case.platforms,
        points=[parts[at % PLATFORMS] for at in range(case.nodes)],
        slower=case.slower,
        seed=LOAD_SEED + case.seed,
        stands_for=paper_points / points,
    )


def shards(labels: NDArray[np.int64], platforms: int, seed: int) -> list[NDArray[np.int64]]:
    """Samples of each platform: the data dealt out to the first four, again to the next, and so on.

    Each has 25 % of the data, as the paper's first deployment has it. Of its larger ones the paper
    gives no shares; dealt out once, an epoch there would be short, and training faster with every
    platform that joins, where its figure shows it slower.
    """
    dealt: list[NDArray[np.int64]] = []
    while len(dealt) < platforms:
        stream = derive(seed, DEAL, len(dealt) // PLATFORMS) if dealt else seed
        dealt += partition.by_size(labels, [1] * PLATFORMS, seed=stream)
    return dealt[:platforms]


def setup(case: Case, learning: Learning, *, patience_s: float | None = None) -> Setup:
    """The training of a case: on the testbed, a model's exchange an epoch with each peer."""
    loaded = learning.data
    deployment = deployed(case, len(loaded.y_train), learning.points)
    return Setup(
        learning.learner,
        loaded.fitted(ZOO[learning.learner].input_shape),
        deployment.platforms,
        shards=shards(loaded.y_train, case.nodes, case.seed),
        exchange=Gossip(nearest(case.nodes, deployment.peers)) if deployment.peers else None,
        cluster=deployment.cluster(profile_model(learning.learner).param_bytes),
        batch_size=learning.batch_size,
        epochs=learning.epochs,
        sgd=Sgd(learning.learning_rate, momentum=STATED["training"]["momentum"]),
        patience_s=patience_s,
        evaluate_every=learning.evaluate_every,
        seed=case.seed,
    )


def train(
    case: Case,
    learning: Learning,
    method: str = "edgegossip",
    *,
    faults: Iterable[Fault] = (),
    patience_s: float | None = None,
) -> Trained[tuple[Tensor, ...]]:
    """Train a case with GoSGD or with EdgeGossip."""
    made, points = setup(case, learning, patience_s=patience_s), len(learning.data.y_train)
    how = deployed(case, points, learning.points).options(case.how)
    return decentralised.train(made, None if method == "gosgd" else how, faults=faults)
