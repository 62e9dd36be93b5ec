"""Workers and parameter servers that carry a plan out, simulated or measured.

Synchronous data-parallel training (Cai et al. 2021, Figs. 1 and 2): in every iteration each worker
pulls the model segment by segment under its plan, computes forward as segments arrive, computes
backward, and pushes gradients segment by segment. The servers average all workers' gradients, step,
and answer the next pulls. Weights are the same, bit for bit, under every plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np

from workbench.clusters import Link
from workbench.dynacomm.costs import FloatArray, Plan, check_model_and_link, runs
from workbench.profiles import LayerTimes, ModelProfile
from workbench.runtime import Message
from workbench.utils.checks import NOT_NEGATIVE, at_least, check_fields

if TYPE_CHECKING:
    from workbench.dynacomm.learning import ServerStore
    from workbench.runtime import Context, Program, Synchronized, Transfer
    from workbench.training.data_parallel import Parts, WorkerReplica

    Replica = Synchronized[WorkerReplica]

State = TypeVar("State")
T = TypeVar("T")


class Segment(NamedTuple):
    """Layers `first` to `last`, of which every server holds an equal part."""

    first: int
    last: int
    forward_s: float  # of the worker's computation
    backward_s: float
    pull_bytes: float  # of each part, on the links
    push_bytes: float
    tensors: int  # that count on the links, if tensors do
    where: list[list[slice]]  # in the model's flat vector, by server; empty if nothing is learnt

    @property
    def label(self) -> str:
        """Its layers, as a trace shows them."""
        return f"{self.first}-{self.last}"

    def message(self, sender: int, topic: str, payload: Any, size_bytes: float) -> Message:
        """A message with one server's part; of its tensors, only the number matters."""
        sizes = (size_bytes / self.tensors,) * self.tensors if self.tensors else ()
        return Message(sender, topic, payload, size_bytes, sizes)


@dataclass(frozen=True, eq=False)
class Job:
    """A training job: what all programs of a run know, but for the learning.

    The first nodes of the cluster are the workers, the next the servers; or `hub`, one of the
    workers, is the only server, too. Every server holds an equal part of every layer, as MXNet's
    servers do of large tensors.
    """

    forward_s: FloatArray  # of each layer at speed 1, (L,)
    backward_s: FloatArray  # (L,)
    pull_bytes: FloatArray  # each layer's parameters on the links, (L,), as `Link.weighted_bytes`
    push_bytes: FloatArray  # each layer's gradients, (L,)
    iterations: int = field(metadata=at_least(1))
    workers: int = field(default=1, metadata=at_least(1))
    servers: int = field(default=1, metadata=at_least(1))
    # of a server, to average and step
    aggregation_s: float = field(default=0.0, metadata=NOT_NEGATIVE)
    # parameter tensors of each layer, if each costs (`Link.tensor_s`), else ()
    tensors: tuple[int, ...] = ()
    # first element of each layer in the flat vector, and the end; () without learning
    starts: Sequence[int] = ()
    hub: int | None = None
    # batches of a step; only without learning, and every batch has the same seconds
    accumulate: int = 1

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def of(
        cls,
        profile: ModelProfile,
        times: LayerTimes,
        link: Link,
        *,
        iterations: int,
        workers: int = 1,
        servers: int = 1,
        aggregation_s: float = 0.0,
        starts: Sequence[int] = (),
        accumulate: int = 1,
    ) -> Job:
        """Job of a model; its bytes are weighed as `link` weighs them, so links are made `plain`.

        Profile and times of different models are a ValueError.
        """
        check_model_and_link(profile, times, link)
        weighed = np.array([link.weighted_bytes(sizes) for sizes in profile.tensor_bytes])
        return cls(
            forward_s=times.table["forward_s"].to_numpy(),
            backward_s=times.table["backward_s"].to_numpy(),
            pull_bytes=weighed,
            push_bytes=weighed,
            iterations=iterations,
            workers=workers,
            servers=servers,
            aggregation_s=aggregation_s,
            tensors=tuple(map(len, profile.tensor_bytes)) if link.tensor_s else (),
            starts=starts,
            accumulate=accumulate,
        )

    @property
    def layers(self) -> int:
        """Number of layers, L."""
        return len(self.forward_s)

    @property
    def server_nodes(self) -> Sequence[int]:
        """Nodes of the servers."""
        if self.hub is None:
            return range(self.workers, self.workers + self.servers)
        return (self.hub,)

    @cached_property
    def segment(self) -> Callable[[int, int], Segment]:
        """What is transmitted and computed together, by the first and the last layer; cached."""
        return cache(self._segment)

    def segments(self, cuts: Sequence[int]) -> list[Segment]:
        """Segments that `cuts` make, layer 1 first."""
        return [self.segment(first, last) for first, last in runs(cuts, self.layers)]

    def _segment(self, first: int, last: int) -> Segment:
        layers = slice(first - 1, last)
        return Segment(
            first,
            last,
            forward_s=float(self.forward_s[layers].sum()),
            backward_s=float(self.backward_s[layers].sum()),
            pull_bytes=float(self.pull_bytes[layers].sum()) / self.servers,
            push_bytes=float(self.push_bytes[layers].sum()) / self.servers,
            tensors=sum(self.tensors[layers]),
            where=[self.held(server, first, last) for server in range(self.servers)],
        )

    @cached_property
    def _bounds(self) -> list[list[int]]:
        """Where each server's part of each layer begins, and where the last one's ends."""
        shares = np.arange(self.servers + 1) / self.servers
        parts = np.rint(np.outer(shares, np.diff(self.starts))).astype(int)
        return (parts + np.array(self.starts[:-1])).tolist()  # type: ignore[no-any-return]

    def held(self, server: int, first: int, last: int) -> list[slice]:
        """Parts of the flat vector that a server holds of some layers; adjacent ones are merged."""
        merged: list[slice] = []
        if not self.starts:
            return merged
        lows, highs = (bounds[first - 1 : last] for bounds in self._bounds[server : server + 2])
        for low, high in zip(lows, highs, strict=True):
            if merged and merged[-1].stop == low:
                merged[-1] = slice(merged[-1].start, high)
            elif high > low:
                merged.append(slice(low, high))
        return merged


