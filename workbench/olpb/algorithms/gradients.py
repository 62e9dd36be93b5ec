"""Gradients of a module by a parallel scan over its Jacobians, exact for any graph.

OLPB (Sec. IV) states the scan over groups of operators, BPPSA over layers: of [dL/dx_n, J_n^T, …,
J_1^T] with (a, b) -> b a, an exclusive scan gives the gradient at the end of every group. From it
every group finds the gradients of its own parameters, at the same time as the others.

Deviation: the paper's primitive multiplies what meets between two sets of operators, which is the
Jacobian of a group only where no edge skips a level. Here a boundary has all values that are alive,
and edges that skip pass through as identities; so branches, skips and parameters used twice are
exact.

The Jacobian of a group is that of the function which it is from boundary to boundary, by
`torch.func.vjp` row by row; zeros are not kept. So it takes a product for every number alive at the
end of a group.

The paper counts applications of the operator as if they cost the same. But a scan multiplies
Jacobians with one another, where back-propagation multiplies one with a gradient: `flops` and
`critical_flops` count it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from workbench.graphs.recording import learning
from workbench.olpb.algorithms.levels import UNITS, Group, groups
from workbench.olpb.algorithms.schedules import ALGORITHMS, run, schedule
from workbench.olpb.algorithms.tape import Loss, Samples, Tape, name_of, record
from workbench.utils.checks import UserError, check_name, check_whole

Element: TypeAlias = csr_array | NDArray[np.float64]
"""Of the scan: a transposed Jacobian, or a gradient."""

AT_ONCE = 2**22
"""Entries of a group's Jacobian that are computed in one call."""
MOST_ENTRIES = 2**33
"""Entries of a group's largest Jacobian; zeros are computed, though not kept, so they count."""


@dataclass(frozen=True)
class ScanGroup:
    """Operators of one group by name, numbers alive at its end, and entries of its Jacobian."""

    operators: tuple[str, ...]
    boundary: int
    nonzeros: int


@dataclass(frozen=True, eq=False)
class ScanGradients(Mapping[str, torch.Tensor]):
    """Gradients by parameter, as a mapping, and what the scan took.

    They are in double precision; a parameter that the loss does not depend on has none. Messages
    are matrices in CSR and gradients as doubles; each node has the Jacobians of its own groups.
    """

    gradients: dict[str, torch.Tensor]
    loss: float
    steps: int  # S: products of two elements, one after the other
    work: int  # W: in all
    flops: int  # of those products
    critical_flops: int  # of the dearest of each step
    bytes_sent: int  # from node to node
    groups: tuple[ScanGroup, ...]  # from input to loss

    def __getitem__(self, parameter: str) -> torch.Tensor:
        if parameter not in self.gradients:
            raise KeyError(f"no gradient of {parameter!r}; there are {', '.join(self.gradients)}")
        return self.gradients[parameter]

    def __iter__(self) -> Iterator[str]:
        return iter(self.gradients)

    def __len__(self) -> int:
        return len(self.gradients)


def scan_gradients(
    module: torch.nn.Module,
    x: Samples,
    y: torch.Tensor,
    unit: str = "operator",
    *,
    level: int = 2,
    scan: str = "hillis_steele",
    nodes: int | None = None,
    loss: Loss | None = None,
) -> ScanGradients:
    """Gradients of a module's loss on a batch, in the mode that the module is in.

    Neither the module nor its buffers are changed.

    Parameters
    ----------
    x, y
        A batch, of inputs in their order or by name if there are several, and what is to be found.
    unit, level
        What starts a level, ``"operator"`` or ``"matrix_layer"``; and l, levels in a group.
    scan
        A name in `ALGORITHMS`.
    nodes
        b; by default one for each element of the scan: the loss and every group.
    loss
        Of what the module returns, and `y`. By default cross entropy for whole numbers, mean
        squared errors for others.

    Raises
    ------
    UserError
        A module without parameters, in half precision or with a gradient of its own, a `y` that
        does not fit, or a loss that is not finite.
    """
    check_name("scan", scan, ALGORITHMS)
    check_name("unit", unit, UNITS)
    check_whole("level", level, 1)
    if nodes is not None:
        check_whole("nodes", nodes, 1)
    tape = record(module, x, y, loss)
    parts = groups(tape.flow, unit, level)
    passes = group_passes(tape, parts)
    jacobians = [own.jacobian() for own in passes]
    elements: list[Element] = [np.ones(1), *jacobians]  # the loss's gradient first
    planned = schedule(scan, len(elements), nodes, exclusive=True)
    scanned = run(
        planned, elements, _combined, np.ones(0), flops=_combined_flops, size_bytes=size_bytes
    )
    gradients = dict[str, torch.Tensor]()
    for element, own in enumerate(passes, 1):
        at_end = np.asarray(scanned.results[element])
        for name, gradient in own.parameter_gradients(at_end).items():
            gradients[name] = gradients[name] + gradient if name in gradients else gradient
    return ScanGradients(
        {name: gradients[name] for name in tape.parameters.values() if name in gradients},
        tape.loss,
        scanned.steps,
        scanned.work,
        scanned.flops,
        scanned.critical_flops,
        scanned.bytes_sent,
        tuple(
            ScanGroup(
                tuple(name_of(tape.calls[at]) for at in part.operators),
                jacobian.shape[1],
                jacobian.nnz,
            )
            for part, jacobian in zip(parts, reversed(jacobians), strict=True)
        ),
    )


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
        if not self._reads:
            return csr_array(shape)
        at_end, at_start = (_places(shapes, self._samples) for shapes in (self._ends, self._reads))
        entries, rows, columns = [], [], []
        for own in np.array_split(at_end, -(-at_end.size * self._height // AT_ONCE), axis=1):
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
        by_sample = [one.double().reshape(len(seeds), samples, -1) for one in gradients]
        return torch.cat(by_sample, 2).numpy()

    def _independent_samples(self) -> int:
        """Samples of which none depends on another; 1 where any does, or values are not by sample.

        A drawn gradient of one sample that reaches no other shows that a block of zeros is there.
        """
        sizes = {shape[0] if shape else 1 for shape in (*self._ends, *self._reads)}
        if not self._reads or len(sizes) > 1:
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
    each = [
        np.arange(start, start + shape.numel(), dtype=np.int32).reshape(samples, -1)
        for start, shape in zip(starts, shapes, strict=False)
    ]
    return np.concatenate(each, axis=1)


def _combined(earlier: Element, later: Element) -> Element:
    """The operator: the later Jacobian applied to what precedes it."""
    return later @ earlier


def _combined_flops(earlier: Element, later: Element) -> int:
    assert isinstance(later, csr_array)
    if isinstance(earlier, np.ndarray):
        return int(2 * later.nnz)
    return product_flops(later, earlier)


def size_bytes(element: Element) -> int:
    """To send: a matrix in CSR, a gradient as doubles."""
    if isinstance(element, np.ndarray):
        return int(element.nbytes)
    return int(element.data.nbytes + element.indices.nbytes + element.indptr.nbytes)


def product_flops(left: csr_array, right: csr_array) -> int:
    """Floating-point operations of a sparse product: two for each pair of entries that meet."""
    in_columns = np.bincount(left.indices, minlength=left.shape[1])
    return int(2 * in_columns @ np.diff(right.indptr))
