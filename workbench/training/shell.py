"""Runs a training of any system: its progress, and its partial results where it ends early."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from workbench.clusters import Cluster
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
from workbench.runtime.progress import Progress, check_progress, showing
from workbench.training.repeatable import fixed_threads
from workbench.training.setup import Setup
from workbench.training.trained import DivergedError, Epochs, Trained, TrainingError
from workbench.utils.checks import UserError, at_least, check_fields, check_truth, optional

if TYPE_CHECKING:
    from workbench.clusters.cluster import Name

T = TypeVar("T", bound=Trained[Any])

LOSING = Crash | LinkDown | Lossy
"""Faults that lose messages, or all that a node holds. The others only cost time."""

DELAYING = (
    "give a SlowDown, or the link a bandwidth Schedule with zeros for an outage that only delays; "
    "or train without a server, by `workbench.decentralised`, where with patience_s=... the others "
    "go on"
)
"""What to do instead where nobody can go on without the others."""

NOBODY = "nobody is left: all nodes crashed and stayed down; give one fewer Crash, or a Restart"


@dataclass(frozen=True)
class RunOptions:
    """How a training runs; `faults`, `trace` and `threads` are those of `runtime.simulate`.

    `progress` is True to show epochs, virtual time and loss; or a function, as for `simulate`.
    With `measured` the nodes are real processes, and ``"unpadded"`` lets their work take the time
    that it takes: see `runtime.measured.measure`. What each epoch's evaluation takes on a node
    itself counts then; progress is not shown. `address` is then a Ray cluster's, and `resources`
    what nodes need of its machines.
    """

    faults: Iterable[Fault] = ()
    trace: bool = False
    progress: Progress | bool = False
    threads: int | None = field(default=None, metadata=optional(at_least(1)))
    measured: bool | Literal["unpadded"] = False
    address: str | None = None
    resources: Mapping[Name, Mapping[str, float]] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "faults", check_faults(self.faults))
        check_truth("trace", self.trace)
        check_progress(self.progress)
        if self.measured != "unpadded":
            check_truth("measured", self.measured)
        if not self.measured and (self.address is not None or self.resources):
            raise UserError("address and resources are of measured runs; give measured=True")


class Standing(NamedTuple):
    """Progress of a training: epochs done and planned, percent of the work, latest losses.

    `what` names the epochs that are counted. None are planned where something else ends a training.
    """

    epochs: int
    planned: int
    percent: int
    losses: tuple[str, ...] = ()
    what: str = "epochs"

    @property
    def done(self) -> str:
        """How many were done, of how many that were planned."""
        return f"{self.epochs} {f'of {self.planned} ' if self.planned else ''}{self.what}"

    def at(self, now_s: float) -> str:
        """The progress at a virtual time, in one line."""
        done = f"{self.done}, {self.percent} %"
        return ", ".join((done, f"{now_s:,.1f} virtual seconds", *self.losses))


@dataclass(frozen=True, eq=False)
class Programs(ABC, Generic[T]):
    """What runs a training, before it starts.

    `cluster`, `programs` and `until_s` are those of `workbench.runtime.simulate`. A program that
    learns owns what it learns with; results come from what programs record, return and have learnt.
    """

    setup: Setup
    cluster: Cluster
    programs: list[Program]

    @property
    def until_s(self) -> float | None:
        """When it stops, whatever still runs; None for when all have ended."""
        return None

    def check_measurable(self) -> None:
        """Refuse to be measured, where real processes would not compute what is simulated."""

    @abstractmethod
    def observe(self, at_s: float, node: int, value: Any) -> None:
        """Take what a program records; see `workbench.runtime.Context.record`."""

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
            reason,
        )


@dataclass(frozen=True, eq=False)
class OneModel(Programs[T]):
    """Nodes that train one model: `epochs` evaluates it, after the iterations of `epoch_ends`.

    `losses` are those of each iteration that all have done.
    """

    epochs: Epochs
    epoch_ends: tuple[int, ...]
    losses: list[float] = field(default_factory=list, kw_only=True)

    def standing(self) -> Standing:
        """Epochs, and iterations with the loss of the latest."""
        losses, epochs, ends = self.losses, self.epochs, self.epoch_ends
        latest = [f"loss {losses[-1]:.3f} in iteration {len(losses)}"] if losses else []
        if epochs.last_loss is not None:
            latest.append(f"{epochs.last_loss:.3f} over all samples after epoch {len(epochs)}")
        return Standing(len(epochs), len(ends), 100 * len(losses) // ends[-1], tuple(latest))


class Trainable(Protocol[T]):
    """A setup that can be trained; `how` is what its system decides."""

    def programs(self, how: Any) -> Programs[T]:
        """Make the programs of a run and what they learn with."""
        ...

    def check_faults(self, faults: Sequence[Fault], how: Any) -> None:
        """Refuse faults that would make somebody wait without end."""
        ...


def train(setup: Trainable[T], how: Any, options: RunOptions | None = None) -> T:
    """Train what a setup says, as `how` says; errors as for `run`, and as the setup's system."""
    options = RunOptions() if options is None else options
    setup.check_faults(tuple(options.faults), how)
    with fixed_threads():
        programs = setup.programs(how)
    return run(programs, options)


def run(programs: Programs[T], options: RunOptions | None = None) -> T:
    """Run a training to its end, or to Ctrl-C.

    Raises
    ------
    TrainingError
        The loss is not finite any more, a program failed, all wait for each other, or all nodes
        crashed for good; its `trained` has the epochs that were done.
    """
    options = RunOptions() if options is None else options
    shows: AbstractContextManager[Progress | bool] = nullcontext(options.progress)
    if options.progress is True:
        shows = showing(lambda now_s, _: programs.standing().at(now_s))
    with fixed_threads():
        try:
            with shows as shown:
                ended = _ended(programs, options, shown)
            if ended.ended == "done" and not ended.results:
                raise SimulationError(NOBODY, ended)
        except SimulationError as error:
            raise programs.failed(error) from error.__cause__ or error
        try:
            return programs.trained(ended)
        except DivergedError as error:  # in an evaluation at the end
            failed = SimulationError(str(error), replace(ended, ended="failed"))
            failed.__cause__ = error
            raise programs.failed(failed) from error


def _ended(programs: Programs[T], options: RunOptions, shown: Progress | bool) -> Run:
    given: dict[str, Any] = {
        "seed": programs.setup.seed,
        "trace": options.trace,
        "faults": options.faults,
        "until_s": programs.until_s,
        "observer": programs.observe,
    }
    nodes = programs.cluster, programs.programs
    if options.measured:
        from workbench.runtime.measured import measure

        programs.check_measurable()
        unpadded = options.measured == "unpadded"
        return measure(
            *nodes,
            **given,
            as_measured=unpadded,
            address=options.address,
            resources=options.resources,
        )
    return simulate(*nodes, **given, progress=shown, threads=options.threads)


def check_losing_nothing(faults: Iterable[Fault], otherwise: str = DELAYING) -> None:
    """Refuse a fault that loses what others wait for without end; `otherwise` is the advice."""
    for fault in faults:
        if isinstance(fault, LOSING):
            raise UserError(
                f"{fault} loses messages that others would wait for without end; {otherwise}"
            )
