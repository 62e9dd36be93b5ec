"""Runs a training of any system: its progress, and its partial results where it ends early."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from workbench.clusters import Cluster
from workbench.errors import UserError
from workbench.runtime import (
    Crash,
    Fault,
    LinkDown,
    Lossy,
    Program,
    Run,
    SimulationError,
    simulate,
)
from workbench.runtime.faults import check_faults
from workbench.runtime.progress import Line, Progress
from workbench.training.repeatable import fixed_threads
from workbench.training.setup import Setup
from workbench.training.trained import DivergedError, Epochs, Trained, TrainingError

T = TypeVar("T", bound=Trained[Any])

LOSING = Crash | LinkDown | Lossy
"""Faults that lose messages, or all that a node holds. The others only cost time."""

DELAYING = (
    "give a SlowDown, or the link a bandwidth Schedule with zeros for an outage that only delays; "
    "or train without a server, by `workbench.decentralised`, where with patience_s=... the others "
    "go on"
)
"""What to do instead where nobody can go on without the others."""


class Standing(NamedTuple):
    """Progress of a training: epochs done and planned, percent of the work, latest losses.

    `what` names the epochs that are counted. None are planned where something else ends a training.
    """

    epochs: int
    planned: int
    percent: int
    losses: tuple[str, ...] = ()
    what: str = "epochs"

    @classmethod
    def of(
        cls, epochs: Epochs, planned: int, iteration: int, iterations: int, loss: float | None
    ) -> Standing:
        """Of nodes that train one model: epochs, and iterations with the latest one's loss."""
        found = [] if loss is None else [f"loss {loss:.3f} in iteration {iteration}"]
        if epochs.last_loss is not None:
            found.append(f"{epochs.last_loss:.3f} over all samples after epoch {len(epochs)}")
        return cls(len(epochs), planned, 100 * iteration // iterations, tuple(found))

    @property
    def done(self) -> str:
        """How many were done, of how many that were planned."""
        return f"{self.epochs} {f'of {self.planned} ' if self.planned else ''}{self.what}"

    def at(self, now_s: float) -> str:
        """The progress at a virtual time, in one line."""
        done = f"{self.done}, {self.percent} %"
        return ", ".join((done, f"{now_s:,.1f} virtual seconds", *self.losses))


@dataclass(frozen=True, eq=False)
class Built(ABC, Generic[T]):
    """A training before it starts; each system's adds what it learns with.

    `cluster` and `programs` are those of `workbench.runtime.simulate`.
    """

    setup: Setup
    cluster: Cluster
    programs: list[Program]

    @abstractmethod
    def standing(self) -> Standing:
        """Current progress."""

    @abstractmethod
    def trained(self, run: Run) -> T:
        """Results of a run that has ended."""

    def failed(self, error: SimulationError) -> TrainingError:
        """The error of a training that could not go on, with the partial results."""
        cause, reason = error.__cause__, str(error)
        if isinstance(cause, DivergedError):
            reason = (
                f"training diverged: {cause}; use a smaller learning rate than "
                f"{self.setup.sgd.learning_rate:g}, as in sgd=Sgd(learning_rate=...)"
            )
        standing = self.standing()
        kept = f"{standing.done} {'was' if standing.epochs == 1 else 'were'} done"
        apart = "\n" if "\n" in reason else " "
        return TrainingError(
            f"{reason}{apart}({kept}: `trained` of this error has what there is)",
            self.trained(error.run),
        )


def run(
    built: Built[T],
    *,
    faults: Iterable[Fault] = (),
    trace: bool = False,
    progress: Progress | bool = False,
    threads: int | None = None,
    until_s: float | None = None,
) -> T:
    """Run a training to its end, or to Ctrl-C.

    `faults`, `trace`, `threads` and `until_s` are those of `workbench.runtime.simulate`; so is a
    function as `progress`. With True it shows epochs, virtual time and loss.

    Raises
    ------
    TrainingError
        The loss is not finite any more, or a program failed, or all wait for each other; its
        `trained` has the epochs that were done.
    """
    with fixed_threads():
        try:
            with _shown(progress, built) as shown:
                ended = simulate(
                    built.cluster,
                    built.programs,
                    seed=built.setup.seed,
                    trace=trace,
                    faults=faults,
                    progress=shown,
                    threads=threads,
                    until_s=until_s,
                )
        except SimulationError as error:
            raise built.failed(error) from error.__cause__ or error
        return built.trained(ended)


@contextmanager
def _shown(progress: Progress | bool, built: Built[Any]) -> Iterator[Progress | Literal[False]]:
    if progress is not True:
        yield progress
        return
    line, last = Line(), ""

    def show(now_s: float, events: int) -> None:
        nonlocal last
        del events
        line(last := built.standing().at(now_s))

    try:
        yield show
    finally:
        line.close(last)


def check_losing_nothing(faults: Iterable[Fault], otherwise: str = DELAYING) -> tuple[Fault, ...]:
    """Return faults as a tuple, if none loses what others would wait for without end.

    `otherwise` is the advice in the error.

    Raises ValueError: one does; or something is no fault.
    """
    found = check_faults(faults)
    for fault in found:
        if isinstance(fault, LOSING):
            raise UserError(
                f"{fault} loses messages that others would wait for without end; {otherwise}"
            )
    return found
