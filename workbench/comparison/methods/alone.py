"""Training on a single node, from its own samples or from those that all data owners send it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from workbench.comparison.cost import Phase, no_work, periods
from workbench.comparison.methods.method import (
    EQUAL,
    Candidate,
    Method,
    Plan,
    Training,
    fastest,
)
from workbench.comparison.problem import Problem, UnusableError
from workbench.comparison.routes import Pair, at_beginning
from workbench.pipelines.programs import steps_ahead
from workbench.runtime import Message

if TYPE_CHECKING:
    from workbench.runtime import Context, Program


@dataclass(frozen=True)
class SingleNode:
    """A node that learns, and the data owners whose samples make up its batches."""

    problem: Problem
    node: int
    owners: Collection[int]

    @property
    def sent(self) -> dict[Pair, float]:
        """(owner, this node) -> bytes that another data owner sends for an iteration."""
        problem = self.problem
        total = sum(problem.samples[owner] for owner in self.owners)
        step_bytes = problem.step_samples * problem.sample_bytes
        return {
            (owner, self.node): step_bytes * problem.samples[owner] / total
            for owner in self.owners
            if owner != self.node
        }

    @property
    def nodes(self) -> Sequence[int]:
        """The learner, then the senders."""
        return [self.node, *(sender for sender, _ in self.sent)]

    @property
    def sent_s(self) -> float:
        """Lower bound on the seconds until an iteration's samples have arrived."""
        problem, sent = self.problem, self.sent
        downlink = problem.routes.nodes[self.node].downlink
        whole_s = 8 * sum(sent.values()) / at_beginning(downlink) if downlink else 0.0
        return max(
            whole_s,
            *(
                problem.routes.link(*pair).overhead_s + 8 * size / problem.routes.path_bps(*pair)
                for pair, size in sent.items()
            ),
            0.0,
        )

    @property
    def ahead(self) -> int:
        """Number of batches sent in advance, so that latencies do not delay learning."""
        links = [self.problem.routes.link(*pair) for a, b in self.sent for pair in ((a, b), (b, a))]
        latency_s = max((link.latency_s for link in links), default=0.0)
        iteration_s = max(self.problem.step_s(self.node), self.sent_s)
        return steps_ahead(latency_s, iteration_s)

    def programs(self, iterations: int, arriving: int) -> list[Program]:
        """Return programs of the learner and the senders.

        The first `arriving` iterations wait for their samples; later ones use stored samples.
        """
        cost_s = self.problem.step_s(self.node) * self.problem.speeds[self.node]
        learning = _learning(iterations, arriving, len(self.sent), cost_s, self.ahead)
        return [learning, *(_sending(arriving, size) for size in self.sent.values())]

    def sending(self, share: float = 1.0) -> Phase:
        """Iterations whose samples are sent; they are this share of all iterations."""
        first = self.ahead + 2
        return self._phase(lambda count: self.programs(count, count), first, first + 8, share)

    def stored(self, share: float = 1.0) -> Phase:
        """Iterations whose samples are stored; they are this share of all iterations."""
        return self._phase(lambda count: self.programs(count, 0), 1, 2, share)

    def of(self, problem: Problem) -> SingleNode:
        """The same node in another period of the training."""
        return replace(self, problem=problem)

    def _phase(
        self, programs: Callable[[int], list[Program]], first: int, last: int, share: float
    ) -> Phase:
        pairs = [pair for a, b in self.sent for pair in ((a, b), (b, a))]
        cluster = self.problem.routes.part(self.nodes, pairs=pairs)
        samples = self.problem.step_samples
        return Phase(cluster, self.nodes, programs, samples, first=first, last=last, share=share)


def from_own_samples(problem: Problem) -> Plan:
    """The data owner that learns fastest from its own samples."""
    owners = [node for node in problem.unlike if node in problem.samples]
    learners = [SingleNode(problem, node, (node,)) for node in owners]
    return _fastest(
        learners, lambda learner: periods(problem, lambda part: learner.of(part).stored())
    )


def sent_each_epoch(problem: Problem) -> Plan:
    """The node that learns fastest from all samples, which it does not store."""
    assumes = ("samples are sent in every epoch, ahead of the batch that needs them",)
    return _fastest(_of_all_samples(problem), lambda learner: [learner.sending()], assumes=assumes)


def sent_once(problem: Problem) -> Plan:
    """The node with the shortest training if it stores all samples.

    Samples are sent in the first epoch, and learnt from as they arrive.
    """
    epochs, samples = problem.epochs, sum(problem.samples.values())
    first, later = problem.periods[0][0], problem.periods[-1][0]
    stored = f"{samples:,} samples ({samples * problem.sample_bytes / 1e9:.3g} GB)"
    in_epoch = -(-samples // problem.step_samples)
    return _fastest(
        _of_all_samples(problem),
        lambda learner: [
            learner.of(first).sending(1 / epochs),
            learner.of(later).stored(1 - 1 / epochs),
        ],
        lambda learner: lambda count: learner.programs(count, min(count, in_epoch)),
        assumes=(
            f"the node keeps {stored}",
            f"mean over {epochs} epochs; samples are sent in the first",
        ),
    )


def _of_all_samples(problem: Problem) -> list[SingleNode]:
    if len(problem.cluster) == 1:
        raise UnusableError("there is no second node to send samples")
    return [
        SingleNode(problem, node, problem.owners)
        for node in problem.unlike
        if problem.owners != (node,)
    ]


def _fastest(
    learners: Sequence[SingleNode],
    phases: Callable[[SingleNode], Sequence[Phase]],
    training: Callable[[SingleNode], Training] | None = None,
    assumes: tuple[str, ...] = (),
) -> Plan:
    problem = learners[0].problem
    candidates = []
    for learner in learners:
        first_s, later_s = (problem.periods[at][0].step_s(learner.node) for at in (0, -1))
        share = phases(learner)[0].share
        least_s = share * max(first_s, learner.sent_s) + (1 - share) * later_s
        lacks = not problem.fits(learner.node, problem.batch_size)
        plan = partial(
            Plan.of,
            problem,
            phases(learner),
            training=None if training is None else training(learner),
            learns_from=learner.owners,
            batches={learner.node: problem.batch_size},
            where=f"on {problem.cluster.names[learner.node]}",
            assumes=assumes,
            accumulates=problem.accumulate,
        )
        candidates.append(Candidate(int(lacks), least_s / problem.step_samples, plan))
    return fastest(problem, candidates)


def _learning(iterations: int, arriving: int, senders: int, cost_s: float, ahead: int) -> Program:
    """The learner: `arriving` iterations wait for their samples, the others have them stored."""

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


METHODS = (
    Method(name="one node", system="one node", update=EQUAL, planner=from_own_samples),
    Method(
        name="one node, samples sent once",
        system="one node",
        update=EQUAL,
        moves_samples=True,
        stores_samples=True,
        planner=sent_once,
    ),
    Method(
        name="one node, samples sent each epoch",
        system="one node",
        update=EQUAL,
        moves_samples=True,
        planner=sent_each_epoch,
    ),
)
