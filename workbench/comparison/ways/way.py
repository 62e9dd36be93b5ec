"""A way of training as one value, and what it comes to on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from workbench.comparison.question import Question
from workbench.comparison.use import DryRun, Use

EQUAL = "equal to SGD"
STALE = "gradients stale by up to {}"
AVERAGES = "averages models"


@dataclass(frozen=True, kw_only=True)
class Option:
    """A way of training on one cluster.

    Attributes
    ----------
    use
        What an iteration takes, as predicted.
    dry
        Its programs, without learning; None where `again` simulates in another way.
    again
        What a longer simulation finds, where there are no programs to show.
    learns_from
        Nodes whose samples are learnt from.
    batches
        Node -> samples of which it holds the results at once.
    assumes
        What was assumed or left out, a phrase each.
    """

    use: Use
    dry: DryRun | None = None
    again: Callable[[], Use] | None = None
    learns_from: Collection[int]
    batches: Mapping[int, int]
    assumes: tuple[str, ...] = ()

    def simulate(self) -> Use:
        """What an iteration takes on the cluster, without learning."""
        if self.dry is not None:
            return self.dry.use()
        return self.again() if self.again is not None else self.use


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way of training.

    Attributes
    ----------
    system
        Whose it is: ``"DynaComm"``.
    update
        What becomes of a step, compared with SGD on one machine.
    moves_samples
        Whether raw samples leave the node that holds them.
    survives
        Whether the others go on if a node dies.
    find
        Finds the fastest use of a cluster; raises `UnusableError`.
    """

    name: str
    system: str
    update: str
    moves_samples: bool = False
    survives: bool = False
    find: Callable[[Question], Option]
