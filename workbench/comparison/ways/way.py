"""A way of training as one value, and its best use of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from workbench.comparison.memory import NodeMemory
from workbench.comparison.question import Question, UnusableError
from workbench.comparison.use import Phase, Runner, Use, carried, mean, within_links
from workbench.runtime import Program, simulate

EQUAL = "equal to SGD"
AVERAGES = "averages models"

Training = Callable[[int], Sequence[Program]]
"""Programs of a training, by its iterations."""

ROUNDING = 1e-9
"""Options that are faster by less are as fast."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """A way of training on one cluster.

    Attributes
    ----------
    use
        What an iteration takes, simulated.
    phases
        Its programs, without learning; most trainings have one phase, some have no such programs.
    uses
        What an iteration of each phase takes.
    training
        Its programs over a whole training, where that has several phases.
    predicted_s
        Seconds of an iteration by the cost model of the way's paper, if that has one.
    learns_from
        Nodes whose samples are learnt from.
    batches
        Node -> samples of which it holds the results at once, 0 for a server.
    server
        Node that keeps the model for others, which may learn as well.
    memory
        What nodes hold, where that is not a step of the whole model with these samples.
    where
        Which nodes have which role: ``"server on edge"``; "" where all have the same.
    assumes
        What was assumed or left out, a phrase each.
    """

    use: Use
    phases: Sequence[Phase] = ()
    uses: Sequence[Use] = ()
    training: Training | None = None
    predicted_s: float | None = None
    learns_from: Collection[int]
    batches: Mapping[int, int]
    server: int | None = None
    memory: Mapping[int, NodeMemory] | None = None
    where: str = ""
    assumes: tuple[str, ...] = ()

    @classmethod
    def of(cls, question: Question, phases: Sequence[Phase], **about: Any) -> Option:
        """Simulate the programs; `about` are the other attributes."""
        uses = [within_links(question, phase.use()) for phase in phases]
        use = mean(uses, [phase.share for phase in phases])
        return cls(use=use, phases=phases, uses=uses, **about)

    def run(self, run: Runner = simulate, count: int | None = None) -> Use:
        """What an iteration takes as its programs have it, simulated or measured."""
        uses = [phase.use(run, count) for phase in self.phases]
        return mean(uses, [phase.share for phase in self.phases])


class Candidate(NamedTuple):
    """An option that has not been simulated yet.

    Attributes
    ----------
    lacking
        Number of nodes that take part and lack the memory.
    least_s
        Lower bound on the seconds per sample.
    option
        Simulates the option and returns it.
    """

    lacking: int
    least_s: float
    option: Callable[[], Option]


def fastest(question: Question, candidates: Iterable[Candidate]) -> Option:
    """The option with the most samples a second of those under which most nodes have the memory.

    Of options as fast, the one that learns from most samples, then that sends least. Who cannot be
    the fastest by its bound is not simulated.
    """
    best: Option | None = None
    fewest, best_key = 0, (0.0, 0.0, 0.0)
    for lacking, least_s, option in sorted(candidates, key=lambda one: one[:2]):
        if best is not None and (lacking > fewest or least_s * best_key[0] > 1 + ROUNDING):
            break
        tried = option()
        sent = sum(size for size, _ in carried(question, tried.use).values()) / tried.use.samples
        rate = float(f"{tried.use.samples_per_s:.9g}")
        key = rate, question.share(tried.learns_from), -sent
        if best is None or key > best_key:
            best, fewest, best_key = tried, lacking, key
    assert best is not None
    return best


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way of training.

    Attributes
    ----------
    system
        The system it belongs to: ``"DynaComm"``.
    update
        How a step differs from SGD on one machine.
    moves_samples
        Whether raw samples leave the node that holds them.
    survives
        Whether the others go on if a node dies.
    plan
        Finds the fastest use of a cluster; raises `UnusableError`.
    """

    name: str
    system: str
    update: str
    moves_samples: bool = False
    survives: bool = False
    plan: Callable[[Question], Option]

    def find(self, question: Question) -> Option:
        """The fastest use of a cluster, within what its links carry.

        Raises UnusableError: there is none.
        """
        if self.moves_samples and not question.cluster.raw_samples_may_leave:
            raise UnusableError("raw samples may not leave the node that holds them")
        return self.plan(question)


def options(question: Question, ways: Iterable[Way]) -> Iterator[tuple[Way, Option | str]]:
    """Each way with its fastest use of a cluster, or with the reason why there is none."""
    for way in ways:
        try:
            yield way, way.find(question)
        except UnusableError as error:
            yield way, str(error)


def usable(question: Question, ways: Iterable[Way]) -> dict[str, Option]:
    """Ways that can be used, by name, each with its fastest use of the cluster."""
    found = options(question, ways)
    return {way.name: option for way, option in found if isinstance(option, Option)}