def plain(link: Link) -> Link:
    """Return the link for bytes that have been weighed: there every byte weighs the same."""
    return replace(link, split_bytes=0, whole_share=1.0)


class SegmentTime(NamedTuple):
    """How long layers `first` to `last` were computed in one go."""

    first: int
    last: int
    seconds: float


class Observation(NamedTuple):
    """What a worker measured in one iteration, for real-time profiling.

    Transfers, and segments in the order in which they were computed. The last push has not arrived
    when the backward computation ends: it stands among the pushes of the next iteration.
    """

    pulls: tuple[Transfer, ...]
    pushes: tuple[Transfer, ...]
    forward: tuple[SegmentTime, ...]
    backward: tuple[SegmentTime, ...]


class Policy(Protocol[State]):
    """Decides one worker's plans, state in and state out; see `workbench.dynacomm.profiler`."""

    @property
    def planning_s(self) -> float:
        """Seconds that planning occupies the worker at speed 1."""
        ...

    def begin(self) -> tuple[State, Plan]:
        """First state, and the plan of the first iteration, which costs nothing."""
        ...

    def step(
        self, state: State, iteration: int, now_s: float, observation: Observation
    ) -> tuple[State, Plan | None]:
        """Next state, and the plan of the coming iteration; None keeps the last, at no cost.

        Called when the backward computation of the iteration before has ended, with what was
        observed since the last call.
        """
        ...


@dataclass(frozen=True)
class FixedPlan:
    """One plan for the whole run."""

    plan: Plan
    planning_s: float = 0.0

    def begin(self) -> tuple[None, Plan]:
        """No state, and the plan."""
        return None, self.plan

    def step(self, *_: object) -> tuple[None, None]:
        """Keep the plan."""
        return None, None


class Report(NamedTuple):
    """Observations and plans of a worker, an entry for each iteration."""

    observations: list[Observation]
    plans: list[Plan]


