"""What one step of a pipeline takes: the longest path through its passes and messages.

The pass of a micro-batch takes the seconds of its samples in the layers of the stage; a message
takes the overhead of its link, then its bytes, in order of sending; it arrives the latency later.
After its last pass a node averages gradients with the other replicas of its stages and updates its
weights. The first stage takes samples that their owners send it a step ahead: links carry these
before the step's messages. With S equal stages, M micro-batches and free links GPipe and 1F1B both
take (M + S - 1)(f + b), of which (S - 1)/(M + S - 1) is the bubble (Huang et al. 2019, Sec. 2.3;
Narayanan et al. 2021, Efficient Large-Scale Language Model Training, Sec. 2.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workbench.clusters import Link, Schedule
from workbench.pipelines.schedules import Plan, Recompute, Step, Transfer, operations
from workbench.profiles import Tied
from workbench.runtime.trace import Span, Trace
from workbench.utils.checks import (
    NOT_NEGATIVE,
    UserError,
    at_least,
    check_fields,
    check_kind,
    check_layers,
    check_number,
    check_whole,
    listed,
)

FloatArray = NDArray[np.float64]

ROUNDING = 1e-9
"""Difference from 1 of shares that sum to 1."""

Needed = Callable[[int, int, int, int, Recompute], float]
"""Bytes that a stage needs at its peak.

