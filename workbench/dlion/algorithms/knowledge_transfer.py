"""Direct knowledge transfer: workers move towards the best one's weights (Sec. 3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.utils.checks import UserError, check_name, check_number, check_whole

WHOM = ("all", "worst")


@dataclass(frozen=True)
class Transfer:
    """When losses are compared, who then asks for the best weights, and how they are merged.

    Deviation: the paper does not state of how many iterations the mean loss counts (l).
    """

    period: int = 100  # iterations from one comparison to the next
    share: float = 0.75  # lambda: 0 keeps the own weights, 1 takes over the best ones
    losses: int = 20  # latest iterations whose mean loss counts
    whom: str = "all"  # who asks: all others, or the "worst" worker alone
    early_until: int = 0  # up to this iteration, another period: early and frequent (Fig. 9a)
    early_period: int = 20

    def __post_init__(self) -> None:
        for name, least in (("period", 1), ("losses", 1), ("early_until", 0), ("early_period", 1)):
            check_whole(name, getattr(self, name), least)
        if not 0 <= check_number("share", self.share) <= 1:
            raise UserError(
                f"share is {self.share}; it is lambda, the share of the best weights, from 0 to 1"
            )
        check_name("whom", self.whom, WHOM)

    def is_due(self, iteration: int) -> bool:
        """Whether losses are compared behind an iteration, counted from 1."""
        return not iteration % (self.early_period if iteration <= self.early_until else self.period)

    def best(self, losses: Mapping[int, float]) -> int:
        """The worker with the smallest loss, of equal ones the first."""
        return min(losses, key=lambda node: (losses[node], node))

    def asks(self, node: int, losses: Mapping[int, float]) -> bool:
        """Whether a worker asks the best one for its weights."""
        best = self.best(losses)
        if self.whom == "all":
            return node != best
        return node != best and node == max(losses, key=lambda one: (losses[one], one))
