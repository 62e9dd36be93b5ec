"""Mixing matrices: the weights of all models in an exchange."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from workbench.utils.checks import UserError

TOLERANCE = 1e-9  # for sums of weights, far above their rounding and far below what matters


class MixingError(UserError):
    """A matrix that does not mix: averages would drift, or a model would leave their range."""


@dataclass(frozen=True, eq=False)
class Mixing:
    """Weights of an exchange: node i's next model is ``sum_j matrix[i, j] * model_j``.

    The matrix is doubly stochastic, or a MixingError is raised. Rows that sum to 1 make every model
    an average; columns that do keep the mean of all models what it is.
    """

    matrix: NDArray[np.float64]  # n x n, not negative; cannot be written to

    def __post_init__(self) -> None:
        matrix = _real(self.matrix)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
            raise MixingError(
                f"a mixing matrix has a row and a column for each node, not shape {matrix.shape}"
            )
        wrong = np.argwhere(~(np.isfinite(matrix) & (matrix >= 0)))
        if len(wrong):
            i, j = wrong[0]
            raise MixingError(
                f"node {i} would take {matrix[i, j]:g} of node {j}'s model; weights are finite "
                "and not negative"
            )
        for axis, what in (
            (1, "the weights that node {} takes of all models"),
            (0, "the weights that all nodes take of node {}'s model"),
        ):
            sums = matrix.sum(axis)
            off = np.flatnonzero(np.abs(sums - 1) > TOLERANCE)
            if len(off):
                raise MixingError(
                    f"{what.format(off[0])} sum to {sums[off[0]]:.6g}, not to 1, so the mean of "
                    "all models would not be kept. metropolis_hastings(graph) makes weights that "
                    "do"
                )
        matrix.flags.writeable = False
        object.__setattr__(self, "matrix", matrix)

    def __len__(self) -> int:
        return len(self.matrix)

    @cached_property
    def spectral_gap(self) -> float:
        """One less the second largest singular value, from 0 to 1.

        It is 0 if the nodes fall into parts, and 1 if one exchange makes all models equal.

        An exchange multiplies the models' root-mean-square distance from their mean by at most
        ``1 - spectral_gap``.
        """
        spread = np.linalg.norm(self.matrix - 1 / len(self), 2)
        return float(np.clip(1 - spread, 0, 1))

    def sources(self, node: int) -> tuple[int, ...]:
        """Peers whose models a node takes something of, ascending."""
        return tuple(j for j in np.flatnonzero(self.matrix[node]).tolist() if j != node)

    def targets(self, node: int) -> tuple[int, ...]:
        """Peers that take something of a node's model, ascending."""
        return tuple(j for j in np.flatnonzero(self.matrix[:, node]).tolist() if j != node)

    def weights(self, node: int, heard: Collection[int]) -> dict[int, float]:
        """Weights of a node's own model and of the peers' models that it has, by node, ascending.

        The weights of silent peers are shared out among these in proportion, so that the result
        stays an average; the mean of all models then moves a little. A node without any weight
        keeps its own model.
        """
        row = self.matrix[node]
        own = {j: float(row[j]) for j in sorted({node, *heard}) if row[j] > 0}
        if set(self.sources(node)) <= own.keys():
            return own
        total = sum(own.values())
        return {j: weight / total for j, weight in own.items()} if total else {node: 1.0}


def as_mixing(mixing: object) -> Mixing:
    """Return a `Mixing` as it is, one of a matrix, or of a graph by `metropolis_hastings`."""
    if isinstance(mixing, Mixing):
        return mixing
    if isinstance(mixing, nx.Graph):
        return metropolis_hastings(mixing)
    if isinstance(mixing, np.ndarray | list | tuple):
        return Mixing(mixing)  # type: ignore[arg-type]
    raise MixingError(
        f"mixing is {mixing!r}; give a Mixing, a doubly stochastic matrix, or a graph such as "
        "decentralised.ring(8)"
    )


def metropolis_hastings(graph: nx.Graph) -> Mixing:
    """Weights from degrees alone: ``1 / (1 + max(degree_i, degree_j))`` for each pair of peers.

    Each node keeps the rest of its own (Xiao, Boyd and Kim 2007, Sec. 2). The graph is undirected,
    of nodes 0 to n-1, without loops; another is refused with a MixingError.
    """
    if not isinstance(graph, nx.Graph):
        raise MixingError(
            f"{graph!r} is not a networkx graph; give one, such as decentralised.ring(8)"
        )
    count = len(graph)
    if set(graph.nodes) != set(range(count)) or graph.is_directed() or not count:
        raise MixingError(
            f"the graph has nodes {sorted(map(str, graph.nodes))[:4]}...; give an undirected one "
            "of nodes 0 to n-1, such as decentralised.ring(8)"
        )
    matrix = np.zeros((count, count))
    for i, j in graph.edges:
        if i == j:
            raise MixingError(f"node {i} is its own peer; leave the loop out")
        matrix[i, j] = matrix[j, i] = 1 / (1 + max(graph.degree[i], graph.degree[j]))
    matrix[np.diag_indices(count)] = 1 - matrix.sum(1)
    return Mixing(np.maximum(matrix, 0))  # 1 - sum may round to just below 0


def _real(weights: ArrayLike) -> NDArray[np.float64]:
    try:
        matrix = np.array(weights)
    except ValueError:  # of rows that differ in length
        matrix = np.array(None)
    if matrix.dtype.kind not in "biuf":
        raise MixingError(
            f"the mixing matrix is {weights!r}; give rows of equal length, a real number from 0 to "
            "1 for each node"
        )
    return matrix.astype(np.float64)