Its arguments are the first and the last layer, samples of a micro-batch on the node, micro-batches
in flight, and whether and how the stage recomputes.
"""


class Shared(NamedTuple):
    """Capacity that messages between several pairs of nodes share, such as a network interface."""

    bandwidth_bps: float
    pairs: frozenset[tuple[int, int]]


class Sums(NamedTuple):
    """Seconds (N, L + 1) and trained bytes (L + 1,), summed: entry l is of the layers 1 to l.

    Layers below the first trained one have no backward pass.
    """

    forward_s: FloatArray
    backward_s: FloatArray
    forward_fixed_s: FloatArray
    backward_fixed_s: FloatArray
    update_s: FloatArray
    param_bytes: FloatArray


# N = node, L = layer
@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """A model and a cluster, as a pipeline sees them.

    Parameters
    ----------
    forward_s, backward_s
        Seconds of one sample in each layer on each node, shape (N, L).
    update_s
        Seconds of an update of each layer's weights on each node, shape (N, L).
    param_bytes
        Trained parameters of each layer, shape (L,). A tied weight counts at its first layer.
    output_bytes
        Bytes of a sample that cross the cut behind each layer, shape (L,); gradients are as large.
    links
        Links by source and target, each direction its own; nodes without a link send nothing to
        each other.
    batch
        Samples of a step.
    forward_fixed_s, backward_fixed_s
        Seconds of each pass through each layer beside those of its samples, however many these are,
        shape (N, L); by default none.
    owners
        Share of the samples that each owner has; by default all nodes have all. Owners that train
        nothing have numbers from N on. They send samples to the nodes of the first stage.
    sample_bytes
        Bytes of a sample's inputs, as owners send them.
    shared
        Capacities that links share; by default none.
    tied
        Weights that several layers use. Where these are in several stages, all nodes that hold the
        weight sum its gradients (Narayanan et al. 2021).
    first_trained
        First layer, from 1, with a trained weight: layers below it have no backward pass.
    frozen_bytes
        Parameters of each layer that are not trained, shape (L,); by default none.
    memory_bytes
        Memory of each node, shape (N,); by default without limit.
    needed
        Bytes that a stage needs; by default not known, and any plan fits.
    """

    forward_s: FloatArray
    backward_s: FloatArray
    update_s: FloatArray
    param_bytes: FloatArray
    output_bytes: FloatArray
    links: Mapping[tuple[int, int], Link]
    batch: int = field(metadata=at_least(1))
    forward_fixed_s: FloatArray | None = None
    backward_fixed_s: FloatArray | None = None
    owners: Mapping[int, float] | None = None
    shared: tuple[Shared, ...] = ()
    sample_bytes: float = field(default=0.0, metadata=NOT_NEGATIVE)
    tied: tuple[Tied, ...] = ()
    first_trained: int = field(default=1, metadata=at_least(1))
    frozen_bytes: FloatArray | None = None
    memory_bytes: FloatArray | None = None
    needed: Needed | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        fixed = ("forward_fixed_s", "backward_fixed_s")
        tables = [name for name in fixed if getattr(self, name) is not None]
        tables += ["forward_s", "backward_s", "update_s"]
        for name in tables:
            object.__setattr__(self, name, _by_node(name, getattr(self, name)))
        nodes, layers = self.forward_s.shape
        sizes = ["param_bytes", "output_bytes"]
        sizes += [] if self.frozen_bytes is None else ["frozen_bytes"]
        for name in sizes:
            object.__setattr__(self, name, check_layers(name, getattr(self, name)))
        shapes = {name: getattr(self, name).shape for name in (*tables, *sizes)}
        wrong = {name for name, shape in shapes.items() if shape[-1] != layers}
        wrong |= {name for name, shape in shapes.items() if shape[:-1] not in ((), (nodes,))}
        if wrong:
            raise UserError(
                f"{', '.join(sorted(wrong))}: forward_s has {nodes} nodes and {layers} layers, but "
                f"the shapes are {shapes}"
            )
        if self.memory_bytes is not None:
            limits = _numbers("memory_bytes", self.memory_bytes)
            if limits.shape != (nodes,) or not (limits >= 0).all():
                raise UserError(f"memory_bytes is {limits}; give a size for each of {nodes} nodes")
            object.__setattr__(self, "memory_bytes", limits)
        if not (self.needed is None or callable(self.needed)):
            raise TypeError(f"needed is {self.needed!r}; give a function, or None")
        if not isinstance(self.links, Mapping):
            raise TypeError(
                f"links is {self.links!r}; give a mapping, such as {{(0, 1): Link(1e9)}}"
            )
        object.__setattr__(self, "owners", _owners(self.owners, nodes))
        pairs = set(product(range(self.places), repeat=2))
        for ends, link in self.links.items():
            if ends not in pairs:
                raise UserError(
                    f"links has {ends!r}; give pairs of nodes, from 0 to {self.places - 1}"
                )
            check_kind(f"links of {ends}", link, Link, "a clusters.Link")
        shared = listed("shared", self.shared, "give (Shared(bandwidth_bps, pairs),)")
        for capacity in shared:
            check_kind("shared", capacity, Shared, "a Shared")
            if not capacity.bandwidth_bps > 0 or not capacity.pairs <= pairs:
                raise UserError(
                    f"shared has {capacity}; give a bandwidth above 0, and pairs of nodes"
                )
        object.__setattr__(self, "shared", shared)
        if self.first_trained > layers:
            raise UserError(f"first_trained is {self.first_trained}; layers are 1 to {layers}")
        tied = tuple(
            _tied(each, self.param_bytes) for each in listed("tied", self.tied, "give (Tied(...),)")
        )
        object.__setattr__(self, "tied", tied)

    @property
    def nodes(self) -> int:
        """Number of nodes, N."""
        return len(self.forward_s)

    @property
    def layers(self) -> int:
        """Number of layers, L."""
        return len(self.param_bytes)

    @cached_property
    def limits_bytes(self) -> FloatArray:
        """Memory of each node, (N,); infinite where there is no limit."""
        return np.full(self.nodes, math.inf) if self.memory_bytes is None else self.memory_bytes

    @property
    def places(self) -> int:
        """Number of nodes and of owners that train nothing."""
        return max([self.nodes, *(owner + 1 for owner in self.owners or {})])

    @cached_property
    def sums(self) -> Sums:
        """Sums over layers."""
        frozen, none = self.first_trained - 1, np.zeros_like(self.forward_s)

        def summed(seconds: FloatArray | None, first: int = 0) -> FloatArray:
            table = (none if seconds is None else seconds).copy()
            table[:, :first] = 0
            return np.pad(table.cumsum(axis=1), ((0, 0), (1, 0)))

        return Sums(
            summed(self.forward_s),
            summed(self.backward_s, frozen),
            summed(self.forward_fixed_s),
            summed(self.backward_fixed_s, frozen),
            summed(self.update_s),
            np.pad(self.param_bytes.cumsum(), (1, 0)),
        )


def _owners(given: Mapping[int, float] | None, nodes: int) -> dict[int, float]:
    if not isinstance(given, Mapping | None):
        raise TypeError(f"owners is {given!r}; give shares by node, such as {{0: 1.0}}")
    owners = {
        check_whole("owner", owner, 0): check_number("share of an owner", share)
        for owner, share in (given or {}).items()
    }
    outside = sorted(owner for owner in owners if owner >= nodes)
    if outside != list(range(nodes, nodes + len(outside))):
        raise UserError(
            f"owners has {outside}; those that train nothing have numbers from {nodes} on"
        )
    if owners and not (min(owners.values()) >= 0 and abs(sum(owners.values()) - 1) < ROUNDING):
        raise UserError(f"shares of owners are {owners}; give shares that sum to 1")
    return owners


def _numbers(name: str, values: ArrayLike) -> FloatArray:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(f"{name} takes numbers, not {values!r}") from None


def _tied(given: Tied, param_bytes: FloatArray) -> Tied:
    if not (isinstance(given, tuple) and len(given) == 2):
        raise UserError(f"tied has {given!r}; give Tied(size_bytes, layers)")
    size_bytes = check_whole("size of a tied weight", given[0], 0)
    layers = listed("tied layers", given[1], "give all that use the weight, such as (1, 4)")
    layers = tuple(check_whole("tied layer", layer, 1) for layer in layers)
    if not layers or max(layers) > len(param_bytes):
        raise UserError(f"tied has layers {layers}; layers are 1 to {len(param_bytes)}")
    counted_bytes = param_bytes[min(layers) - 1]
    if size_bytes > counted_bytes:
        raise UserError(
            f"param_bytes of layer {min(layers)} are {counted_bytes:g}; the tied weight of "
            f"{size_bytes} bytes counts there"
        )
    return Tied(size_bytes, layers)


def _by_node(name: str, values: ArrayLike) -> FloatArray:
    array = _numbers(name, values)
    if array.ndim != 2 or not array.size:
        raise UserError(f"{name} has shape {array.shape}; give a row a node, a number a layer")
    for row in array:
        check_layers(name, row)
    array.setflags(write=False)
    return array


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
    memory_bytes
        Bytes that each node needs at its peak; empty where that is not known.
    """

    total_s: float
    busy_s: Mapping[int, float]
    sent_bytes: Mapping[tuple[int, int], float]
    memory_bytes: Mapping[int, float]

    @property
    def bubble(self) -> float:
        """Share of the step in which the nodes of the pipeline do not compute."""
        if not self.total_s:
            return 0.0
        return 1 - sum(self.busy_s.values()) / (len(self.busy_s) * self.total_s)


