"""Duration of one step of a pipeline: the longest path through its passes and messages.

After its last pass a node averages gradients with the other replicas of its stages and updates its
weights. The first stage takes samples that their owners send it a step ahead: links carry these
before the step's messages. With S equal stages, M micro-batches and free links GPipe and 1F1B both
take (M + S - 1)(f + b), of which (S - 1)/(M + S - 1) is the bubble (Huang et al. 2019, Sec. 2.3;
Narayanan et al. 2021, Efficient Large-Scale Language Model Training, Sec. 2.2).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from workbench.pipelines.costs import (
    check,
    link_of,
    message_s,
    needed_bytes,
    pass_s,
    reductions,
    samples_sent,
    transfer_bytes,
    update_s,
)
from workbench.pipelines.problems import Problem
from workbench.pipelines.schedules import Pass, Plan, Transfer, operations
from workbench.runtime.trace import Span, Trace
from workbench.sharding.collective_costs import ROUNDS, AllReduce
from workbench.utils.checks import UserError

Pair = tuple[int, int]


@dataclass(frozen=True)
class Iteration:
    """One step of a pipeline.

    Attributes
    ----------
    total_s
        Seconds until the last node has updated its weights, and no less than links and shared
        capacities take for all bytes of a step.
    busy_s
        Seconds of computation by node.
    sent_bytes
        Bytes by link, as (source, target).
    needed_bytes
        Bytes that each node needs at its peak; empty where that is not known.
    """

    total_s: float
    busy_s: Mapping[int, float]
    sent_bytes: Mapping[Pair, float]
    needed_bytes: Mapping[int, float]

    @property
    def bubble(self) -> float:
        """Share of the step in which the nodes of the pipeline do not compute."""
        if not self.total_s:
            return 0.0
        return 1 - sum(self.busy_s.values()) / (len(self.busy_s) * self.total_s)


def iteration(problem: Problem, plan: Plan) -> Iteration:
    """Duration of one step under a plan.

    It is exact where no links share a capacity; where some do, it is a lower bound.

    Raises UserError: the plan is not one for this problem, or its nodes wait for each other.
    """
    return _follow(problem, plan, _State(problem))


def timeline(problem: Problem, plan: Plan) -> Trace:
    """Trace of one step: a row a pass, message and update of ``node 0``, ``node 1`` and so on."""
    spans: list[Span] = []
    _follow(problem, plan, _State(problem, spans))
    return Trace.of(spans)


class _Work(NamedTuple):
    """Computation of a node."""

    seconds: float
    lane: str
    label: object = ""


class _Message(NamedTuple):
    """Bytes from a node to another; both have it in their lists, with the same `key`."""

    key: object
    sender: int
    receiver: int
    size_bytes: float
    label: object
    blocking: bool = False


@dataclass
class _State:
    """Times of nodes, links and messages so far, and their `spans`, if these are recorded."""

    problem: Problem
    spans: list[Span] | None = None
    now_s: dict[int, float] = field(default_factory=dict)
    busy_s: dict[int, float] = field(default_factory=dict)
    sent_bytes: dict[Pair, float] = field(default_factory=dict)
    free_s: dict[Pair, float] = field(default_factory=dict)
    arrived_s: dict[object, float] = field(default_factory=dict)

    def compute(self, node: int, work: _Work) -> None:
        start_s = self.now_s[node]
        self.now_s[node] = start_s + work.seconds
        self.busy_s[node] += work.seconds
        if self.spans is not None:
            ends_s = start_s, self.now_s[node]
            self.spans.append(Span(f"node {node}", work.lane, str(work.label), *ends_s))

    def send(self, message: _Message, at_s: float) -> None:
        ends = message.sender, message.receiver
        _, end_s = self.occupy(ends, message.size_bytes, at_s, message.label)
        self.arrived_s[message.key] = end_s + self.problem.links[ends].latency_s

    def occupy(
        self, ends: Pair, size_bytes: float, at_s: float, label: object
    ) -> tuple[float, float]:
        """Put a message on its link as soon as that is free; return when it begins and ends."""
        link = link_of(self.problem, *ends)
        start_s = max(at_s, self.free_s.get(ends, 0.0))
        end_s = start_s + message_s(link, size_bytes, start_s)
        self.free_s[ends] = end_s
        self.sent_bytes[ends] = self.sent_bytes.get(ends, 0.0) + size_bytes
        if self.spans is not None:
            name, lane = f"node {ends[0]}", f"to node {ends[1]}"
            size = round(size_bytes)
            self.spans.append(Span(name, lane, str(label), start_s, end_s, size, "transfer"))
        return start_s, end_s


def _follow(problem: Problem, plan: Plan, state: _State) -> Iteration:
    check(problem, plan)
    state.now_s, state.busy_s = dict.fromkeys(plan.nodes, 0.0), dict.fromkeys(plan.nodes, 0.0)
    samples_s = _send_samples(problem, plan, state)
    _carry_out(plan, state, _work_by_node(problem, plan))
    shared_s = (
        8 * sum(state.sent_bytes.get(pair, 0.0) for pair in pairs) / bandwidth_bps
        for bandwidth_bps, pairs in problem.shared
    )
    total_s = max(samples_s, *state.now_s.values(), *shared_s)
    return Iteration(total_s, state.busy_s, state.sent_bytes, needed_bytes(problem, plan))


def _send_samples(problem: Problem, plan: Plan, state: _State) -> float:
    """Occupy links with the samples of a later step, which nodes ask for as this one begins.

    Return the longest time that they occupy a link.
    """
    longest_s = 0.0
    for ends, size in samples_sent(problem, plan).items():
        back = problem.links.get(ends[::-1])
        asked_s = 0.0 if back is None else back.latency_s
        start_s, end_s = state.occupy(ends, size, asked_s, "samples")
        longest_s = max(longest_s, end_s - start_s)
    return longest_s


def _work_by_node(problem: Problem, plan: Plan) -> dict[int, list[_Work | _Message]]:
    """List what each node computes, sends and receives in a step, in order."""
    sequences = operations(plan, problem.first_trained)
    sums = reductions(problem, plan)
    return {
        node: [
            *_passes(problem, plan, node, sequences[node]),
            *_all_reduces(node, sums),
            _Work(update_s(problem, plan, node), "update"),
        ]
        for node in plan.nodes
    }


def _passes(
    problem: Problem, plan: Plan, node: int, sequence: Iterable[Pass | Transfer]
) -> Iterator[_Work | _Message]:
    seconds: dict[tuple[int, bool], float] = {}
    for operation in sequence:
        if isinstance(operation, Pass):
            kind = operation.stage, operation.backward
            if kind not in seconds:
                seconds[kind] = pass_s(problem, plan, node, operation)
            lane = "backward" if operation.backward else "forward"
            yield _Work(seconds[kind], lane, operation)
        else:
            size_bytes = transfer_bytes(problem, plan, operation)
            ends = operation.sender, operation.receiver
            yield _Message(operation, *ends, size_bytes, operation.made_by, plan.blocking)


def _all_reduces(node: int, sums: Iterable[AllReduce]) -> Iterator[_Message]:
    """Messages of a node at the end of a step: in each round it sends to all others first."""
    for number, reduction in enumerate(sums):
        if node not in reduction.nodes:
            continue
        others = reduction.others(node)
        for part in ROUNDS:
            ends = [(node, other) for other in others] + [(other, node) for other in others]
            for sender, receiver in ends:
                key = number, part, sender, receiver
                yield _Message(key, sender, receiver, reduction.share_bytes, part)


def _carry_out(
    plan: Plan, state: _State, work_by_node: Mapping[int, Iterable[_Work | _Message]]
) -> None:
    """Let nodes carry out their lists in order, each as far as its messages have arrived.

    As each node's order is fixed, so is that of each link's messages, and the times do not depend
    on which node is looked at first (a Kahn process network).
    """
    now_s = state.now_s
    queues = {node: deque(work) for node, work in work_by_node.items()}
    waiting: dict[object, int] = {}  # message -> the first of its nodes to reach it
    ready = list(queues)
    while ready:
        node = ready.pop()
        queue = queues[node]
        while queue:
            work = queue[0]
            if isinstance(work, _Work):
                state.compute(node, work)
            elif work.blocking:
                other = waiting.pop(work.key, None)
                if other is None:
                    waiting[work.key] = node
                    break
                state.send(work, max(now_s[node], now_s[other]))
                now_s[node] = now_s[other] = state.arrived_s[work.key]
                queues[other].popleft()
                ready.append(other)
            elif work.sender == node:
                state.send(work, now_s[node])
                if work.key in waiting:
                    ready.append(waiting.pop(work.key))
            elif work.key in state.arrived_s:
                now_s[node] = max(now_s[node], state.arrived_s[work.key])
            else:
                waiting[work.key] = node
                break
            queue.popleft()
    if stuck := sorted(node for node, queue in queues.items() if queue):
        raise UserError(
            f"nodes {stuck} of {plan} wait for each other's messages for ever; queue "
            "messages (blocking=False), or keep fewer micro-batches in flight"
        )
