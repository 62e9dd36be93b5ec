"""The learning behind a scan: its elements are the sparse Jacobians of a network on a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.olpb.algorithms.gradients import Elements, combine, combine_flops, element_bytes
from workbench.olpb.costs.backward import LOSS
from workbench.olpb.costs.backward import Group as Subtask
from workbench.olpb.programs.work import Held

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.olpb.algorithms.levels import Group
    from workbench.olpb.algorithms.tape import Tape

NUMBER_BYTES = 4
"""Of a number on a node: single precision."""


@dataclass(eq=False)
class JacobianLearner:
    """Carries the arithmetic of a scan out.

    `elements_of` passes the batch of an iteration forward; `take` gets it back with its gradients
    by parameter, and when they were there.
    """

    elements_of: Callable[[int], Elements]
    take: Callable[[Elements, dict[str, Tensor], float], None]
    made: Elements | None = field(default=None, init=False)

    def begin(self, iteration: int) -> Sequence[Any]:
        """The loss's gradient and the groups' Jacobians."""
        self.made = self.elements_of(iteration)
        return self.made.elements

    def combine(self, left: Held, right: Held) -> Any:
        """Their product."""
        return combine(left.content, right.content)

    def finish(self, element: int, at_end: Held) -> Mapping[int, Tensor]:
        """Gradients of a group's parameters."""
        assert self.made is not None
        return self.made.parameter_gradients(element, at_end.content)

    def end(self, parts: Mapping[int, Any], at_s: float) -> None:
        """Add up the groups' gradients, from the input on, as `scan_gradients` does."""
        assert self.made is not None
        each = [parts[element] for element in sorted(parts, reverse=True)]
        self.take(self.made, self.made.sums(each), at_s)


@dataclass(frozen=True)
class AsArithmeticCosts:
    """A move costs the FLOPs of its sparse product, a message the bytes of its matrix.

    After the scan a group's own gradients cost what they cost in plain back-propagation. Only with
    a `JacobianLearner`, since entries are counted as they are. The Jacobians are there when the
    scan begins, as the paper has it; making them costs `Elements.jacobian_flops` on top.
    """

    subtasks: tuple[Subtask, ...]

    def flops(self, left: Held, right: Held) -> float:
        """Two for each pair of entries that meet."""
        return combine_flops(left.content, right.content)

    def finishing_flops(self, element: int) -> float:
        """Of the gradients of the group's operators."""
        return self.subtasks[element].backward_flops

    def size_bytes(self, value: Held) -> float:
        """As CSR, or a gradient."""
        return element_bytes(value.content)


def subtasks_of(
    tape: Tape, groups: Sequence[Group], operator_flops: float = 0.0
) -> tuple[Subtask, ...]:
    """Elements of the scan of a recorded pass: the loss's gradient, and groups from the loss on.

    FLOPs as profiles count them: of products with matrices, two per multiply-add; and
    `operator_flops` for every operator, in whose time it is set up.
    """
    return (LOSS, *(_subtask(tape, group, operator_flops) for group in reversed(groups)))


def _subtask(tape: Tape, group: Group, operator_flops: float) -> Subtask:
    calls = [tape.calls[at] for at in group.operators]
    read = {view.value: view.size_bytes for call in calls for view in call.operator.reads}
    numbers = sum(tape.sizes[value] for value in group.boundary)
    # A product for each of its operands that carries a gradient, but for a bias.
    products = [
        (call.operator.flops, call.operator.reads[at].value not in tape.makers)
        for call in calls
        for at in call.carrying
        if call.reads[at].dim() > 1
    ]
    return Subtask(
        tuple(call.name for call in calls),
        sum(flops for flops, _ in products) + operator_flops * len(calls),
        NUMBER_BYTES * numbers,
        sum(read.values()) * NUMBER_BYTES // 8,  # recorded in double precision
        float(sum(flops for flops, is_parameter in products if is_parameter)),
    )