def iteration(problem: Problem, plan: Plan) -> Iteration:
    """Duration of one step under a plan: the longest path through passes and messages.

    That is exact where no links share a capacity; where some do, it is a lower bound.

    Raises UserError: the plan is not one for this problem, or its nodes wait for each other.
    """
    return _Walk(problem, plan, spans=None).iteration()


def timeline(problem: Problem, plan: Plan, names: Iterable[str] = ()) -> Trace:
    """Trace of one step: a row a pass, message and update; `names` are those of the nodes."""
    check(problem, plan)
    names = listed("names", names, "give the nodes' names, such as ('a', 'b')")
    if len(names) not in (0, problem.places):
        raise UserError(f"names has {len(names)} values for {problem.places} nodes")
    spans: list[Span] = []
    _Walk(problem, plan, spans, list(map(str, names))).iteration()
    return Trace.of(spans)


def check(problem: Problem, plan: Plan) -> None:
    """Refuse a plan with other layers, nodes or samples than the problem's, or without links."""
    check_kind("problem", problem, Problem, "a pipelines.Problem")
    check_kind("plan", plan, Plan, "a pipelines.Plan")
    if plan.stages[-1].last != problem.layers:
        raise UserError(
            f"the plan's stages end with layer {plan.stages[-1].last}, the model with layer "
            f"{problem.layers}"
        )
    if plan.nodes[-1] >= problem.nodes:
        raise UserError(f"the plan has node {plan.nodes[-1]}; nodes are 0 to {problem.nodes - 1}")
    if plan.samples * plan.microbatches != problem.batch:
        raise UserError(
            f"{plan.microbatches} micro-batches of {plan.samples} samples are "
            f"{plan.samples * plan.microbatches}, not the batch of {problem.batch}"
        )


