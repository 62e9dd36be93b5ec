"""Programs of the nodes of a pipeline: each carries its list of operations out.

A pass of a micro-batch waits for its rows from the replicas before it, computes, and sends on the
rows that the replicas behind it have. At the end of a step, replicas of a stage sum their
gradients, and so do all that hold a tied weight; then every node updates its weights, and begins
the next step. A stage without backward passes begins a step with the stage behind it.

Where samples have other owners, a node of the first stage asks for those of a later step as it
begins one, and every owner sends its part of them.

Without a flush (PipeDream, Narayanan et al. 2019) one list goes over all steps: each micro-batch is
a step of its own, and a stage updates its weights after each backward pass.

Where messages block, sender and receiver meet by control messages. A link's latency delays these,
too, which the cost model leaves out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from workbench.clusters import Cluster, Link, Node
from workbench.pipelines.asynchronous import check_without_flush
from workbench.pipelines.costs import (
    check,
    link_of,
    pass_s,
    reductions,
    samples_sent,
    transfer_bytes,
    update_s,
)
from workbench.pipelines.learning import Learner
from workbench.pipelines.problems import Problem
from workbench.pipelines.schedules import (
    Pass,
    Plan,
    Transfer,
    operations,
    source,
    target,
    transfers,
)
from workbench.runtime import Message
from workbench.sharding.collective_costs import AllReduce
from workbench.sharding.collectives import all_reduce
from workbench.utils.checks import UserError, check_truth, check_whole

if TYPE_CHECKING:
    from workbench.clusters.cluster import Name
    from workbench.runtime import Context, Program

AHEAD = 1
"""Steps whose samples are sent in advance where latencies are short; longer ones need more."""

MOST_AHEAD = 500
"""Limit on the steps whose samples are sent in advance, however long latencies are."""


@dataclass(frozen=True)
class Arrival:
    """Request and wait for the samples of a node of the first stage.

    Attributes
    ----------
    senders
        Owners that send it samples.
    ahead
        Steps for which it asks in advance.
    iterations
        Steps of the training.
    """

    senders: Sequence[int]
    ahead: int
    iterations: int

    async def wait(self, context: Context, iteration: int) -> None:
        """Wait for the samples of an iteration; ask for those of a later one."""
        for later in range(iteration + self.ahead if iteration else 0, iteration + self.ahead + 1):
            if later < self.iterations:
                for sender in self.senders:
                    context.send(sender, Message(context.node, "more", control=True))
        for sender in self.senders:
            await context.receive("samples", sender=sender)


@dataclass(frozen=True, eq=False, kw_only=True)
class Worker:
    """Program of a node with one or more stages.

    Attributes
    ----------
    node
        Its number in problem, plan and cluster.
    iterations
        Steps of `problem.batch` samples.
    flushes
        Whether a step ends before the next begins; otherwise micro-batches follow each other.
    arrival
        Arrival of samples that others send; by default the node has them.
    """

    node: int
    iterations: int
    problem: Problem
    plan: Plan
    flushes: bool = True
    learner: Learner = field(default_factory=Learner)
    arrival: Arrival | None = None
    _tensors: dict[Transfer, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def _sums(self) -> list[tuple[int, AllReduce]]:
        """All-reduces in which the node takes part, each with its number."""
        numbered = enumerate(reductions(self.problem, self.plan))
        return [(number, each) for number, each in numbered if self.node in each.nodes]

    async def __call__(self, context: Context) -> None:
        """Carry out all steps."""
        if self.flushes:
            await self._flushing(context)
        else:
            await self._without_flush(context)

    async def _flushing(self, context: Context) -> None:
        own = operations(self.plan, self.problem.first_trained)[self.node]
        for iteration in range(self.iterations):
            self.learner.begin(iteration)
            if iteration:
                await self._begin(context)
            for operation in own:
                await self._carry_out(context, operation, iteration)
            await self._update(context)

    async def _without_flush(self, context: Context) -> None:
        plan, trained = self.plan, self.problem.first_trained
        plan = replace(plan, microbatches=self.iterations * plan.microbatches)
        has_gradients = False
        for operation in operations(plan, trained)[self.node]:
            is_sent = isinstance(operation, Transfer) and operation.sender == self.node
            if has_gradients and not is_sent:  # the stage before waits for no update
                await self._update(context)
                has_gradients = False
            await self._carry_out(context, operation)
            if isinstance(operation, Pass):
                has_gradients = operation.backward
                if plan.stages[operation.stage].last < trained:  # learns nothing, but ends epochs
                    self._record(context, self.learner.step())
        if has_gradients:
            await self._update(context)

    async def _begin(self, context: Context) -> None:
        """Begin a step after the stage behind, if there are no gradients to wait for."""
        stages, trained = self.plan.stages, self.problem.first_trained
        forward_only = [number for number, stage in enumerate(stages) if stage.last < trained]
        for number in reversed(forward_only):
            nodes, behind = stages[number].nodes, stages[number + 1].nodes[0]
            topic = f"begin {number}"
            if self.node in nodes and self.node != behind:
                await context.receive(topic, sender=behind)
            if self.node == behind:
                for node in nodes:
                    if node != behind:
                        context.send(node, Message(context.node, topic, control=True))

    async def _carry_out(
        self, context: Context, operation: Pass | Transfer, iteration: int = 0
    ) -> None:
        if isinstance(operation, Pass):
            await self._compute(context, operation, iteration)
        elif operation.sender == self.node:
            await self._send(context, operation)
        else:
            await self._receive(context, operation)

    async def _compute(self, context: Context, pass_: Pass, iteration: int) -> None:
        """Do a pass on the rows that arrived, and cut its output into the rows to be sent."""
        learner, plan = self.learner, self.plan
        before, after = source(plan, pass_), target(plan, pass_, self.problem.first_trained)
        inputs = None
        if before is not None:
            arrived = transfers(plan, before, pass_)
            own = [transfer for transfer in arrived if transfer.receiver == self.node]
            inputs = learner.join([self._tensors.pop(transfer) for transfer in own])
        elif not pass_.backward and self.arrival is not None:
            later, microbatch = divmod(pass_.microbatch, plan.microbatches)
            if not microbatch:
                await self.arrival.wait(context, iteration + later)
        outputs = await context.compute(
            partial(learner.backward if pass_.backward else learner.forward, pass_, inputs),
            cost_s=pass_s(self.problem, plan, self.node, pass_),
            lane="backward" if pass_.backward else "forward",
            label=str(pass_),
        )
        if after is not None:
            replicas = plan.stages[pass_.stage].rows()
            start = next(low for node, low, _ in replicas if node == self.node)
            for transfer in transfers(plan, pass_, after):
                if transfer.sender == self.node:
                    rows = slice(transfer.start - start, transfer.stop - start)
                    self._tensors[transfer] = learner.rows(outputs, rows)

    async def _send(self, context: Context, transfer: Transfer) -> None:
        """Send rows; where messages block, once the receiver is ready, until they arrive."""
        topic, to, blocking = str(transfer.made_by), transfer.receiver, self.plan.blocking
        if blocking:
            await context.receive(f"{topic} wanted", sender=to)
        size_bytes = transfer_bytes(self.problem, self.plan, transfer)
        payload = self._tensors.pop(transfer)
        context.send(to, Message(context.node, topic, payload, size_bytes))
        if blocking:
            await context.receive(f"{topic} arrived", sender=to)

    async def _receive(self, context: Context, transfer: Transfer) -> None:
        topic, sender, blocking = str(transfer.made_by), transfer.sender, self.plan.blocking
        if blocking:
            context.send(sender, Message(context.node, f"{topic} wanted", control=True))
        message = await context.receive(topic, sender=sender)
        if blocking:
            context.send(sender, Message(context.node, f"{topic} arrived", control=True))
        self._tensors[transfer] = message.payload

    async def _update(self, context: Context) -> None:
        """Sum gradients with others and update the weights; record losses and models."""
        for number, (nodes, size_bytes) in self._sums:
            value = self.learner.gradients(number)
            await all_reduce(context, nodes, value, size_bytes, topic=f"sum {number}")
            self.learner.set_gradients(number, value)
        cost_s = update_s(self.problem, self.plan, self.node)
        records = await context.compute(self.learner.step, cost_s=cost_s, lane="update")
        self._record(context, records)

    def _record(self, context: Context, records: Sequence[Any]) -> None:
        for value in records:
            context.record(value)

    def warm_up(self) -> None:
        """Compute the gradient of the first micro-batch, and forget it."""
        self.learner.warm_up()


async def _idle(context: Context) -> None:
    """Program of a node without a stage."""


def _with_samples(worker: Program, sizes: Mapping[int, float], iterations: int) -> Program:
    """Program of a node that also sends samples, by their bytes, whenever it is asked for more."""

    async def send(context: Context) -> None:
        for _ in range(iterations * len(sizes)):
            to = (await context.receive("more")).sender
            size = sizes[to]
            context.send(to, Message(context.node, "samples", None, size, control=not size))

    async def program(context: Context) -> None:
        sending = context.spawn(send(context))
        await worker(context)
        await sending

    return program if sizes else worker


def ahead(problem: Problem, plan: Plan, step_s: float) -> int:
    """Steps whose samples are sent in advance, so that latencies do not delay a step."""
    ways = [way for ends in samples_sent(problem, plan) for way in (ends, ends[::-1])]
    latency_s = max((link_of(problem, *way).latency_s for way in ways), default=0.0)
    return steps_ahead(latency_s, step_s)


def steps_ahead(latency_s: float, step_s: float) -> int:
    """Steps whose samples are sent in advance over links of this latency at most."""
    return min(MOST_AHEAD, AHEAD + math.ceil(2 * latency_s / max(step_s, 1e-12)))


def cluster_of(problem: Problem) -> Cluster:
    """Nodes and links of a problem, with its owners; no two links share anything."""
    links: dict[tuple[Name, Name], Link] = {(a, b): link for (a, b), link in problem.links.items()}
    return Cluster([Node(f"node{node}") for node in range(problem.places)], links)


def programs_of(
    problem: Problem,
    plan: Plan,
    iterations: int,
    *,
    flushes: bool = True,
    learners: Sequence[Learner] = (),
    in_advance: int = AHEAD,
) -> list[Program]:
    """Programs for the nodes of ``cluster_of(problem)``, in their order.

    Parameters
    ----------
    flushes
        Whether all micro-batches of a step end before its update, as in GPipe and 1F1B. Without,
        it is PipeDream: see `check_without_flush`.
    learners
        Learner of each node; by default only bytes move.
    in_advance
        Steps whose samples are sent in advance, as `ahead` says, where they have owners.

    Raises
    ------
    UserError
        The plan is not one for this problem, or sends between nodes without a link.
    """
    check(problem, plan)
    check_truth("flushes", flushes)
    iterations = check_whole("iterations", iterations, 1)
    if len(learners) not in (0, problem.nodes):
        raise UserError(f"learners has {len(learners)} values for {problem.nodes} nodes")
    if not flushes:
        check_without_flush(problem, plan)
    for operation in chain.from_iterable(operations(plan).values()):
        if isinstance(operation, Transfer) and not operation.made_by.backward:
            link_of(problem, operation.sender, operation.receiver)
    sizes = defaultdict[int, dict[int, float]](dict)  # by owner and node
    for (owner, node), size in samples_sent(problem, plan).items():
        sizes[owner][node] = size
    programs: list[Program] = []
    for node in range(problem.places):
        program: Program = _idle
        if node in plan.nodes:
            senders = [owner for owner, sent in sizes.items() if node in sent]
            program = Worker(
                node=node,
                iterations=iterations,
                problem=problem,
                plan=plan,
                flushes=flushes,
                learner=learners[node] if learners else Learner(),
                arrival=Arrival(senders, in_advance, iterations) if senders else None,
            )
        programs.append(_with_samples(program, sizes[node], iterations))
    return programs
