"""Subtasks of a traced pass: what its groups cost, for any module that PyTorch can trace."""

from __future__ import annotations

from collections.abc import Sequence

from torch.fx import Node
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.flop_counter import flop_registry

from workbench.olpb.algorithms import levels
from workbench.olpb.algorithms.tape import Tape, name_of
from workbench.olpb.costs.backward import LOSS, NUMBER_BYTES
from workbench.olpb.costs.subtasks import Subtask
from workbench.profiles.private import storage_key
from workbench.profiles.recorder import tensors_in

RECORDED_BYTES = 8
"""Size of a number of a tape, in double precision."""


def subtasks_of(
    tape: Tape, groups: Sequence[levels.Group], operator_flops: float = 0.0
) -> tuple[Subtask, ...]:
    """Elements of the scan of a recorded pass: the loss's gradient, and groups from the loss on.

    FLOPs as profiles count them: of products with matrices, two per multiply-add; and
    `operator_flops` for every operator, in whose time it is set up.
    """
    return (LOSS, *(_subtask(tape, group, operator_flops) for group in reversed(groups)))


def _subtask(tape: Tape, group: levels.Group, operator_flops: float) -> Subtask:
    calls = [tape.calls[at] for at in group.operators]
    read = [tape.numbers[node] for call in calls for node in call.all_input_nodes]
    read_bytes = {storage_key(tensor): tensor.nbytes for tensor in tensors_in(read)}
    # A product for each of its operands that carries a gradient, but for a bias.
    flops = sum(
        _flops(tape, call)
        for call in calls
        for operand in tree_leaves((call.args, call.kwargs))
        if operand in tape.carrying and tape.numbers[operand].dim() > 1
    )
    return Subtask(
        tuple(map(name_of, calls)),
        flops + operator_flops * len(calls),
        NUMBER_BYTES * sum(tape.numbers[tape.nodes[place]].numel() for place in group.boundary),
        sum(read_bytes.values()) * NUMBER_BYTES // RECORDED_BYTES,
    )


def _flops(tape: Tape, call: Node) -> int:
    """FLOPs of an operator with a matrix, two per multiply-add; 0 for others."""
    formula = flop_registry.get(call.target._overloadpacket)  # type: ignore[union-attr]
    if formula is None:
        return 0
    args, kwargs = tree_map_only(Node, tape.numbers.__getitem__, (call.args, call.kwargs))
    return int(formula(*args, **kwargs, out_val=tape.numbers[call]))
