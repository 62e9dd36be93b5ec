"""Workers and parameter servers that carry a plan out, simulated or measured.

Synchronous data-parallel training (Cai et al. 2021, Figs. 1 and 2): in every iteration each worker
pulls the model segment by segment under its plan, computes forward as segments arrive, computes
backward, and pushes gradients segment by segment. The servers average all workers' gradients, step,
and answer the next pulls. Weights are the same, bit for bit, under every plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from workbench.dynacomm.costs.plan import Plan, runs
from workbench.dynacomm.programs.job import Job, Segment
from workbench.runtime import Message

if TYPE_CHECKING:
    from workbench.dynacomm.programs.learning import (
        Direction,
        Pieces,
        ServerStore,
        WorkerReplica,
    )
    from workbench.runtime import Context, Program, Synchronized, Transfer

    Replica = Synchronized[WorkerReplica]

State = TypeVar("State")


class Moved(NamedTuple):
    """One transfer: its bytes, how long the link was busy with it, the tensors that count."""

    size_bytes: float
    seconds: float
    tensors: int = 0


class Computed(NamedTuple):
    """How long layers `first` to `last` were computed in one go."""

    first: int
    last: int
    seconds: float


class Observed(NamedTuple):
    """What a worker measured in one iteration, for real-time profiling.

    Transfers, and segments in the order in which they were computed. The last push has not arrived
    when the backward computation ends: it stands among the pushes of the next iteration.
    """

    pulls: tuple[Moved, ...]
    pushes: tuple[Moved, ...]
    forward: tuple[Computed, ...]
    backward: tuple[Computed, ...]


class Planning(Protocol[State]):
    """Decides one worker's plans, state in and state out; see `dynacomm.replanning`."""

    @property
    def planning_s(self) -> float:
        """Seconds that planning occupies the worker at speed 1."""
        ...

    def begin(self) -> tuple[State, Plan]:
        """First state, and the plan of the first iteration, which costs nothing."""
        ...

    def step(
        self, state: State, iteration: int, now_s: float, observed: Observed
    ) -> tuple[State, Plan | None]:
        """Next state, and the plan of the coming iteration; None keeps the last, at no cost.

        Called when the backward computation of the iteration before has ended, with what was
        observed since the last call.
        """
        ...


@dataclass(frozen=True)
class Fixed:
    """One plan for the whole run."""

    chosen: Plan
    planning_s: float = 0.0

    def begin(self) -> tuple[None, Plan]:
        """No state, and the plan."""
        return None, self.chosen

    def step(self, *_: object) -> tuple[None, None]:
        """Keep the plan."""
        return None, None


class Report(NamedTuple):
    """Observations and plans of a worker, an entry for each iteration."""

    observed: list[Observed]
    plans: list[Plan]


@dataclass(frozen=True, eq=False)
class Worker:
    """Program of a worker; without a replica it moves bytes and charges time only."""

    job: Job
    planning: Planning[Any]
    replica: Replica | None = None

    async def __call__(self, context: Context) -> Report:
        """Do all iterations; return plans and observations of each."""
        job, planning, replica = self.job, self.planning, self.replica
        report, node = Report([], []), context.node
        transfers = context.watch()
        state, plan = planning.begin()
        for iteration in range(job.iterations):
            plan.check(job.layers)
            report.plans.append(plan)
            forward = await _forward(context, job, plan, iteration, replica)
            backward = await _backward(context, job, plan, iteration, replica)
            observed = Observed(
                pulls=_moved(transfer for transfer in transfers if transfer.target == node),
                pushes=_moved(transfer for transfer in transfers if transfer.source == node),
                forward=forward,
                backward=backward,
            )
            transfers.clear()
            report.observed.append(observed)
            # The idle window in which the paper plans (IV-C): the last push is in flight.
            if iteration + 1 < job.iterations:
                state, again = planning.step(state, iteration + 1, context.now_s(), observed)
                if again is not None:
                    await context.compute(
                        _nothing, cost_s=planning.planning_s, lane="plan", label=str(iteration + 1)
                    )
                    plan = again
        return report

    def warm_up(self) -> None:
        """Compute the first gradient."""
        if self.replica is not None:
            self.replica.value.try_out()


