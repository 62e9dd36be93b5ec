"""What the server and the nodes of a scan share: what is to be done, what it costs, reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from workbench.olpb.algorithms.schedules import Schedule
from workbench.olpb.costs.backward import Group
from workbench.olpb.costs.subtasks import Pool
from workbench.olpb.costs.timing import Work
from workbench.olpb.programs.cluster import Delays

Costs = Callable[[Schedule], Work]
"""What a schedule's moves, messages and groups cost, as `costs.backward.as_paper_counts` or
`costs.arithmetic.as_arithmetic_costs` have it."""


class Learner(Protocol):
    """The learning behind backward passes. Nodes take their time; gradients come from here."""

    def begin(self, iteration: int) -> None:
        """Pass a batch forward."""
        ...

    def end(self, at_s: float) -> None:
        """Hear that its backward pass is done."""
        ...


class Idle:
    """Learns nothing: only time passes."""

    def begin(self, iteration: int) -> None:
        """Nothing."""

    def end(self, at_s: float) -> None:
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
    costs: Costs
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
    work: Work
    run: range  # the node's own elements

    @property
    def values(self) -> str:
        """Topic of the values that nodes send each other."""
        return f"value {self.attempt}"

    @property
    def done(self) -> str:
        """Topic of a node's report."""
        return f"done {self.attempt}"


class Held(NamedTuple):
    """A value of the scan: elements `first` to `last`, both included, combined."""

    first: int
    last: int
    steps: int = 0  # moves one after the other, on values and nodes, until it was there


class Report(NamedTuple):
    """What a node has done."""

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
