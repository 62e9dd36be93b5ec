"""What to train on device, edge and cloud."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING

from workbench import training
from workbench.datasets.checks import check_dataset
from workbench.hiertrain.cluster import SHARING
from workbench.hiertrain.problem import Problem
from workbench.names import check_name, choose
from workbench.zoo import MODELS

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from workbench.datasets import Dataset


@dataclass(frozen=True)
class Setup:
    """A training run on device, edge and cloud.

    Attributes
    ----------
    model
        Name in the zoo; or a module of one's own, or a function that makes it.
    dataset
        Fitted to the model's input; a model of the zoo gets as many outputs as it has classes.
    problem
        Machines, links and batch; of as many layers as the model.
    sharing
        Whether messages share the machines' interfaces; see `cluster_of`.
    epochs
        How often all samples are learnt from; those that fill no batch are left out, others each
        time.
    iterations
        Stop after so many instead; what is begun of an epoch then counts as one.
    sgd
        How every tier steps.
    seed
        Of weights, batches and whatever the model draws.

    Raises
    ------
    ValueError
        Numbers out of range, an unknown model, a dataset that is none, whose images the model does
        not take, or that is smaller than a batch.
    """

    model: str | torch.nn.Module | Callable[[], torch.nn.Module]
    dataset: Dataset
    problem: Problem
    sharing: str = "none"
    epochs: int = 1
    iterations: int | None = None
    sgd: training.Sgd = field(default_factory=lambda: training.Sgd(0.02, momentum=0.9))
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("iterations", 1), ("seed", 0)):
            count = getattr(self, name)
            if name == "iterations" and count is None:
                continue
            if isinstance(count, bool) or not isinstance(count, int) or count < least:
                raise ValueError(
                    f"{name} is {count!r}; it must be a whole number of at least {least}"
                )
        check_name("sharing", self.sharing, SHARING)
        named = choose("model", self.model, MODELS) if isinstance(self.model, str) else None
        if named is None:
            check_dataset(self.dataset)
        else:
            check_dataset(self.dataset, named.name, named.input_shape)
        samples = len(self.dataset.y_train)
        if samples < self.problem.batch:
            raise ValueError(
                f"{self.dataset.name} has {samples} training samples, less than one batch of "
                f"{self.problem.batch}; use more samples or a problem of a smaller batch"
            )

    @property
    def epoch_ends(self) -> tuple[int, ...]:
        """Last iteration of each epoch, from 0."""
        per_epoch = len(self.dataset.y_train) // self.problem.batch
        ends = accumulate([per_epoch] * self._epochs)
        return tuple(min(end, self.iterations or end) - 1 for end in ends)

    @property
    def batches(self) -> list[NDArray[np.int64]]:
        """Indices of the samples of each iteration."""
        drawn = (
            training.batches(self.dataset, self.problem.batch, self.seed, epoch)
            for epoch in range(self._epochs)
        )
        whole = (one for one in chain.from_iterable(drawn) if len(one) == self.problem.batch)
        return list(islice(whole, self.epoch_ends[-1] + 1))

    def made(self) -> torch.nn.Module:
        """The model with its first weights."""
        if isinstance(self.model, str):
            classes = len(self.dataset.classes)
            return training.initialise(self.model, self.seed, classes=classes)
        return training.initialise(self.model, self.seed)

    @property
    def _epochs(self) -> int:
        per_epoch = len(self.dataset.y_train) // self.problem.batch
        return self.epochs if self.iterations is None else -(-self.iterations // per_epoch)
