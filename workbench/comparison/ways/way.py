"""A way of training as one value, and its best use of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from workbench.comparison.memory import NodeMemory
from workbench.comparison.question import Question, UnusableError
from workbench.comparison.use import DryRun, Runner, Use, carried, within_links
from workbench.runtime import simulate

EQUAL = "equal to SGD"
AVERAGES = "averages models"


@dataclass(frozen=True, kw_only=True)
class Option:
    """A way of training on one cluster.

    Attributes
    ----------
    use
        What an iteration takes, as predicted.
    dry
        Its programs, without learning; None where there are none to show.
    training
        Its programs over a whole training, where `dry` shows only a part of it.
    again
        Runs iterations in the place of `dry`: a given number, or as many as it chooses.
    fewest
        Iterations that a mean needs, so that each device has its turn.
    within
        Makes an iteration as long as its busiest link is busy; see `use.within_links`.
    learns_from
        Nodes whose samples are learnt from.
    batches
        Node -> samples of which it holds the results at once, 0 for a server.
    first
        What an iteration of the first epoch takes, where others take less: `use` is the mean over
        the question's epochs.
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
    dry: DryRun | None = None
    training: DryRun | None = None
    again: Callable[[Runner, int | None], Use] | None = None
    fewest: int = 1
    within: Callable[[Use], Use] = lambda use: use
    learns_from: Collection[int]
    batches: Mapping[int, int]
    first: Use | None = None
    server: int | None = None
    memory: Mapping[int, NodeMemory] | None = None
    where: str = ""
    assumes: tuple[str, ...] = ()

    def simulate(self) -> Use:
        """What an iteration takes on the cluster, without learning."""
        return self.within(self.run(simulate))

    def run(self, run: Runner, count: int | None = None) -> Use:
        """The same as its programs alone have it, simulated or measured."""
        if self.again is not None:
            return self.again(run, count)
        return self.use if self.dry is None else self.dry.use(run, count)


def fastest(question: Question, options: Iterable[Option]) -> Option:
    """The option with the most samples a second of those under which most nodes have the memory.

    Of options that are alike in this, the one that learns from most samples, then that sends least.
    """

    def key(option: Option) -> tuple[float, ...]:
        fit = sum(question.fits(node, count) for node, count in option.batches.items())
        use = within_links(question, option.use)
        sent = sum(size for size, _ in carried(question, use).values()) / use.samples
        rate = float(f"{use.samples_per_s:.9g}")
        return fit - len(option.batches), rate, question.share(option.learns_from), -sent

    return max(options, key=key)


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
    waits
        Whether nodes wait for messages, at least in the long run, so that links set the pace.
    plan
        Finds the fastest use of a cluster; raises `UnusableError`.
    """

    name: str
    system: str
    update: str
    moves_samples: bool = False
    survives: bool = False
    waits: bool = True
    plan: Callable[[Question], Option]

    def find(self, question: Question) -> Option:
        """The fastest use of a cluster, within what its links carry.

        Raises UnusableError: there is none.
        """
        if self.moves_samples and not question.cluster.raw_samples_may_leave:
            raise UnusableError("raw samples may not leave the node that holds them")
        option = self.plan(question)
        if not self.waits:
            return option
        within = partial(within_links, question)
        return replace(option, use=within(option.use), within=within)


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