async def _forward(
    context: Context, job: Job, plan: Plan, iteration: int, replica: Replica | None
) -> tuple[Computed, ...]:
    computed = []
    segments = [job.segment(*run) for run in runs(plan.forward_cuts, job.layers)]
    for segment in segments:
        request = iteration, segment.first, segment.last
        for node in job.server_nodes:
            context.send(node, Message(context.node, "request", request, control=True))
    for segment in segments:
        for node in job.server_nodes:
            answer = await context.receive(_pull(iteration, segment.first), sender=node)
            if replica is not None:
                replica.value.write(answer.payload)
        computed.append(await _compute(context, "forward", iteration, segment, replica))
    return tuple(computed)


async def _backward(
    context: Context, job: Job, plan: Plan, iteration: int, replica: Replica | None
) -> tuple[Computed, ...]:
    computed = []
    for run in reversed(runs(plan.backward_cuts, job.layers)):
        segment = job.segment(*run)
        computed.append(await _compute(context, "backward", iteration, segment, replica))
        size_bytes = segment.push_bytes
        tensor_bytes = segment.tensor_bytes(size_bytes)
        for position, node in enumerate(job.server_nodes):
            pieces = () if replica is None else replica.value.gradients(segment.where[position])
            pushed = (segment.first, segment.last, pieces)
            message = Message(context.node, "push", pushed, size_bytes, tensor_bytes)
            context.send(node, message)
    return tuple(computed)


async def _compute(
    context: Context,
    direction: Direction,
    iteration: int,
    segment: Segment,
    replica: Replica | None,
) -> Computed:
    """Compute a segment; time alone passes where the replica has nothing to do."""
    began_s, first, last = context.now_s(), segment.first, segment.last
    cost_s = segment.forward_s if direction == "forward" else segment.backward_s
    work = None if replica is None else replica.value.work(direction, iteration, first, last)
    about: Any = {"cost_s": cost_s, "lane": direction, "label": segment.label}
    if replica is None or work is None:
        await context.compute(_nothing, **about)
    else:
        loss = await context.compute(work, **about, on=replica)
        if loss is not None:
            context.record(replica.value.observation(iteration, loss))
    return Computed(first, last, context.now_s() - began_s)


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

        def answer(worker: int, iteration: int, first: int, last: int) -> None:
            segment = job.segment(first, last)
            pieces = () if store is None else store.parameters(segment.where[self.position])
            topic, size_bytes = _pull(iteration, first), segment.pull_bytes
            tensor_bytes = segment.tensor_bytes(size_bytes)
            context.send(worker, Message(context.node, topic, pieces, size_bytes, tensor_bytes))

        version = 0
        waiting: list[tuple[int, int, int, int]] = []  # worker, iteration, first and last layer
        arrived: list[list[Pieces]] = [[] for _ in range(job.workers)]
        missing = job.layers * job.workers
        while version < job.iterations:
            message = await (context.receive() if job.hub is None else _to_server(context))
            if message.topic == "request":
                waiting.append((message.sender, *message.payload))
            else:
                first, last, pieces = message.payload
                arrived[message.sender].append(pieces)
                missing -= last - first + 1
            if missing == 0:
                gradients = [list(chain.from_iterable(pieces)) for pieces in arrived]
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
            for request in waiting:
                if request[1] <= version:
                    answer(*request)
            waiting = [request for request in waiting if request[1] > version]
        return version


def worker_and_server(
    job: Job,
    planning: Planning[Any],
    replica: Replica | None = None,
    store: ServerStore | None = None,
) -> Program:
    """Program of the hub: what its worker and its server tell each other takes no time."""

    async def program(context: Context) -> Report:
        serving = context.spawn(Server(job, 0, store)(context))
        report: Report = await Worker(job, planning, replica)(context)
        await serving
        return report

    return program


async def _to_server(context: Context) -> Message:
    """The next message for the server of a node that is a worker, too."""
    _, message = await context.first(context.receive("request"), context.receive("push"))
    return message


def _pull(iteration: int, first: int) -> str:
    return f"pull {iteration} from {first}"


def _nothing() -> None:
    return None


def _moved(transfers: Iterable[Transfer]) -> tuple[Moved, ...]:
    return tuple(
        Moved(transfer.size_bytes, transfer.end_s - transfer.start_s, transfer.tensors)
        for transfer in transfers
        if transfer.size_bytes
    )
