"""Gradients of a module by a parallel scan over its Jacobians, exact for any graph.

OLPB (Sec. IV) states the scan over groups of operators, BPPSA over layers: of [dL/dx_n, J_n^T, …,
J_1^T] with (a, b) -> b a, an exclusive scan gives the gradient at the end of every group. From it
every group finds the gradients of its own parameters, at the same time as the others.

Deviation: the paper's primitive multiplies what meets between two sets of operators, which is the
Jacobian of a group only where no edge skips a level. Here a boundary has all values that are alive,
and edges that skip pass through as identities; so branches, skips and parameters used twice are
exact.

The paper counts applications of the operator as if they cost the same. They do not:
back-propagation multiplies a Jacobian with a gradient, a scan Jacobians with one another. With H
numbers alive at dense boundaries that is H times as much, so about H nodes are needed to be as fast
as one, and wide convolutional networks never are. `flops`, `critical_flops` and `jacobian_flops`
count it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from workbench.checks import check_whole
from workbench.names import check_name
from workbench.olpb.algorithms import local_scan
from workbench.olpb.algorithms.boundaries import (
    group_jacobian,
    parameter_gradients,
    product_flops,
    sums_by_storage,
)
from workbench.olpb.algorithms.levels import UNITS, groups
from workbench.olpb.algorithms.schedules import ALGORITHMS, schedule
from workbench.olpb.algorithms.tape import Tape, places
from workbench.olpb.algorithms.tape_recorder import Loss, record

if TYPE_CHECKING:
    import torch

Element: TypeAlias = "csr_array | NDArray[np.float64]"
"""Of the scan: a transposed Jacobian, or a gradient."""


@dataclass(frozen=True)
class ScanGroup:
    """Operators of one group by name, numbers alive at its end, and entries of its Jacobian."""

    operators: tuple[str, ...]
    boundary: int
    nonzeros: int


@dataclass(frozen=True, eq=False)
class ScanGradients(Mapping[str, "torch.Tensor"]):
    """What a scan found, and what it took; a mapping of the gradients by parameter.

    Attributes
    ----------
    gradients
        By name, in double precision; a parameter that the loss does not depend on has none.
    steps, work
        S and W: products of two elements, one after the other and in all.
    flops, critical_flops
        Of those products: of all, and of the dearest of each step.
    jacobian_flops
        To multiply the operators' Jacobians together within groups, which nodes do apart.
    bytes_sent
        From node to node: matrices in CSR, gradients as doubles. Each node has the Jacobians of its
        own groups.
    groups
        From input to loss.
    """

    gradients: dict[str, torch.Tensor]
    loss: float
    steps: int
    work: int
    flops: int
    critical_flops: int
    jacobian_flops: int
    bytes_sent: int
    groups: tuple[ScanGroup, ...]

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
    x: torch.Tensor | Sequence[torch.Tensor],
    y: torch.Tensor,
    unit: str = "operator",
    *,
    level: int = 2,
    scan: str = "hillis_steele",
    nodes: int | None = None,
    loss: Loss | None = None,
) -> ScanGradients:
    """Gradients of a module's loss on a batch, in the mode that the module is in.

    Neither the module nor its buffers are changed. An operator without a closed form has its
    Jacobian column by column, which is slow.

    Parameters
    ----------
    x, y
        A batch, of inputs if there are several, and what is to be found.
    unit
        ``"operator"``, or ``"layer"``: what starts a level.
    level
        l: levels in a group.
    scan
        A name in `ALGORITHMS`.
    nodes
        b; by default one for each element of the scan: the loss and every group.
    loss
        Of what the module returns, and `y`. By default cross entropy for whole numbers, mean
        squared errors for others.

    Raises
    ------
    UntraceableError
        A gradient of the module's own.
    ValueError
        A module without parameters or in half precision, an unknown unit or scan, level or nodes
        below 1, a `y` that does not fit, or a loss that is not finite.
    """
    check_name("scan", scan, ALGORITHMS)
    check_name("unit", unit, UNITS)
    check_whole("level", level, 1)
    if nodes is not None:
        check_whole("nodes", nodes, 1)
    tape = record(module, x, y, loss)
    parts = groups(tape.flow, unit, level)
    befores = [(), *(part.boundary for part in parts[:-1])]
    pairs = [group_jacobian(tape, one, before) for one, before in zip(parts, befores, strict=True)]
    elements = [_of_loss(tape), *(jacobian for jacobian, _ in reversed(pairs))]
    planned = schedule(scan, len(elements), nodes, exclusive=True)
    found = local_scan.run(
        planned, elements, _combined, np.ones(0), flops=_combined_flops, size_bytes=_size_bytes
    )
    each = [  # from the input on; element e is of the e-th group from the end
        parameter_gradients(tape, parts[-element], np.asarray(found.results[element]))
        for element in range(len(parts), 0, -1)
    ]
    return ScanGradients(
        sums_by_storage(tape, each),
        tape.loss,
        found.steps,
        found.work,
        found.flops,
        found.critical_flops,
        sum(flops for _, flops in pairs),
        found.bytes_sent,
        tuple(
            ScanGroup(
                tuple(tape.calls[at].name for at in part.operators), jacobian.shape[1], jacobian.nnz
            )
            for part, (jacobian, _) in zip(parts, pairs, strict=True)
        ),
    )


def _of_loss(tape: Tape) -> NDArray[np.float64]:
    """One where the loss is: its storage may be larger."""
    (view,) = tape.graph.outputs
    found = np.zeros(tape.sizes[view.value])
    found[places(view)] = 1
    return found


def _combined(earlier: Element, later: Element) -> Element:
    """The operator: the later Jacobian applied to what precedes it."""
    found: Element = later @ earlier
    return found


def _combined_flops(earlier: Element, later: Element) -> int:
    assert isinstance(later, csr_array)
    if isinstance(earlier, np.ndarray):
        return int(2 * later.nnz)
    return product_flops(later, earlier)


def _size_bytes(element: Element) -> int:
    """To send: a matrix in CSR, a gradient as doubles."""
    if isinstance(element, np.ndarray):
        return int(element.nbytes)
    return int(element.data.nbytes + element.indices.nbytes + element.indptr.nbytes)
