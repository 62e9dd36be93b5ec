"""A training with HierTrain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench import training
from workbench.hiertrain.costs.problem import Problem, check_problem
from workbench.hiertrain.programs.cluster import SHARING, cluster_of
from workbench.names import check_name

if TYPE_CHECKING:
    from workbench.clusters import Cluster


@dataclass(frozen=True)
class Setup(training.WholeBatches):
    """A training on device, edge and cloud.

    Attributes
    ----------
    model, dataset, sgd, seed, epochs, iterations
        As for `workbench.training.WholeBatches`.
    problem
        Machines, links and batch; of as many layers as the model.
    sharing
        Whether messages share the machines' interfaces; see `cluster_of`.

    Raises
    ------
    ValueError
        What no training takes; iterations out of range, or a dataset smaller than a batch.
    TypeError
        No `Problem`.
    """

    problem: Problem
    sharing: str = "none"

    in_own_type = True

    def __post_init__(self) -> None:
        check_problem(self.problem)
        super().__post_init__()
        check_name("sharing", self.sharing, SHARING)

    @property
    def samples_per_batch(self) -> int:
        """Of the problem."""
        return self.problem.batch

    @property
    def cluster(self) -> Cluster:
        """Device, edge and cloud."""
        return cluster_of(self.problem, self.sharing)
