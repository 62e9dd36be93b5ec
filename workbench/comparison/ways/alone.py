"""A node that learns alone: from its own samples, or from those that all holders send it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from workbench.comparison.question import Question, UnusableError
from workbench.comparison.routes import Pair, at_beginning
from workbench.comparison.use import Phase, no_work
from workbench.comparison.ways.way import (
    EQUAL,
    Candidate,
    Option,
    Training,
    Way,
    fastest,
)
from workbench.runtime import Message

if TYPE_CHECKING:
    from workbench.runtime import Context, Program

AHEAD = 1
"""Batches that are sent while one is learnt from; more, where they are long on their way."""

MOST_AHEAD = 500
"""Where they are on their way for longer than it takes to learn from this number."""


@dataclass(frozen=True)
class Learner:
    """A node that learns from the samples of some holders, an iteration's part from each."""

    question: Question
    node: int
    holders: Collection[int]

    @property
    def sent(self) -> dict[Pair, float]:
        """Bytes that each of the other holders sends for an iteration."""
        question = self.question
        total = sum(question.samples[one] for one in self.holders)
        batch_bytes = question.batch_size * question.sample_bytes
        return {
            (one, self.node): batch_bytes * question.samples[one] / total
            for one in self.holders
            if one != self.node
        }

    @property
    def nodes(self) -> Sequence[int]:
        """The learner, and those that send."""
        return [self.node, *(one for one, _ in self.sent)]

    @property
    def sent_s(self) -> float:
        """Lower bound on the seconds in which an iteration's samples arrive."""
        question, sent = self.question, self.sent
        downlink = question.routes.nodes[self.node].downlink
        whole_s = 8 * sum(sent.values()) / at_beginning(downlink) if downlink else 0.0
        return max(
            whole_s,
            *(
                question.routes.link(*pair).overhead_s + 8 * size / question.routes.path_bps(*pair)
                for pair, size in sent.items()
            ),
            0.0,
        )

    @property
    def ahead(self) -> int:
        """Number of batches that are sent in advance."""
        links = [self.question.routes.link(*way) for a, b in self.sent for way in ((a, b), (b, a))]
        latency_s = max((link.latency_s for link in links), default=0.0)
        iteration_s = max(self.question.batch_s(self.node), self.sent_s)
        return min(MOST_AHEAD, AHEAD + math.ceil(2 * latency_s / iteration_s))

    def programs(self, iterations: int, arriving: int) -> list[Program]:
        """Return programs of the learner and the senders.

        The first `arriving` iterations wait for their samples; later ones use stored samples.
        """
        cost_s = self.question.batch_s(self.node) * self.question.speeds[self.node]
        learning = _learning(iterations, arriving, len(self.sent), cost_s, self.ahead)
        return [learning, *(_sending(arriving, size) for size in self.sent.values())]

    def sending(self, share: float = 1.0) -> Phase:
        """Iterations whose samples are sent, this share of all."""
        first = self.ahead + 2
        return self._phase(lambda count: self.programs(count, count), first, first + 8, share)

    def stored(self, share: float = 1.0) -> Phase:
        """Iterations whose samples are stored, this share of all."""
        return self._phase(lambda iterations: self.programs(iterations, 0), 1, 2, share)

    def _phase(
        self, programs: Callable[[int], list[Program]], first: int, last: int, share: float
    ) -> Phase:
        pairs = [pair for a, b in self.sent for pair in ((a, b), (b, a))]
        cluster, samples = (
            self.question.routes.part(self.nodes, pairs=pairs),
            self.question.batch_size,
        )
        return Phase(cluster, self.nodes, programs, samples, first=first, last=last, share=share)


def from_own_samples(question: Question) -> Option:
    """The holder of samples that learns fastest from its own."""
    holders = [node for node in question.unlike if node in question.samples]
    learners = [Learner(question, node, (node,)) for node in holders]
    return _fastest(learners, lambda learner: [learner.stored()])


def sent_each_epoch(question: Question) -> Option:
    """The node that learns fastest from all samples, sent ahead of each batch; it stores none."""
    said = "samples are sent in every epoch, ahead of the batch that needs them"
    return _fastest(_of_all_samples(question), lambda learner: [learner.sending()], assumes=(said,))


def sent_once(question: Question) -> Option:
    """The node whose whole training is shortest, where it keeps the samples that are sent to it.

    They are sent in the first epoch, learnt from as they come, and kept.
    """
    epochs, count = question.epochs, sum(question.samples.values())
    stored = f"{count:,} samples ({count * question.sample_bytes / 1e9:.3g} GB)"
    in_epoch = -(-count // question.batch_size)
    return _fastest(
        _of_all_samples(question),
        lambda learner: [
            learner.sending(1 / epochs),
            learner.stored(1 - 1 / epochs),
        ],
        lambda learner: lambda number: learner.programs(number, min(number, in_epoch)),
        assumes=(
            f"the node keeps {stored}",
            f"mean over {epochs} epochs; samples are sent in the first",
        ),
    )


def _of_all_samples(question: Question) -> list[Learner]:
    if len(question.cluster) == 1:
        raise UnusableError("there is no second node to send samples")
    return [
        Learner(question, node, question.holders)
        for node in question.unlike
        if question.holders != (node,)
    ]


def _fastest(
    learners: Sequence[Learner],
    phases: Callable[[Learner], Sequence[Phase]],
    training: Callable[[Learner], Training] | None = None,
    assumes: tuple[str, ...] = (),
) -> Option:
    question = learners[0].question
    candidates = []
    for learner in learners:
        compute_s = question.batch_s(learner.node)
        sending_s = max(compute_s, learner.sent_s)
        share = phases(learner)[0].share if learner.sent else 0.0
        least_s = share * sending_s + (1 - share) * compute_s
        lacks = not question.fits(learner.node, question.batch_size)
        option = partial(
            Option.of,
            question,
            phases(learner),
            training=None if training is None else training(learner),
            learns_from=learner.holders,
            batches={learner.node: question.batch_size},
            where=f"on {question.cluster.names[learner.node]}",
            assumes=assumes,
        )
        candidates.append(Candidate(int(lacks), least_s / question.batch_size, option))
    return fastest(question, candidates)


def _learning(iterations: int, arriving: int, senders: int, cost_s: float, ahead: int) -> Program:
    """The first iterations learn from samples as they arrive, the others from those kept."""

    async def program(context: Context) -> None:
        def ask() -> None:
            for sender in range(1, senders + 1):
                context.send(sender, Message(0, "more", control=True))

        for _ in range(min(ahead, arriving)):
            ask()
        for number in range(iterations):
            if number < arriving:
                for sender in range(1, senders + 1):
                    await context.receive("samples", sender=sender)
            if number + ahead < arriving:
                ask()
            await context.compute(no_work, cost_s=cost_s, lane="learn", label=str(number))

    return program


def _sending(iterations: int, size_bytes: float) -> Program:
    async def program(context: Context) -> None:
        for _ in range(iterations):
            await context.receive("more")
            context.send(0, Message(context.node, "samples", None, size_bytes))

    return program


WAYS = (
    Way(name="one node", system="one node", update=EQUAL, plan=from_own_samples),
    Way(
        name="one node, samples sent once",
        system="one node",
        update=EQUAL,
        moves_samples=True,
        plan=sent_once,
    ),
    Way(
        name="one node, samples sent each epoch",
        system="one node",
        update=EQUAL,
        moves_samples=True,
        plan=sent_each_epoch,
    ),
)
