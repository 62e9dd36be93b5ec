"""What to train on device, edge and cloud."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING

from workbench import training
from workbench.clusters.checks import check_kind, check_whole
from workbench.hiertrain.costs.problem import Problem, check_problem
from workbench.hiertrain.programs.cluster import SHARING
from workbench.names import check_name
from workbench.training.models import check_model, make_model

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from workbench.datasets import Dataset
    from workbench.training.models import Model


@dataclass(frozen=True)
class Setup:
    """A training run on device, edge and cloud.

    Attributes
    ----------
    model
        Name in the zoo; or a module of one's own, which is copied and its weights drawn anew, or a
        function that makes it. Tried on a sample, without learning.
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
        not take, or that is smaller than a batch, a model with fewer outputs than classes.
    TypeError
        No `Problem`.
    """

    model: Model
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
            object.__setattr__(self, name, check_whole(name, count, least))
        check_name("sharing", self.sharing, SHARING)
        check_problem(self.problem)
        if not isinstance(self.sgd, training.Sgd):
            raise ValueError(f"sgd is {self.sgd!r}; give a training.Sgd, such as Sgd(0.02)")
        check_model(self.model, self.dataset, self.seed, in_own_type=True)
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
        """The model with its first weights, a new one each time."""
        return make_model(self.model, self.dataset, self.seed)

    @property
    def _epochs(self) -> int:
        per_epoch = len(self.dataset.y_train) // self.problem.batch
        return self.epochs if self.iterations is None else -(-self.iterations // per_epoch)


def check_setup(given: object) -> Setup:
    """Return a set-up as it is.

    Raises
    ------
    TypeError
        It is none, such as the name of a model.
    """
    instead = "a Setup, such as Setup('lenet5', dataset, problem)"
    return check_kind("setup", given, Setup, instead)
