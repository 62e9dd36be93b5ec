"""Gradients of a module by a parallel scan over its Jacobians, exact for any graph.

OLPB (Sec. IV) states the scan over groups of operators, BPPSA over layers: of [dL/dx_n, J_n^T, …,
J_1^T] with (a, b) -> b a, an exclusive scan gives the gradient at the end of every group. From it
every group finds the gradients of its own parameters, at the same time as the others.

Deviation: the paper's primitive multiplies what meets between two sets of operators, which is the
Jacobian of a group only where no edge skips a level. Here a boundary has all values that are alive,
and edges that skip pass through as identities; so branches, skips and parameters used twice are
exact.

From boundary to boundary a group acts on the storages of the values alive there, one after the
other. A view, however it slices, transposes or expands, is a choice of places in a storage.

The paper counts applications of the operator as if they cost the same. But a scan multiplies
Jacobians with one another, where back-propagation multiplies one with a gradient: `flops`,
`critical_flops` and `jacobian_flops` count it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, eye_array, vstack

from workbench.graphs.graph import View
from workbench.olpb.algorithms.jacobians import from_entries, transposed_jacobian
from workbench.olpb.algorithms.levels import UNITS, Group, groups
from workbench.olpb.algorithms.schedules import ALGORITHMS, run, schedule
from workbench.olpb.algorithms.tape import Loss, Samples, Tape, places, record
from workbench.utils.checks import check_name, check_whole

Element: TypeAlias = csr_array | NDArray[np.float64]
"""Of the scan: a transposed Jacobian, or a gradient."""


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
    jacobian_flops: int  # of the operators' Jacobians within groups, which nodes multiply apart
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

    Neither the module nor its buffers are changed. An operator without a closed form has its
    Jacobian column by column, which is slow.

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
    befores = [(), *(part.boundary for part in parts[:-1])]
    pairs = [group_jacobian(tape, *ends) for ends in zip(parts, befores, strict=True)]
    elements = [_of_loss(tape), *(jacobian for jacobian, _ in reversed(pairs))]
    planned = schedule(scan, len(elements), nodes, exclusive=True)
    scanned = run(
        planned, elements, _combined, np.ones(0), flops=_combined_flops, size_bytes=_size_bytes
    )
    each = [  # from the input on; element e is of the e-th group from the end
        parameter_gradients(tape, parts[-element], np.asarray(scanned.results[element]))
        for element in range(len(parts), 0, -1)
    ]
    return ScanGradients(
        sums_by_parameter(tape, each),
        tape.loss,
        scanned.steps,
        scanned.work,
        scanned.flops,
        scanned.critical_flops,
        sum(flops for _, flops in pairs),
        scanned.bytes_sent,
        tuple(
            ScanGroup(
                tuple(tape.calls[at].name for at in part.operators), jacobian.shape[1], jacobian.nnz
            )
            for part, (jacobian, _) in zip(parts, pairs, strict=True)
        ),
    )


def parameter_gradients(
    tape: Tape, group: Group, at_end: NDArray[np.float64]
) -> dict[int, torch.Tensor]:
    """What a group adds to the gradients of the values that are parameters, by local autograd."""
    ends = np.cumsum([tape.sizes[value] for value in group.boundary])[:-1]
    parts = np.split(at_end, ends)
    flat = {value: torch.tensor(part) for value, part in zip(group.boundary, parts, strict=True)}

    def gradient_of(value: int) -> torch.Tensor:
        return flat.setdefault(value, torch.zeros(tape.sizes[value], dtype=torch.float64))

    for at in reversed(group.operators):
        call = tape.calls[at]
        gradients = {
            number: flat[view.value][torch.from_numpy(places(view))].reshape(view.shape)
            for number, view in enumerate(call.operator.results)
            if view.value in flat and tape.makers[view.value] == at
        }
        for old, new, written in tape.overwritten(call):
            if new in flat and old in tape.makers:
                kept = flat[new].clone()
                kept[torch.from_numpy(written)] = 0
                gradient_of(old).add_(kept)
        for read, gradient in call.backward(gradients).items() if gradients else ():
            view = call.operator.reads[read]
            there = torch.from_numpy(places(view))
            gradient_of(view.value).index_add_(0, there, gradient.double().reshape(-1))
    return {value: own for value, own in flat.items() if value not in tape.makers}


def sums_by_parameter(
    tape: Tape, parts: Sequence[Mapping[int, torch.Tensor]]
) -> dict[str, torch.Tensor]:
    """Gradients by parameter: of all groups and of all uses, each in the parameter's shape."""
    storage_of = [value.storage for value in tape.graph.values]
    sums: dict[int, torch.Tensor] = {}
    for gradients in parts:
        for value, gradient in gradients.items():
            storage = storage_of[value]
            sums[storage] = sums[storage] + gradient if storage in sums else gradient
    return {
        name: sums[storage_of[view.value]].as_strided(view.shape, view.strides, view.offset).clone()
        for name, view in tape.parameters.items()
        if storage_of[view.value] in sums
    }


