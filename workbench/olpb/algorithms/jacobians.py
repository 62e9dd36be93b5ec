"""Jacobians of groups of a recorded pass, sparse, and the operator that combines them.

The Jacobian of a group is that of the function which it is from boundary to boundary, by
`torch.func.vjp` row by row, of all samples at once where they do not depend on each other; zeros
are not kept.

Deviation: the paper's primitive multiplies what meets between two sets of operators, which is the
Jacobian of a group only where no edge skips a level. Here a boundary has all values that are alive,
and edges that skip pass through as identities; so branches, skips and parameters used twice are
exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from workbench.olpb.algorithms.levels import Group
from workbench.olpb.algorithms.tape import Tape, name_of
from workbench.profiles.recording import learning
from workbench.utils.checks import UserError

Element: TypeAlias = csr_array | NDArray[np.float64]
"""An element of the scan: a transposed Jacobian, or a gradient."""

AT_ONCE = 2**22
"""Entries of a group's Jacobian that are computed in one call."""
MOST_ENTRIES = 2**33
"""Entries of a group's largest Jacobian; zeros are computed, though not kept, so they count."""


def group_passes(tape: Tape, parts: Sequence[Group]) -> list[GroupPass]:
    """Groups of a tape, from the loss to the input, ready to be differentiated."""
    befores = [(), *(part.boundary for part in parts[:-1])]
    return [GroupPass(tape, *ends) for ends in zip(parts, befores, strict=True)][::-1]


class GroupPass:
    """A group as a function of the boundary before it and of its parameters, and its gradients.

    Where no sample's numbers depend on another's, as in any network that does not normalise over
    the batch, the Jacobian is a block for each sample, and a product with a gradient finds a row of
    all blocks: as many products are needed as a sample has numbers at the group's end.
    """

    def __init__(self, tape: Tape, group: Group, before: Sequence[int]) -> None:
        reads = [tape.nodes[place] for place in before]
        learnt = tape.parameters_of(group.operators)
        ends = [tape.nodes[place] for place in group.boundary]
        self._names = [tape.parameters[node] for node in learnt]
        self._ends, self._reads = (
            [tape.numbers[node].shape for node in nodes] for nodes in (ends, reads)
        )
        self._width, self._height = (
            sum(shape.numel() for shape in shapes) for shapes in (self._ends, self._reads)
        )

        def forward(*numbers: torch.Tensor) -> torch.Tensor:
            known = dict(zip([*reads, *learnt], numbers, strict=True))
            made = tape.run(group.operators, known)
            return torch.cat([made[end].double().reshape(-1) for end in ends])

        with learning():
            _, self._backward = torch.func.vjp(  # type: ignore[misc]
                forward, *(tape.numbers[node] for node in (*reads, *learnt))
            )
        self._samples = self._independent_samples()
        if self._width * self._height // self._samples > MOST_ENTRIES:
            calls = ", ".join(name_of(tape.calls[at]) for at in group.operators)
            raise UserError(
                f"the Jacobian of a group ({calls}) is of {self._width:,} numbers by "
                f"{self._height:,}; at most {MOST_ENTRIES:,} entries are computed: give a smaller "
                "batch or smaller inputs"
            )

    def jacobian(self) -> csr_array:
        """J^T, from the gradient at the group's end to that at the boundary before."""
        shape = self._height, self._width
        if not (self._height and self._width):
            return csr_array(shape)
        at_end, at_start = (_places(shapes, self._samples) for shapes in (self._ends, self._reads))
        at_once = max(1, AT_ONCE // max(self._height, self._width))
        entries, rows, columns = [], [], []
        for first in range(0, at_end.shape[1], at_once):
            own = at_end[:, first : first + at_once]
            seeds = torch.zeros(own.shape[1], self._width).double()
            seeds.scatter_(1, torch.from_numpy(own.T).long(), 1.0)
            products = self._products(seeds, self._samples)
            seed, sample, number = products.nonzero()
            entries.append(products[seed, sample, number])
            rows.append(at_start[sample, number])
            columns.append(own[sample, seed])
        places = np.concatenate(rows), np.concatenate(columns)
        return csr_array((np.concatenate(entries), places), shape=shape)

    def _products(self, seeds: torch.Tensor, samples: int) -> NDArray[np.float64]:
        """Gradients at the boundary before from those at the end; axes: seed, sample, number."""
        gradients = torch.func.vmap(self._backward)(seeds)[: len(self._reads)]
        by_sample = [
            gradient.double().reshape(len(seeds), samples, shape.numel() // samples)
            for gradient, shape in zip(gradients, self._reads, strict=True)
        ]
        return torch.cat(by_sample, 2).numpy()

    def _independent_samples(self) -> int:
        """Count of samples of which none depends on another; 1 where any does.

        A drawn gradient of one sample that reaches no other shows that a block of zeros is there.
        """
        sizes = {shape[0] if shape else 1 for shape in (*self._ends, *self._reads)}
        if not self._reads or len(sizes) > 1 or 0 in sizes:
            return 1
        (samples,), random = sizes, torch.Generator().manual_seed(0)
        for sample, places in enumerate(_places(self._ends, samples)):
            seed = torch.zeros(1, self._width).double()
            seed[0, torch.from_numpy(places)] = torch.rand(len(places), generator=random).double()
            if np.delete(self._products(seed, samples), sample, axis=1).any():
                return 1
        return samples

    def parameter_gradients(self, at_end: NDArray[np.float64]) -> dict[str, torch.Tensor]:
        """Gradients of the group's parameters from that at its end."""
        gradients = self._backward(torch.from_numpy(at_end))[len(self._reads) :]
        return dict(zip(self._names, gradients, strict=True))


def _places(shapes: Sequence[torch.Size], samples: int) -> NDArray[np.int32]:
    """Places of numbers where values stand one after the other; axes: sample, number."""
    starts = accumulate((shape.numel() for shape in shapes), initial=0)
    values = [
        np.arange(start, start + shape.numel(), dtype=np.int32).reshape(
            samples, shape.numel() // samples
        )
        for start, shape in zip(starts, shapes, strict=False)
    ]
    return np.concatenate(values, axis=1)


def combine(earlier: Element, later: Element) -> Element:
    """Apply the operator ι: the later Jacobian times what precedes it."""
    return later @ earlier


def combine_flops(earlier: Element, later: Element) -> int:
    """Floating-point operations of `combine`: two for each pair of entries that meet."""
    assert isinstance(later, csr_array)
    if isinstance(earlier, np.ndarray):
        return int(2 * later.nnz)
    in_columns = np.bincount(later.indices, minlength=later.shape[1])
    return int(2 * in_columns @ np.diff(earlier.indptr))


def size_bytes(element: Element) -> int:
    """Bytes of an element as a message: a matrix in CSR, or a gradient as doubles."""
    if isinstance(element, np.ndarray):
        return int(element.nbytes)
    return int(element.data.nbytes + element.indices.nbytes + element.indptr.nbytes)