def step_s(problem: Problem, plan: Plan, node: int, step: Step) -> float:
    """Seconds of a pass of a micro-batch on a node; a backward pass may repeat the forward pass."""
    stage, sums = plan.stages[step.stage], problem.sums
    samples = dict(stage.samples)[node]

    def seconds(each: FloatArray, fixed: FloatArray) -> float:
        of_samples, whole = (t[node, stage.last] - t[node, stage.first - 1] for t in (each, fixed))
        return float(samples * of_samples + whole)

    if not step.backward:
        return seconds(sums.forward_s, sums.forward_fixed_s)
    again = plan.recompute[step.stage]
    again_s = seconds(sums.forward_s, sums.forward_fixed_s) if again else 0.0
    return again_s + seconds(sums.backward_s, sums.backward_fixed_s)


def update_s(problem: Problem, plan: Plan, node: int) -> float:
    """Seconds in which a node updates the weights of all its stages."""
    sums_s = problem.sums.update_s[node]
    return float(
        sum(
            sums_s[stage.last] - sums_s[stage.first - 1]
            for stage in plan.stages
            if node in stage.nodes
        )
    )


def samples_sent(problem: Problem, plan: Plan) -> dict[tuple[int, int], float]:
    """(owner, node of the first stage) -> bytes of samples that it is sent for a step."""
    batch_bytes = problem.batch * problem.sample_bytes / plan.samples
    return {
        (owner, node): batch_bytes * count * share
        for node, count in plan.stages[0].samples
        for owner, share in (problem.owners or {}).items()
        if owner != node
    }


class Reduction(NamedTuple):
    """Gradients that several nodes sum."""

    nodes: tuple[int, ...]
    size_bytes: float


def reductions(problem: Problem, plan: Plan) -> list[Reduction]:
    """All-reduces at the end of a step, in the order in which each node takes part in them.

    They are those of the stages with replicas, in order, then those of weights tied over several
    stages.
    """
    sizes = [
        float(problem.sums.param_bytes[stage.last] - problem.sums.param_bytes[stage.first - 1])
        for stage in plan.stages
    ]
    groups = [Reduction(stage.nodes, 0.0) for stage in plan.stages]
    tied = []
    for weight in problem.tied:
        stages = holders(plan, weight)
        if len(stages) > 1:
            sizes[stages[0]] -= weight.size_bytes
            nodes = sorted({node for n in stages for node in plan.stages[n].nodes})
            tied.append(Reduction(tuple(nodes), weight.size_bytes))
    groups = [Reduction(group.nodes, size) for group, size in zip(groups, sizes, strict=True)]
    return [each for each in (*groups, *tied) if len(each.nodes) > 1 and each.size_bytes > 0]


