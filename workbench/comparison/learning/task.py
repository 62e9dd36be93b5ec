"""The task of all methods in a comparison: a model, its samples and its first weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import datasets
from workbench.comparison.problem import Problem
from workbench.datasets import partition
from workbench.datasets.dataset import check_dataset
from workbench.profiles.inputs import Input, inputs_of
from workbench.training import Sgd
from workbench.training.models import check_model
from workbench.training.objective import objective_of
from workbench.utils.checks import UserError, check_number, check_whole

if TYPE_CHECKING:
    import torch

    from workbench.datasets import Dataset
    from workbench.training.models import Model

CURVE = {
    "at_s": pl.Float64,
    "bytes": pl.Float64,
    "samples": pl.Float64,
    "loss": pl.Float64,
    "metric": pl.Float64,
}
"""Columns of a training's evaluations: virtual seconds; bytes over all links and samples learnt
from until then; loss and metric on the test samples. The metric is `Objective.shown`, or null."""

PER_EPOCH = 2
"""Evaluations an epoch, of methods that have a model to evaluate within an epoch."""


@dataclass(frozen=True, eq=False)
class Task:
    """A training task, the same for all methods.

    Attributes
    ----------
    problem
        Model, cluster and batch. Each node holds the share of the data set's training samples that
        it holds in the cluster.
    model, dataset, objective, outputs
        As for `workbench.training.Setup`.
    epochs
        Passes over as many samples as all nodes hold together, whoever learns from them.
    learning_rate
        Learning rate of a step on the batch of one worker.
    alpha
        Parameter of the Dirichlet distribution by which each class is split among nodes, instead of
        by their shares; None for the same mix of classes on every node.

    Raises
    ------
    UserError
        Values that no training takes; fewer training samples than data owners.
    """

    problem: Problem
    model: Model
    dataset: Dataset
    epochs: int = field(default=20, kw_only=True)
    learning_rate: float = field(default=0.1, kw_only=True)
    alpha: float | None = field(default=None, kw_only=True)
    objective: Any = field(default=None, kw_only=True)
    outputs: Callable[[Any], Any] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_dataset(self.dataset)
        object.__setattr__(self, "objective", objective_of(self.objective, self.dataset))
        check_model(self.model, self.dataset, 0, self.objective, self.outputs)
        object.__setattr__(self, "epochs", check_whole("epochs", self.epochs, 1))
        Sgd(check_number("learning_rate", self.learning_rate))
        shards = dict(zip(self.problem.owners, self.shards(0), strict=True))
        cluster = self.problem.cluster
        nodes = tuple(
            replace(node, samples=len(shards[at])) if at in shards else node
            for at, node in enumerate(cluster.nodes)
        )
        cluster = replace(cluster, nodes=nodes)
        problem = replace(self.problem, cluster=cluster, epochs=self.epochs)
        object.__setattr__(self, "problem", problem)

    @property
    def samples(self) -> int:
        """Training samples that all nodes together hold."""
        return len(self.dataset.y_train)

    def shards(self, seed: int) -> tuple[NDArray[np.int64], ...]:
        """Indices of each data owner's training samples; the same in all methods for a seed."""
        labels, owners = self.dataset.y_train, self.problem.owners
        if len(labels) < len(owners):
            raise UserError(
                f"{len(owners)} nodes cannot share {len(labels)} samples; use more samples"
            )
        if self.alpha is not None:
            return partition.dirichlet(labels, len(owners), self.alpha, seed=seed)
        counts = [self.problem.cluster.nodes[node].samples or 1 for node in owners]
        return partition.by_size(labels, counts, seed=seed)

    def sgd(self, workers: float = 1) -> Sgd:
        """SGD on the mean gradient of several workers' batches, with the noise of one worker's.

        The noise of a step stays the same if the learning rate grows with the square root of the
        workers (Krizhevsky 2014, Sec. 3.2). A rate in proportion to the workers diverges without a
        warm-up (Goyal et al. 2017, Sec. 2.2), which exchanges of gradients among peers lack.
        """
        return Sgd(self.learning_rate * math.sqrt(workers))


def data_for(
    model: str | torch.nn.Module, inputs: Sequence[Input] | None, data: str | None, samples: int
) -> tuple[str, Dataset]:
    """Return the name of a data set and this many of its samples, with a quarter as many to test.

    The default is a data set that the model takes: `markov` for texts, else `digits`.
    """
    check_whole("samples", samples, 1)
    first, *others = inputs_of(model, inputs)
    is_text = not others and first.dtype == "int64" and len(first.shape) == 1
    name = data or ("markov" if is_text else "digits")
    if name == "markov" and is_text:
        dataset = datasets.markov.load(length=first.shape[0])
    else:
        dataset = datasets.load(name)
    dataset = dataset.limit(samples, max(1, samples // 4))
    shapes = [value.shape for value in inputs or dataset.inputs]
    if not others and len(first.shape) == 3:
        dataset = dataset.fitted(first.shape)
    elif shapes != [value.shape for value in dataset.inputs]:
        raise UserError(
            f"{name} has {', '.join(map(str, dataset.inputs))} a sample, and --inputs is "
            f"{', '.join(map(str, inputs or ()))}; give both alike"
        )
    check_model(model, dataset, 0, objective_of(None, dataset))
    return name, dataset
