"""The nodes of autograd, and the operators that made them.

Autograd numbers its nodes in the order in which the forward pass makes them, each just before the
operator runs that it belongs to; not every operator has one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from torch import Tensor
from torch.autograd.graph import Node

from workbench.profiles.private import next_sequence_number, sequence_number


class NodeCounter:
    """Gives each operator, from within, the number of the first node that may be its own."""

    def __init__(self) -> None:
        self._next = next_sequence_number()

    def first_node(self) -> int:
        """Number of its first node; of a node still to come, if the running operator made none."""
        before, self._next = self._next, next_sequence_number()
        return self._next - 1 if self._next > before else self._next


def owner(node: Node, first_nodes: Sequence[int]) -> int:
    """Number of the owner of a node: the last whose first node, in their order, is not later."""
    return max(bisect_right(first_nodes, sequence_number(node)) - 1, 0)


def nodes_behind(outputs: Sequence[Tensor]) -> Iterator[Node]:
    """Autograd nodes behind `outputs`, but for those that only store a parameter's gradient."""
    waiting = [out.grad_fn for out in outputs if out.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        yield node
        for earlier, _ in node.next_functions:
            if earlier is not None and earlier not in seen and not hasattr(earlier, "variable"):
                seen.add(earlier)
                waiting.append(earlier)
