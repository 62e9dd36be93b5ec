"""A system that trains without a server, as a small value: its two hooks and its techniques."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workbench.dlion.algorithms.global_batch import DOUBLING, Growth
from workbench.dlion.algorithms.knowledge_transfer import Transfer
from workbench.dlion.algorithms.synchronisation import BOUNDED, Synchronisation
from workbench.dlion.algorithms.weighted_update import WEIGHTINGS
from workbench.dlion.gradient import PartialGradients
from workbench.utils.checks import (
    UserError,
    check_kind,
    check_name,
    check_truth,
    check_whole,
    listed,
)


@dataclass(frozen=True)
class Batching:
    """Dynamic batching: the global batch grows, and is shared out by power (Sec. 3.2).

    Batches are timed every `period` iterations, and whenever the global batch changes.
    """

    growth: Growth = DOUBLING  # of the global batch
    period: int = 100
    sizes: tuple[int, ...] = (4, 8, 16)  # of the batches that are timed
    weighting: str = "dynamic"  # of gradients from other batches; name in `WEIGHTINGS`

    def __post_init__(self) -> None:
        check_whole("period", self.period, 1)
        check_kind("growth", self.growth, Growth, "a Growth, as in Growth(warm_up_add=32)")
        sizes = listed("sizes", self.sizes, "give batch sizes, such as (4, 8, 16)")
        object.__setattr__(self, "sizes", tuple(check_whole("sizes", size, 1) for size in sizes))
        if len(set(self.sizes)) < 2:
            raise UserError(f"sizes are {self.sizes}; time batches of at least two sizes")
        check_name("weighting", self.weighting, WEIGHTINGS)


@dataclass(frozen=True)
class System:
    """A system: all that workers do beside computing gradients.

    Attributes
    ----------
    title
        Name for charts.
    generate_partial_gradients
        Chooses the part of a gradient for each peer: a function; or, to remember something, a class
        or an instance that is called, of which every worker has its own.
    synch_training
        Says whether the next iteration may begin, by a `Progress`.
    acknowledged
        Whether peers acknowledge what has arrived.
    batching
        None: all learn from equally many samples in every iteration.
    transfer
        None: no weights are transferred.
    """

    title: str
    generate_partial_gradients: PartialGradients | Callable[[], PartialGradients]
    synch_training: Synchronisation = BOUNDED
    acknowledged: bool = False
    batching: Batching | None = None
    transfer: Transfer | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.title, str) and self.title):
            raise UserError(f"title is {self.title!r}; give the system a name")
        check_truth("acknowledged", self.acknowledged)
        self._check_hooks()
        if self.batching is not None:
            check_kind("batching", self.batching, Batching, "a Batching, or None")
        if self.transfer is not None:
            check_kind("transfer", self.transfer, Transfer, "a Transfer, or None")

    def _check_hooks(self) -> None:
        gradients = self.generate_partial_gradients
        if not (callable(gradients) and _can_be_called(gradients)):
            raise UserError(
                f"generate_partial_gradients of {self.title} is {gradients!r}; give a function, or "
                "a class with __call__"
            )
        waits = self.synch_training
        if not callable(waits) or isinstance(waits, type):
            raise UserError(
                f"synch_training of {self.title} is {waits!r}; give a function of a Progress, such "
                "as Bounded(5)"
            )


def _can_be_called(hook: object) -> bool:
    """Whether a function, or the instances of a class, can be called."""
    return not isinstance(hook, type) or any("__call__" in vars(base) for base in hook.__mro__)
