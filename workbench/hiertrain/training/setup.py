"""A training with HierTrain."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING

from workbench import training
from workbench.hiertrain.costs.problem import Problem, check_problem
from workbench.hiertrain.programs.cluster import SHARING, cluster_of
from workbench.names import check_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from workbench.clusters import Cluster


@dataclass(frozen=True)
class Setup(training.Setup):
    """A training on device, edge and cloud.

    Attributes
    ----------
    model, dataset, sgd, seed
        As for `workbench.training.Setup`.
    problem
        Machines, links and batch; of as many layers as the model.
    sharing
        Whether messages share the machines' interfaces; see `cluster_of`.
    epochs
        Passes over the samples; those that fill no batch are left out, others each time.
    iterations
        Stop after so many instead; what is begun of an epoch then counts as one.

    Raises
    ------
    ValueError
        What no training takes; iterations out of range, or a dataset smaller than a batch.
    TypeError
        No `Problem`.
    """

    problem: Problem
    sharing: str = "none"
    iterations: int | None = None

    in_own_type = True

    def __post_init__(self) -> None:
        check_problem(self.problem)
        super().__post_init__()
        check_name("sharing", self.sharing, SHARING)
        if self.iterations is not None:
            self._check_counts(iterations=1)
        samples = len(self.dataset.y_train)
        if samples < self.problem.batch:
            raise ValueError(
                f"{self.dataset.name} has {samples} training samples, less than one batch of "
                f"{self.problem.batch}; use more samples or a problem of a smaller batch"
            )

    @property
    def epoch_ends(self) -> tuple[int, ...]:
        """Iterations up to the end of each epoch."""
        per_epoch = len(self.dataset.y_train) // self.problem.batch
        ends = accumulate([per_epoch] * self._epochs)
        return tuple(min(end, self.iterations or end) for end in ends)

    @property
    def batches(self) -> list[NDArray[np.int64]]:
        """Indices of each iteration's samples."""
        drawn = (
            training.batches(self.dataset, self.problem.batch, self.seed, epoch)
            for epoch in range(self._epochs)
        )
        whole = (one for one in chain.from_iterable(drawn) if len(one) == self.problem.batch)
        return list(islice(whole, self.epoch_ends[-1]))

    @property
    def cluster(self) -> Cluster:
        """Device, edge and cloud."""
        return cluster_of(self.problem, self.sharing)

    @property
    def _epochs(self) -> int:
        per_epoch = len(self.dataset.y_train) // self.problem.batch
        return self.epochs if self.iterations is None else -(-self.iterations // per_epoch)