@dataclass(frozen=True, eq=False)
class Worker:
    """Program of a worker; without a replica it moves bytes and charges time only."""

    job: Job
    policy: Policy[Any]
    replica: Replica | None = None

    async def __call__(self, context: Context) -> Report:
        """Do all iterations; return plans and observations of each."""
        report, transfers = Report([], []), context.watch()
        state, plan = self.policy.begin()
        for iteration in range(self.job.iterations):
            plan.check(self.job.layers)
            report.plans.append(plan)
            forward = await self._forward(context, plan, iteration)
            await self._between(context)
            backward = await self._backward(context, plan, iteration)
            with_bytes = [transfer for transfer in transfers if transfer.size_bytes]
            observation = Observation(
                pulls=tuple(sent for sent in with_bytes if sent.target == context.node),
                pushes=tuple(sent for sent in with_bytes if sent.source == context.node),
                forward=forward,
                backward=backward,
            )
            transfers.clear()
            report.observations.append(observation)
            # The idle window in which the paper plans (IV-C): the last push is in flight.
            if iteration + 1 < self.job.iterations:
                now_s = context.now_s()
                state, again = self.policy.step(state, iteration + 1, now_s, observation)
                if again is not None:
                    planning_s, label = self.policy.planning_s, str(iteration + 1)
                    await context.compute(_nothing, cost_s=planning_s, lane="plan", label=label)
                    plan = again
        return report

    async def _forward(
        self, context: Context, plan: Plan, iteration: int
    ) -> tuple[SegmentTime, ...]:
        """Request all segments, and compute each as soon as it has been pulled."""
        segments = self.job.segments(plan.forward_cuts)
        for segment in segments:
            request = iteration, segment.first, segment.last
            for node in self.job.server_nodes:
                context.send(node, Message(context.node, "request", request, control=True))
        return tuple([await self._pull(context, iteration, segment) for segment in segments])

    async def _pull(self, context: Context, iteration: int, segment: Segment) -> SegmentTime:
        for node in self.job.server_nodes:
            answer = await context.receive(_answer(iteration, segment.first), sender=node)
            if self.replica is not None:
                self.replica.value.write(answer.payload)
        began_s = context.now_s()

        def work(replica: WorkerReplica) -> None:
            replica.forward(iteration, segment.first, segment.last)

        await self._compute(context, "forward", segment, segment.forward_s, work)
        return SegmentTime(segment.first, segment.last, context.now_s() - began_s)

    async def _between(self, context: Context) -> None:
        """Compute what lies between the first forward and the last backward pass of a step."""
        batches, passes_s = self.job.accumulate - 1, self.job.forward_s + self.job.backward_s
        if batches:
            seconds, label = batches * float(passes_s.sum()), f"{batches} accumulated"
            await context.compute(_nothing, cost_s=seconds, lane="backward", label=label)

    async def _backward(
        self, context: Context, plan: Plan, iteration: int
    ) -> tuple[SegmentTime, ...]:
        """Compute all segments, and push each as soon as it has been computed."""
        segments = reversed(self.job.segments(plan.backward_cuts))
        return tuple([await self._push(context, iteration, segment) for segment in segments])

    async def _push(self, context: Context, iteration: int, segment: Segment) -> SegmentTime:
        began_s, replica = context.now_s(), self.replica

        def work(replica: WorkerReplica) -> float | None:
            return replica.backward(iteration, segment.first, segment.last)

        loss = await self._compute(context, "backward", segment, segment.backward_s, work)
        if replica is not None and loss is not None:
            context.record(replica.value.step_of(iteration, loss))
        computed = SegmentTime(segment.first, segment.last, context.now_s() - began_s)
        for position, node in enumerate(self.job.server_nodes):
            parts = () if replica is None else replica.value.gradients(segment.where[position])
            pushed = segment.first, segment.last, parts
            context.send(node, segment.message(context.node, "push", pushed, segment.push_bytes))
        return computed

    async def _compute(
        self,
        context: Context,
        lane: str,
        segment: Segment,
        cost_s: float,
        work: Callable[[WorkerReplica], T],
    ) -> T | None:
        """Compute a segment on the replica; without one, time alone passes."""
        if self.replica is None:
            await context.compute(_nothing, cost_s=cost_s, lane=lane, label=segment.label)
            return None
        return await context.compute(
            work, cost_s=cost_s, lane=lane, label=segment.label, on=self.replica
        )

    def warm_up(self) -> None:
        """Compute the first gradient."""
        if self.replica is not None:
            self.replica.value.try_out()


@dataclass(frozen=True, eq=False)
class Server:
    """Program of the server at `position`; without a store it moves bytes only.

    Gradients are added up in the order of the workers, once all are there, so their sum does not
    depend on the order of arrival.
    """

    job: Job
    position: int
    store: ServerStore | None = None

    async def __call__(self, context: Context) -> int:
        """Do all iterations; return their number."""
        job, store = self.job, self.store
        version = 0
        waiting: list[tuple[int, int, int, int]] = []  # worker, iteration, first and last layer
        arrived: list[list[Parts]] = [[] for _ in range(job.workers)]
        missing = job.layers * job.workers
        while version < job.iterations:
            message = await (context.receive() if job.hub is None else _to_server(context))
            if message.topic == "request":
                waiting.append((message.sender, *message.payload))
            else:
                first, last, parts = message.payload
                arrived[message.sender].append(parts)
                missing -= last - first + 1
            if missing == 0:
                gradients = [list(chain.from_iterable(parts)) for parts in arrived]
                model = await context.compute(
                    _nothing if store is None else partial(store.step, gradients),
                    cost_s=job.aggregation_s,
                    lane="step",
                    label=str(version),
                )
                if model is not None:
                    context.record(model)
                version += 1
                arrived = [[] for _ in range(job.workers)]
                missing = job.layers * job.workers
            for worker, iteration, first, last in waiting:
                if iteration <= version:
                    self._send(context, worker, _answer(iteration, first), job.segment(first, last))
            waiting = [request for request in waiting if request[1] > version]
        return version

    def _send(self, context: Context, worker: int, topic: str, segment: Segment) -> None:
        parts = () if self.store is None else self.store.parameters(segment.where[self.position])
        context.send(worker, segment.message(context.node, topic, parts, segment.pull_bytes))


def worker_and_server(
    job: Job,
    policy: Policy[Any],
    replica: Replica | None = None,
    store: ServerStore | None = None,
) -> Program:
    """Program of the hub: what its worker and its server tell each other takes no time."""

    async def program(context: Context) -> Report:
        serving = context.spawn(Server(job, 0, store)(context))
        report: Report = await Worker(job, policy, replica)(context)
        await serving
        return report

    return program


async def _to_server(context: Context) -> Message:
    """The next message for the server of a node that is a worker, too."""
    _, message = await context.first(context.receive("request"), context.receive("push"))
    return message


def _answer(iteration: int, first: int) -> str:
    """Topic of a pulled segment."""
    return f"pull {iteration} from {first}"


def _nothing() -> None:
    return None
