"""Direct knowledge transfer: workers move towards the best one's weights (Sec. 3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workbench.utils.checks import at_least, between, check_fields, check_name

WHOM = ("all", "worst")


@dataclass(frozen=True)
class Transfer:
    """Options of the transfer: when losses are compared, who asks for weights, how they are merged.

    Deviation: the paper does not state of how many iterations the mean loss counts (l).
    """

    # Iterations from one comparison to the next.
    period: int = field(default=100, metadata=at_least(1))
    # Lambda: 0 keeps the own weights, 1 takes over the best ones.
    share: float = field(default=0.75, metadata=between(0, 1))
    # Latest iterations whose mean loss counts.
    losses: int = field(default=20, metadata=at_least(1))
    # Who asks: all others, or the "worst" worker alone.
    whom: str = "all"
    # Up to this iteration, another period: early and frequent (Fig. 9a).
    early_until: int = field(default=0, metadata=at_least(0))
    early_period: int = field(default=20, metadata=at_least(1))

    def __post_init__(self) -> None:
        check_fields(self)
        check_name("whom", self.whom, WHOM)

    def is_due(self, iteration: int) -> bool:
        """Whether losses are compared after an iteration, counted from 1."""
        return not iteration % (self.early_period if iteration <= self.early_until else self.period)

    def best(self, losses: Mapping[int, float]) -> int:
        """The worker with the smallest loss, of equal ones the first."""
        return min(losses, key=lambda node: (losses[node], node))

    def asks(self, node: int, losses: Mapping[int, float]) -> bool:
        """Whether a worker asks the best one for its weights."""
        best = self.best(losses)
        if self.whom == "all":
            return node != best
        return node != best and node == max(losses, key=lambda other: (losses[other], other))