def _of_loss(tape: Tape) -> NDArray[np.float64]:
    """One where the loss is: its storage may be larger."""
    (view,) = tape.graph.outputs
    gradient = np.zeros(tape.sizes[view.value])
    gradient[places(view)] = 1
    return gradient


def _combined(earlier: Element, later: Element) -> Element:
    """The operator: the later Jacobian applied to what precedes it."""
    return later @ earlier


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


def product_flops(left: csr_array, right: csr_array) -> int:
    """Floating-point operations of a sparse product: two for each pair of entries that meet."""
    in_columns = np.bincount(left.indices, minlength=left.shape[1])
    return int(2 * in_columns @ np.diff(right.indptr))


def group_jacobian(tape: Tape, group: Group, before: Sequence[int]) -> tuple[csr_array, int]:
    """J^T of a group, from the gradient at its end to that at the boundary before; its FLOPs.

    Backwards through the group, with a matrix in the place of a gradient. What passes through has
    the identity.
    """
    ends = np.cumsum([0, *(tape.sizes[value] for value in group.boundary)])
    width, flops = int(ends[-1]), 0
    identity = csr_array(eye_array(width))
    parts = [identity[start:end] for start, end in pairwise(ends)]
    rows = dict(zip(group.boundary, parts, strict=True))

    def add(value: int, part: csr_array) -> None:
        rows[value] = rows[value] + part if value in rows else part

    for at in reversed(group.operators if before else ()):
        call = tape.calls[at]
        reached = [
            (number, rows[view.value][_unless_all(tape, view)])
            for number, view in enumerate(call.operator.results)
            if view.value in rows and tape.makers[view.value] == at
        ]
        for old, new, written in tape.overwritten(call):
            if new in rows and old in tape.makers:
                kept = np.ones(tape.sizes[old])
                kept[written] = 0
                add(old, csr_array(diags_array(kept) @ rows[new]))
        for read in call.carrying:
            view = call.operator.reads[read]
            if view.value in tape.makers:
                for number, above in reached:
                    jacobian = transposed_jacobian(call, read, number)
                    flops += product_flops(jacobian, above)
                    there, size = places(view), tape.sizes[view.value]
                    shape = (size, there.size)
                    place = from_entries(there, np.arange(there.size), 1.0, shape)
                    add(view.value, csr_array(place @ (jacobian @ above)))
    parts = [rows.get(value, csr_array((tape.sizes[value], width))) for value in before]
    jacobian = csr_array(vstack(parts)) if parts else csr_array((0, width))
    jacobian.eliminate_zeros()
    return jacobian, flops


def _unless_all(tape: Tape, view: View) -> slice | NDArray[np.int64]:
    """Places of a view; a slice where they are all, in order."""
    there = places(view)
    whole = np.array_equal(there, np.arange(tape.sizes[view.value]))
    return slice(None) if whole else there