def holders(plan: Plan, weight: Tied) -> list[int]:
    """Stages, from 0, with layers of a tied weight."""
    return [
        number
        for number, stage in enumerate(plan.stages)
        if any(stage.first <= layer <= stage.last for layer in weight.layers)
    ]


def memory_bytes(problem: Problem, plan: Plan) -> dict[int, float]:
    """Bytes that each node needs at its peak for all its stages; empty where that is not known."""
    check(problem, plan)
    if problem.needed is None:
        return {}
    found = dict.fromkeys(plan.nodes, 0.0)
    for number, stage in enumerate(plan.stages):
        depth = 1 if stage.last < problem.first_trained else plan.depth(number)
        for node, samples in stage.samples:
            found[node] += problem.needed(
                stage.first, stage.last, samples, depth, plan.recompute[number]
            )
    return found


def fits(problem: Problem, plan: Plan) -> bool:
    """Whether no node needs more memory than it has; True where the need is not known."""
    limits = problem.limits_bytes
    return all(size <= limits[node] for node, size in memory_bytes(problem, plan).items())


class _Compute(NamedTuple):
    seconds: float
    lane: str
    label: str


class _Message(NamedTuple):
    key: object
    sender: int
    receiver: int
    size_bytes: float
    label: str
    blocking: bool


