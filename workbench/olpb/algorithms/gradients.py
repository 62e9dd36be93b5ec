"""Gradients of a module by a parallel scan over its Jacobians, exact for any graph.

OLPB (Sec. IV) states the scan over groups of operators, BPPSA over layers: of [dL/dx_n, J_n^T, …,
J_1^T] with (a, b) -> b a, an exclusive scan gives the gradient at the end of every group. From it
every group finds the gradients of its own parameters, at the same time as the others.

The paper counts applications of the operator as if they cost the same. But a scan multiplies
Jacobians with one another, where back-propagation multiplies one with a gradient: `flops` and
`critical_flops` count it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workbench.olpb.algorithms.levels import LEVELS, UNITS, groups
from workbench.olpb.algorithms.scans import SCANS
from workbench.olpb.algorithms.schedules import run, schedule
from workbench.utils.checks import check_name, check_whole

if TYPE_CHECKING:
    import torch

    from workbench.olpb.algorithms.jacobians import Element
    from workbench.olpb.algorithms.tape import Loss, Samples


@dataclass(frozen=True)
class ScanGroup:
    """Operators of one group by name, numbers alive at its end, and entries of its Jacobian."""

    operators: tuple[str, ...]
    boundary: int
    nonzeros: int


@dataclass(frozen=True, eq=False)
class ScanGradients:
    """Gradients by parameter, in double precision, and what the scan took.

    A parameter that the loss does not depend on has no gradient. Messages are matrices in CSR and
    gradients as doubles; each node has the Jacobians of its own groups.
    """

    gradients: dict[str, torch.Tensor]
    loss: float
    steps: int  # S: products of two elements, one after the other
    work: int  # W: in all
    flops: int  # of those products
    critical_flops: int  # of the dearest of each step
    bytes_sent: int  # from node to node
    groups: tuple[ScanGroup, ...]  # from input to loss


def scan_gradients(
    module: torch.nn.Module,
    x: Samples,
    y: torch.Tensor,
    unit: str = "operator",
    *,
    levels: int = LEVELS,
    scan: str = "hillis_steele",
    nodes: int | None = None,
    loss: Loss | None = None,
) -> ScanGradients:
    """Gradients of a module's loss on a batch, in the mode that the module is in.

    Neither the module nor its buffers are changed.

    Parameters
    ----------
    x, y
        A batch, of inputs in their order or by name if there are several, and the targets.
    unit, levels
        What starts a level, ``"operator"`` or ``"matrix_layer"``; and l, levels in a group.
    scan
        A name in `SCANS`.
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
    from workbench.olpb.algorithms import jacobians
    from workbench.olpb.algorithms.tape import name_of, record

    check_name("scan", scan, SCANS)
    check_name("unit", unit, UNITS)
    check_whole("levels", levels, 1)
    if nodes is not None:
        check_whole("nodes", nodes, 1)
    tape = record(module, x, y, loss)
    parts = groups(tape.flow, unit, levels)
    passes = jacobians.group_passes(tape, parts)
    matrices = [own.jacobian() for own in passes]
    elements: list[Element] = [np.ones(1), *matrices]  # the loss's gradient first
    scanned = run(
        schedule(scan, len(elements), nodes, exclusive=True),
        elements,
        jacobians.combine,
        np.ones(0),
        flops=jacobians.combine_flops,
        size_bytes=jacobians.size_bytes,
    )
    gradients = added(
        own.parameter_gradients(np.asarray(at_end))
        for own, at_end in zip(passes, scanned.results[1:], strict=True)
    )
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
                tuple(name_of(tape.calls[at]) for at in part.operators), matrix.shape[1], matrix.nnz
            )
            for part, matrix in zip(parts, reversed(matrices), strict=True)
        ),
    )


def added(several: Iterable[Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Sum of gradients by parameter, which several groups may use."""
    total: dict[str, torch.Tensor] = {}
    for gradients in several:
        for name, gradient in gradients.items():
            total[name] = total[name] + gradient if name in total else gradient
    return total
