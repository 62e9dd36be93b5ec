"""What the server and the nodes of a scan share: subtasks, what they cost, and the learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from workbench.olpb.algorithms.schedules import Schedule
from workbench.olpb.costs.backward import Group
from workbench.olpb.costs.subtasks import Pool
from workbench.olpb.programs.cluster import Delays


class Held(NamedTuple):
    """A value of the scan: elements `first` to `last`, both included, combined."""

    first: int
    last: int
    content: Any = None  # what the learner makes of them
    steps: int = 0  # moves one after the other, on values and nodes, until it was there


class Counting(Protocol):
    """What moves, messages and parameters' gradients cost."""

    def flops(self, left: Held, right: Held) -> float:
        """Of a move."""
        ...

    def finishing_flops(self, element: int) -> float:
        """Of the parameters' gradients of an element's group, after the scan."""
        ...

    def size_bytes(self, value: Held) -> float:
        """Of a value that is sent."""
        ...


class Learner(Protocol):
    """The learning behind a scan. The server begins and ends; what is between, a node does."""

    def begin(self, iteration: int) -> Sequence[Any]:
        """Pass a batch forward; contents of the elements of its scan."""
        ...

    def combine(self, left: Held, right: Held) -> Any:
        """Content of a move's result."""
        ...

    def finish(self, element: int, at_end: Held) -> Any:
        """What an element's group adds to the gradients, from the gradient at its end."""
        ...

    def end(self, parts: Mapping[int, Any], at_s: float) -> None:
        """Take what the groups add, by element."""
        ...


@dataclass(frozen=True)
class AsPaperCounts:
    """Gradients cost what the operators of their groups cost, and messages have no bytes.

    `moves` is a name in `workbench.olpb.costs.backward.MOVES`, which says when that is paid.
    """

    subtasks: tuple[Group, ...]
    moves: str = "each"

    def flops(self, left: Held, right: Held) -> float:
        """Of the gradients of the last group, or of all, or nothing."""
        del left
        if self.moves == "once":
            return 0.0
        paid = self.subtasks[(right.first if self.moves == "all" else right.last) : right.last + 1]
        parameters = self.moves == "inputs"
        return sum(one.backward_flops - parameters * one.parameter_flops for one in paid)

    def finishing_flops(self, element: int) -> float:
        """Of what is not paid with the moves."""
        one = self.subtasks[element]
        return {"once": one.backward_flops, "inputs": one.parameter_flops}.get(self.moves, 0.0)

    def size_bytes(self, value: Held) -> float:
        """None."""
        del value
        return 0.0


class Idle:
    """Learns nothing: only time passes."""

    def __init__(self, elements: int) -> None:
        self.elements = elements

    def begin(self, iteration: int) -> Sequence[None]:
        """Elements without content."""
        del iteration
        return [None] * self.elements

    def combine(self, left: Held, right: Held) -> None:
        """Nothing."""

    def finish(self, element: int, at_end: Held) -> None:
        """Nothing."""

    def end(self, parts: Mapping[int, Any], at_s: float) -> None:
        """Nothing."""


@dataclass(frozen=True, eq=False)
class Job:
    """Backward passes by scan: all that server and nodes know, but for each other.

    Attributes
    ----------
    subtasks
        A scan's elements: the loss's gradient, then the groups from the loss to the input.
    scan
        A name in `schedules.ALGORITHMS`.
    forward_s
        Of the forward pass, which the server does alone.
    patience_s
        How long the server waits for the next node to be done before it asks who is still there; in
        a pass twice as long each time.
    over
        Not empty once the server has ended, which a node that comes back then finds out.
    """

    subtasks: tuple[Group, ...]
    pool: Pool
    scan: str
    counting: Counting
    learner: Learner
    delays: Delays
    iterations: int = 1
    forward_s: float = 0.0
    patience_s: float | None = None
    over: list[bool] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        if self.patience_s is None:
            slowest = min(node.flops_per_s for node in self.pool.nodes)
            flops = sum(one.backward_flops for one in self.subtasks)
            dispatches_s = len(self.subtasks) * self.pool.dispatch_s
            patience_s = flops / slowest + dispatches_s + self.pool.delay_s
            object.__setattr__(self, "patience_s", patience_s or 1.0)


class Order(NamedTuple):
    """What the server tells a node to do in an attempt at a backward pass."""

    attempt: int
    plan: Schedule
    contents: Mapping[int, Any]  # of the node's own elements

    @property
    def values(self) -> str:
        """Topic of the values that nodes send each other."""
        return f"value {self.attempt}"

    @property
    def done(self) -> str:
        """Topic of a node's report."""
        return f"done {self.attempt}"


class Report(NamedTuple):
    """What a node has done."""

    parts: Mapping[int, Any]  # by element, what its group adds to the gradients
    steps: int  # until it had done its last move
    work: int


class Counts(NamedTuple):
    """A backward pass as it ran."""

    iteration: int
    begin_s: float
    backward_s: float  # until the last node was done, attempts that failed included
    steps: int  # S: moves one after the other, the most on any path
    work: int  # W: all moves
    runs: tuple[range, ...]  # of elements, by node
    attempts: int  # above 1 where a node left
