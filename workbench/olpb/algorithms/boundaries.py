"""From boundary to boundary: what a group does to gradients, as a matrix or one gradient at a time.

A boundary's state is the storages of the values alive there, one after the other. A view, however
it slices, transposes or expands, is a choice of places in a storage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, eye_array, vstack
from torch import Tensor

from workbench.graphs.graph import View
from workbench.olpb.algorithms.jacobians import transposed_jacobian
from workbench.olpb.algorithms.jacobians.sparse import from_entries
from workbench.olpb.algorithms.levels import Group
from workbench.olpb.algorithms.tape import Tape, places


def product_flops(left: csr_array, right: csr_array) -> int:
    """Floating-point operations of a sparse product: two for each pair of entries that meet."""
    in_columns = np.bincount(left.indices, minlength=left.shape[1])
    return int(2 * in_columns @ np.diff(right.indptr))


def group_jacobian(tape: Tape, group: Group, before: Sequence[int]) -> tuple[csr_array, int]:
    """J^T of a group, from the gradient at its end to that at the boundary before; its FLOPs.

    Backwards through the group, with a matrix in the place of a gradient. What passes through has
    the identity.
    """
    width, flops = sum(tape.sizes[value] for value in group.boundary), 0
    rows = dict(zip(group.boundary, _identity_rows(tape, group.boundary, width), strict=True))

    def add(value: int, found: csr_array) -> None:
        rows[value] = rows[value] + found if value in rows else found

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
    empty = [csr_array((tape.sizes[value], width)) for value in before]
    parts = [rows.get(value, none) for value, none in zip(before, empty, strict=True)]
    found = csr_array(vstack(parts)) if parts else csr_array((0, width))
    found.eliminate_zeros()
    return found, flops


def parameter_gradients(tape: Tape, group: Group, at_end: NDArray[np.float64]) -> dict[int, Tensor]:
    """What a group adds to the gradients of the values that are parameters, by local autograd."""
    ends = np.cumsum([tape.sizes[value] for value in group.boundary])[:-1]
    parts = np.split(at_end, ends)
    found = {value: torch.tensor(part) for value, part in zip(group.boundary, parts, strict=True)}

    def flat(value: int) -> Tensor:
        return found.setdefault(value, torch.zeros(tape.sizes[value], dtype=torch.float64))

    for at in reversed(group.operators):
        call = tape.calls[at]
        gradients = {
            number: found[view.value][torch.from_numpy(places(view))].reshape(view.shape)
            for number, view in enumerate(call.operator.results)
            if view.value in found and tape.makers[view.value] == at
        }
        for old, new, written in tape.overwritten(call):
            if new in found and old in tape.makers:
                kept = found[new].clone()
                kept[torch.from_numpy(written)] = 0
                flat(old).add_(kept)
        for read, gradient in call.backward(gradients).items() if gradients else ():
            view = call.operator.reads[read]
            there = torch.from_numpy(places(view))
            flat(view.value).index_add_(0, there, gradient.double().reshape(-1))
    return {value: one for value, one in found.items() if value not in tape.makers}


def sums_by_storage(tape: Tape, found: Sequence[Mapping[int, Tensor]]) -> dict[str, Tensor]:
    """Gradients by parameter: of all groups and of all uses, each in the parameter's shape."""
    sums: dict[int, Tensor] = {}
    for gradients in found:
        for value, gradient in gradients.items():
            storage = tape.graph.values[value].storage
            sums[storage] = sums[storage] + gradient if storage in sums else gradient
    return {
        name: torch.as_strided(
            sums[tape.graph.values[view.value].storage], view.shape, view.strides, view.offset
        ).clone()
        for name, view in tape.parameters.items()
        if tape.graph.values[view.value].storage in sums
    }


def _identity_rows(tape: Tape, boundary: Sequence[int], width: int) -> list[csr_array]:
    identity = csr_array(eye_array(width))
    ends = np.cumsum([0, *(tape.sizes[value] for value in boundary)])
    return [identity[start:end] for start, end in pairwise(ends)]


def _unless_all(tape: Tape, view: View) -> slice | NDArray[np.int64]:
    """Places of a view; a slice where they are all, in order."""
    there = places(view)
    whole = np.array_equal(there, np.arange(tape.sizes[view.value]))
    return slice(None) if whole else there
