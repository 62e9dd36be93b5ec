"""A node that learns alone: from its own samples, or from those that all holders send it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from workbench.comparison.question import Pair, Question, UnusableError, at_beginning
from workbench.comparison.sharing import Transfer, ends_s
from workbench.comparison.use import DryRun, Runner, Use, no_work, within_links
from workbench.comparison.ways.way import EQUAL, Option, Way, fastest
from workbench.runtime import Message

if TYPE_CHECKING:
    from workbench.runtime import Context, Program

AHEAD = 1
"""Batches that are sent while one is learnt from; more, where they are long on their way."""

MOST_AHEAD = 500
"""Where they are on their way for longer than it takes to learn from this number."""


class Learner(NamedTuple):
    """A node that learns from the samples of some holders, an iteration's part from each."""

    use: Use  # of an iteration whose samples are sent
    nodes: Sequence[int]  # the learner, and those that send
    holders: Collection[int]
    programs: Callable[[int, int], list[Program]]  # by iterations, and how many are sent
    ahead: int

    @classmethod
    def of(cls, question: Question, node: int, holders: Collection[int]) -> Learner:
        """All begin to send a batch when the one before is complete: exact without latencies.

        These shift transfers against each other, by at most the longest overhead.
        """
        batch, routed = question.batch_size, question.routed
        total = sum(question.samples[one] for one in holders)
        sent = {
            one: batch * question.samples[one] / total * question.sample_bytes
            for one in holders
            if one != node
        }
        pairs: dict[Pair, float] = {(one, node): size for one, size in sent.items()}
        compute_s = question.batch_s(node)
        downlink = routed.nodes[node].downlink
        arrivals = ends_s(
            [[Transfer(0.0, routed.link(*pair).overhead_s, 8 * pairs[pair])] for pair in pairs],
            [question.path_bps(*pair) for pair in pairs],
            at_beginning(downlink) if downlink else math.inf,
        )
        use = Use(
            iteration_s=max(compute_s, *(last for (last,) in arrivals), 0.0),
            samples=batch,
            busy_s={node: compute_s},
            link_bytes=pairs,
            messages=dict.fromkeys(pairs, 1.0),
        )
        latencies = [routed.link(*ends).latency_s for pair in pairs for ends in (pair, pair[::-1])]
        ahead = AHEAD + math.ceil(2 * max(latencies, default=0.0) / use.iteration_s)
        ahead = min(ahead, MOST_AHEAD)
        cost_s = compute_s * question.speeds[node]

        def programs(iterations: int, arriving: int) -> list[Program]:
            learning = _learning(iterations, arriving, len(sent), cost_s, ahead)
            return [learning, *(_sending(arriving, size) for size in sent.values())]

        return cls(use, [node, *sent], holders, programs, ahead)

    def dry(self, question: Question, sent: int | None = None) -> DryRun:
        """Iterations whose samples are sent, or those after a number of such."""
        first = self.ahead + 2 if sent is None else sent + 1
        return DryRun(
            question.part(self.nodes),
            self.nodes,
            lambda iterations: self.programs(iterations, iterations if sent is None else sent),
            self.use.samples,
            first=first,
            last=first + 8,
        )


def from_own_samples(question: Question) -> Option:
    """The holder of samples that learns fastest from its own."""
    nodes = (node for node in question.unlike if node in question.samples)
    learners = (Learner.of(question, node, (node,)) for node in nodes)
    return _fastest(question, (_option(question, one, ()) for one in learners))


def sent_each_epoch(question: Question) -> Option:
    """The node that learns fastest from all samples, sent ahead of each batch; it stores none."""
    assumes = ("samples are sent in every epoch, ahead of the batch that needs them",)
    return _fastest(question, (_option(question, one, assumes) for one in _learners(question)))


def sent_once(question: Question) -> Option:
    """The node whose whole training is shortest, where it keeps the samples that are sent to it."""
    best = fastest(question, (_keeping(question, one) for one in _learners(question)))
    learner = _learner(question, best)
    dry, count = learner.dry(question), sum(question.samples.values())

    def training(iterations: int) -> list[Program]:
        return learner.programs(iterations, min(iterations, -(-count // question.batch_size)))

    return replace(
        best,
        # To be shown, a training of two epochs.
        dry=replace(dry, programs=lambda each: learner.programs(each, -(-each // 2))),
        training=replace(dry, programs=training),
    )


def _fastest(question: Question, options: Iterable[Option]) -> Option:
    """The fastest option, with its programs."""
    best = fastest(question, options)
    return replace(best, dry=_learner(question, best).dry(question))


def _learner(question: Question, option: Option) -> Learner:
    (node,) = option.batches
    return Learner.of(question, node, option.learns_from)


def _learners(question: Question) -> Iterator[Learner]:
    if len(question.cluster) == 1:
        raise UnusableError("there is no second node to send samples")
    for node in question.unlike:
        if question.holders != (node,):
            yield Learner.of(question, node, question.holders)


def _option(question: Question, learner: Learner, assumes: tuple[str, ...]) -> Option:
    node = learner.nodes[0]
    return Option(
        use=learner.use,
        learns_from=learner.holders,
        batches={node: question.batch_size},
        where=f"on {question.cluster.names[node]}",
        assumes=assumes,
    )


def _keeping(question: Question, learner: Learner) -> Option:
    """Samples are sent in the first epoch, learnt from as they come, and kept."""
    node, epochs = learner.nodes[0], question.epochs
    own = replace(learner.use, iteration_s=question.batch_s(node), link_bytes={}, messages={})
    count = sum(question.samples.values())
    name = question.cluster.names[node]
    assumes = (
        f"{name} keeps {count:,} samples ({count * question.sample_bytes / 1e9:.3g} GB)",
        f"mean over {epochs} epochs; samples are sent in the first",
    )

    def again(run: Runner, count: int | None) -> Use:
        first, later = (learner.dry(question, sent).use(run, count) for sent in (None, 1))
        return _mean(within_links(question, first), later, epochs)

    first = within_links(question, learner.use)
    return Option(
        use=_mean(first, own, epochs),
        first=first,
        again=again,
        learns_from=learner.holders,
        batches={node: question.batch_size},
        where=f"on {name}",
        assumes=assumes,
    )


def _mean(first: Use, later: Use, epochs: int) -> Use:
    """Mean of an iteration, over a first epoch and later ones in which nothing is sent."""
    return replace(
        first,
        iteration_s=(first.iteration_s + (epochs - 1) * later.iteration_s) / epochs,
        link_bytes={pair: size / epochs for pair, size in first.link_bytes.items()},
        messages={pair: count / epochs for pair, count in first.messages.items()},
    )


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