class _Walk:
    """Nodes that carry out their operations in order, each as far as its messages have arrived.

    As each node's order is fixed, so is that of each link's messages, and the times do not depend
    on which node is looked at first (a Kahn process network).
    """

    def __init__(
        self, problem: Problem, plan: Plan, spans: list[Span] | None, names: list[str] | None = None
    ) -> None:
        check(problem, plan)
        self.problem, self.plan, self.spans = problem, plan, spans
        self.names = names or [f"node {n}" for n in range(problem.places)]
        self.now_s = dict.fromkeys(plan.nodes, 0.0)
        self.busy_s = dict.fromkeys(plan.nodes, 0.0)
        self.sent_bytes: dict[tuple[int, int], float] = {}
        self.free_s: dict[tuple[int, int], float] = {}
        self.arrived_s: dict[object, float] = {}

    def iteration(self) -> Iteration:
        samples_s = self._send_samples()
        self._run()
        shared_s = (
            8 * sum(self.sent_bytes.get(pair, 0.0) for pair in pairs) / bandwidth_bps
            for bandwidth_bps, pairs in self.problem.shared
        )
        return Iteration(
            max(samples_s, *self.now_s.values(), *shared_s),
            self.busy_s,
            self.sent_bytes,
            memory_bytes(self.problem, self.plan),
        )

    def _send_samples(self) -> float:
        """Let links carry the samples of a later step first, which are asked for as this begins."""
        longest_s = 0.0
        for ends, size in samples_sent(self.problem, self.plan).items():
            back = self.problem.links.get(ends[::-1])
            asked_s = 0.0 if back is None else back.latency_s
            start_s, end_s = self._occupy(ends, size, asked_s, "samples")
            longest_s = max(longest_s, end_s - start_s)
        return longest_s

    def _run(self) -> None:
        lists = operations(self.plan, self.problem.first_trained)
        work = {node: list(self._operations(node, lists[node])) for node in self.plan.nodes}
        place = dict.fromkeys(work, 0)
        waiting: dict[object, int] = {}  # the node that has come to a message before the other one
        ready = list(work)
        while ready:
            node = ready.pop()
            while place[node] < len(work[node]):
                each = work[node][place[node]]
                if isinstance(each, _Compute):
                    self._compute(node, each)
                elif each.blocking:
                    if each.key not in waiting:
                        waiting[each.key] = node
                        break
                    other = waiting.pop(each.key)
                    self._carry(each, max(self.now_s[node], self.now_s[other]))
                    self.now_s[node] = self.now_s[other] = self.arrived_s[each.key]
                    place[other] += 1
                    ready.append(other)
                elif each.sender == node:
                    self._carry(each, self.now_s[node])
                    if each.key in waiting:
                        ready.append(waiting.pop(each.key))
                elif each.key in self.arrived_s:
                    self.now_s[node] = max(self.now_s[node], self.arrived_s[each.key])
                else:
                    waiting[each.key] = node
                    break
                place[node] += 1
        if stuck := sorted(node for node in work if place[node] < len(work[node])):
            raise UserError(
                f"nodes {stuck} of {self.plan} wait for each other's messages for ever; queue "
                "messages (blocking=False), or keep fewer micro-batches in flight"
            )

    def _operations(
        self, node: int, sequence: Iterable[Step | Transfer]
    ) -> Iterator[_Compute | _Message]:
        problem, plan = self.problem, self.plan
        seconds: dict[tuple[int, bool], float] = {}
        for each in sequence:
            if isinstance(each, Step):
                lane, kind = "backward" if each.backward else "forward", (each.stage, each.backward)
                if kind not in seconds:
                    seconds[kind] = step_s(problem, plan, node, each)
                yield _Compute(seconds[kind], lane, "" if self.spans is None else str(each))
            else:
                stage = each.after.stage - each.after.backward
                size = (each.stop - each.start) * problem.output_bytes[plan.stages[stage].last - 1]
                ends = each.sender, each.receiver
                label = "" if self.spans is None else str(each.after)
                yield _Message(each, *ends, float(size), label, plan.blocking)
        for number, (nodes, size_bytes) in enumerate(reductions(problem, plan)):
            if node not in nodes:
                continue
            others = [other for other in nodes if other != node]
            for part in ("part", "sum"):  # each node sums one share and returns it
                key, share = (number, part), size_bytes / len(nodes)
                for other in others:
                    yield _Message((key, node, other), node, other, share, part, False)
                for other in others:
                    yield _Message((key, other, node), other, node, share, part, False)
        yield _Compute(update_s(problem, plan, node), "update", "")

    def _compute(self, node: int, work: _Compute) -> None:
        start_s = self.now_s[node]
        self.now_s[node] = start_s + work.seconds
        self.busy_s[node] += work.seconds
        if self.spans is not None:
            self.spans.append(
                Span(self.names[node], work.lane, work.label, start_s, self.now_s[node])
            )

    def _carry(self, message: _Message, at_s: float) -> None:
        ends = message.sender, message.receiver
        _, end_s = self._occupy(ends, message.size_bytes, at_s, message.label)
        self.arrived_s[message.key] = end_s + self.problem.links[ends].latency_s

    def _occupy(
        self, ends: tuple[int, int], size_bytes: float, at_s: float, label: str
    ) -> tuple[float, float]:
        """Send a message when its link is free; return when it begins and ends to occupy it."""
        link = link_of(self.problem, *ends)
        start_s = max(at_s, self.free_s.get(ends, 0.0))
        end_s = start_s + message_s(link, size_bytes, start_s)
        self.free_s[ends] = end_s
        self.sent_bytes[ends] = self.sent_bytes.get(ends, 0.0) + size_bytes
        if self.spans is not None:
            name, lane = self.names[ends[0]], f"to {self.names[ends[1]]}"
            self.spans.append(
                Span(name, lane, label, start_s, end_s, round(size_bytes), "transfer")
            )
        return start_s, end_s


def link_of(problem: Problem, source: int, target: int) -> Link:
    """Return the link between two nodes; refuse a pair that has none."""
    link = problem.links.get((source, target))
    if link is None:
        raise UserError(f"the plan sends from node {source} to {target}, which have no link")
    return link


def message_s(link: Link, size_bytes: float, start_s: float = 0.0) -> float:
    """Seconds for which a message occupies a link; its latency comes on top."""
    bits, overhead_s, rate = 8 * size_bytes, link.overhead_s, link.bandwidth
    if isinstance(rate, Schedule):
        return overhead_s + rate.seconds_for(bits, start_s + overhead_s)
    return overhead_s + bits / rate
