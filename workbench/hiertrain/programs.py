"""Programs of devices, edge and cloud, and the simulated network on which they run.

Under a `Hybrid`, worker s computes layers 1..m_s and worker l layers 1..m_l, each of its own
samples, and worker o takes their features further with its own. Backward, it returns each the
gradient of its features. Then the gradients of the parameters are added up, layer by layer those of
all who have the layer, and every worker updates its own layers (Liu et al. 2020, IV-B, Fig. 4).
Under a `Chain`, runs of layers are on one tier each, and all samples pass through all of them.

Of several devices each has its share of the samples; as worker o they take further the features of
their own, and edge or cloud adds up (`costs.as_one`). A node serves a device's samples, on request
at the start of an iteration. Labels travel with samples and features, at no cost.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.clusters import Cluster, Link, Node
from workbench.hiertrain.costs import (
    PAIRS,
    TIERS,
    Chain,
    Devices,
    Hybrid,
    Policy,
    Problem,
    as_one,
)
from workbench.hiertrain.learning import Learner
from workbench.runtime import Message
from workbench.utils.checks import check_kind, check_name, check_truth, check_whole

if TYPE_CHECKING:
    from workbench.runtime import Context, Program

PASSES = ("forward", "backward")
SHARING = ("none", "interfaces")
SOURCE = "samples"


class Request(NamedTuple):
    """Samples `first` to `last - 1` of an iteration's batch, counted from 0."""

    iteration: int
    first: int
    last: int


Samples = Callable[[Request], Any]
"""Gives samples as features before layer 1."""


class Role(NamedTuple):
    """A part in a training: a device, the edge or the cloud, on a node.

    Attributes
    ----------
    share
        Of its tier's samples: 1, or less for each of several devices.
    has_neighbour
        Whether its node has two roles, a device and the edge or the cloud.
    """

    tier: str
    node: int
    share: float = 1.0
    has_neighbour: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Worker(ABC):
    """A role's program: what it computes, sends and waits for.

    Attributes
    ----------
    iterations
        How many it runs.
    problem
        Its seconds and the model's bytes; a device's as if it had all samples.
    team
        All roles by tier: one each, or several devices.
    hub
        The role that averages gradients.
    sources
        Nodes that hand out samples: its own of a device, those of all devices of edge and cloud.
    """

    role: Role
    iterations: int
    problem: Problem
    team: Mapping[str, Sequence[Role]]
    hub: Role
    sources: Sequence[int]
    learner: Learner

    @abstractmethod
    async def __call__(self, context: Context) -> None:
        """Run the iterations."""

    async def take_samples(self, context: Context, iteration: int, samples: range) -> Any:
        """Request samples of an iteration's batch and wait for them; do nothing if it takes none.

        Each source sends its share of them.
        """
        if not samples:
            return None
        request = Request(iteration, samples.start, samples.stop)
        for source in self.sources:
            context.send(source, Message(context.node, "request", request, control=True))
        parts = [await context.receive("samples", sender=source) for source in self.sources]
        return self.learner.join([message.payload for message in parts])

    async def forward(
        self, context: Context, layers: tuple[int, int], samples: int, features: Any
    ) -> Any:
        """Run layers forward for its share of the samples; without layers or samples, at once."""
        run = self.learner.forward
        return await self._compute(context, run, "forward", layers, features, samples=samples)

    async def backward(
        self, context: Context, layers: tuple[int, int], samples: int, gradient: Any
    ) -> Any:
        """Run layers backward, as `forward`."""
        run = self.learner.backward
        return await self._compute(context, run, "backward", layers, gradient, samples=samples)

    async def _compute(
        self,
        context: Context,
        run: Callable[[int, int, Any], Any],
        lane: str,
        layers: tuple[int, int],
        tensor: Any,
        *,
        samples: int,
    ) -> Any:
        first, last = layers
        if first > last or not samples:
            return tensor
        own = self.role.share * samples
        spans_s = self.problem.span_s[PASSES.index(lane), TIERS.index(self.role.tier)]
        return await context.compute(
            partial(run, first, last, tensor),
            cost_s=float(own * spans_s[first - 1, last]),
            lane=lane,
            label=f"layers {first}-{last}, {own:g} samples",
        )

    def loss(self, context: Context, features: Any) -> Any:
        """Record the loss; return its gradient by the model's outputs."""
        loss, gradient = self.learner.loss(features)
        if loss is not None:
            context.record(loss)
        return gradient

    async def update(self, context: Context, averaged: Any, cost_s: float) -> None:
        """Update the weights; record the model at the end of an epoch."""
        model = await context.compute(
            partial(self.learner.step, averaged), cost_s=cost_s, lane="update", label="weights"
        )
        if model is not None:
            context.record(model)

    def send(
        self,
        context: Context,
        to: Sequence[Role],
        topic: str,
        payload: Any,
        size_bytes: float,
        *,
        shared: bool = True,
    ) -> None:
        """Send to roles of a tier, each by its share of the samples or the whole size.

        What has no bytes is free, as in the cost model.
        """
        for role in to:
            size = float(self.role.share * role.share * size_bytes if shared else size_bytes)
            name = _topic(topic, self.role, role)
            context.send(role.node, Message(context.node, name, payload, size, control=size == 0))

    async def receive(self, context: Context, senders: Sequence[Role], topic: str) -> list[Any]:
        """Wait for what each role of a tier sends."""
        return [
            (await context.receive(_topic(topic, role, self.role), sender=role.node)).payload
            for role in senders
        ]

    async def wait_for(self, context: Context, roles: Sequence[Role]) -> None:
        """Wait until all roles have come so far: a barrier, at no cost.

        Devices, which have no links between them, wait for the other tiers alone.
        """
        others = [role for role in roles if role.tier != self.role.tier]
        self.send(context, others, "phase done", None, 0)
        await self.receive(context, others, "phase done")

    async def average(self, context: Context, members: Mapping[Role, tuple[int, float]]) -> Any:
        """Average gradients on the hub, and return the mean.

        `members` are the other roles, with the last layer and the bytes of their gradients.
        """
        if self.role != self.hub:
            last, size_bytes = members[self.role]
            own, to = self.learner.gradients(last), [self.hub]
            self.send(context, to, "weight gradients", own, size_bytes, shared=False)
            (mean,) = await self.receive(context, to, "averaged gradients")
            return mean
        mean = self.learner.average(await self.receive(context, [*members], "weight gradients"))
        for member, (last, size_bytes) in members.items():
            part = self.learner.part(mean, last)
            self.send(context, [member], "averaged gradients", part, size_bytes, shared=False)
        return mean


def _topic(topic: str, sender: Role, to: Role) -> str:
    """Topic that is unique to a pair of roles, even where nodes have several."""
    crowded = sender.has_neighbour or to.has_neighbour
    return f"{topic}, {sender.tier} to {to.tier}" if crowded else topic


class Task(NamedTuple):
    """What worker s or l does: layers 1 to `last` of samples, in blocks of layers."""

    tier: str
    last: int
    samples: range
    blocks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class HybridWorker(Worker):
    """Worker under hybrid parallelism; o, s and l take the samples of a batch in this order.

    With `barriers` every phase of the cost model begins when all have ended the one before.
    """

    policy: Hybrid
    barriers: bool

    @property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """First and last layer of each phase."""
        m_s, m_l = self.policy.m_s, self.policy.m_l
        return (1, m_s), (m_s + 1, m_l), (m_l + 1, self.problem.layers)

    @property
    def tasks(self) -> tuple[Task, Task]:
        """Tasks of workers s and l."""
        policy, (_, s, l) = self.policy, self.policy.order  # noqa: E741
        before_l = policy.b_o + policy.b_s
        return (
            Task(s, policy.m_s, range(policy.b_o, before_l), self.blocks[:1]),
            Task(l, policy.m_l, range(before_l, policy.batch_size), self.blocks[:2]),
        )

    @property
    def members(self) -> dict[Role, tuple[int, float]]:
        """Last layer and bytes of gradients of all that hold layers, but for the hub."""
        return {
            role: (last, float(self.problem.param_sum_bytes[last]))
            for tier, last in self.policy.lasts(self.problem.layers).items()
            for role in self.team[tier]
            if last and role != self.hub
        }

    async def barrier(self, context: Context) -> None:
        """Wait until all have ended the phase, if there are barriers."""
        if self.barriers:
            await self.wait_for(context, [*self.members, self.hub])

    async def __call__(self, context: Context) -> None:
        """Run the iterations."""
        role, (short, long), members = self.role, self.tasks, self.members
        last = self.policy.lasts(self.problem.layers)[role.tier]
        update_s = float(self.problem.update_sum_s[TIERS.index(role.tier), last])
        for iteration in range(self.iterations if last or role == self.hub else 0):
            self.learner.begin(iteration)
            for _batch in range(self.problem.accumulate):
                if role.tier == self.policy.order[0]:
                    await self._original(context, iteration)
                elif last and role.tier == short.tier:
                    await self._short(context, iteration, short)
                elif last:
                    await self._long(context, iteration, long)
                else:  # a hub without layers only averages
                    for _phase in self.blocks:
                        await self.barrier(context)
            mean = await self.average(context, members)
            await self.barrier(context)
            if last:
                await self.update(context, mean, update_s)
            await self.barrier(context)

    async def _original(self, context: Context, iteration: int) -> None:
        """Forward and backward of worker o: its own samples first, then those of s, then of l."""
        first, second, third = self.blocks
        policy, (short, long) = self.policy, self.tasks
        b_o, b_os, batch = policy.b_o, policy.b_o + policy.b_s, policy.batch_size
        features = await self.take_samples(context, iteration, range(b_o))
        features = await self.forward(context, first, b_o, features)
        features = await self._join(context, features, short)
        await self.barrier(context)
        features = await self.forward(context, second, b_os, features)
        features = await self._join(context, features, long)
        features = await self.forward(context, third, batch, features)
        gradient = self.loss(context, features)
        gradient = await self.backward(context, third, batch, gradient)
        gradient = self._split(context, gradient, long)
        gradient = await self.backward(context, second, b_os, gradient)
        await self.barrier(context)
        gradient = self._split(context, gradient, short)
        await self.backward(context, first, b_o, gradient)
        await self.barrier(context)

    async def _join(self, context: Context, features: Any, task: Task) -> Any:
        """Worker o's features, and behind them those of a task."""
        if not task.samples:
            return features
        parts = await self.receive(context, self.team[task.tier], "features")
        return self.learner.join([features, *parts])

    def _split(self, context: Context, gradient: Any, task: Task) -> Any:
        """Send a task the gradient of its features; return that of the others."""
        if not (samples := len(task.samples)):
            return gradient
        gradient, part = self.learner.split(gradient, samples)
        size_bytes = samples * self.problem.gradient_bytes[task.last - 1]
        self.send(context, self.team[task.tier], "gradient", part, size_bytes)
        return gradient

    async def _short(self, context: Context, iteration: int, task: Task) -> None:
        """Forward and backward of worker s."""
        (block,), samples = task.blocks, len(task.samples)
        features = await self.take_samples(context, iteration, task.samples)
        features = await self.forward(context, block, samples, features)
        self._hand_on(context, features, task)
        await self.barrier(context)
        await self.barrier(context)
        gradient = await self._gradient(context, task)
        await self.backward(context, block, samples, gradient)
        await self.barrier(context)

    async def _long(self, context: Context, iteration: int, task: Task) -> None:
        """Forward and backward of worker l."""
        (first, second), samples = task.blocks, len(task.samples)
        features = await self.take_samples(context, iteration, task.samples)
        features = await self.forward(context, first, samples, features)
        await self.barrier(context)
        features = await self.forward(context, second, samples, features)
        self._hand_on(context, features, task)
        gradient = await self._gradient(context, task)
        gradient = await self.backward(context, second, samples, gradient)
        await self.barrier(context)
        await self.backward(context, first, samples, gradient)
        await self.barrier(context)

    def _hand_on(self, context: Context, features: Any, task: Task) -> None:
        if samples := len(task.samples):
            size_bytes = samples * self.problem.output_bytes[task.last - 1]
            self.send(context, self.team[self.policy.order[0]], "features", features, size_bytes)

    async def _gradient(self, context: Context, task: Task) -> Any:
        if not task.samples:
            return None
        gradient, *_ = await self.receive(context, self.team[self.policy.order[0]], "gradient")
        return gradient


@dataclass(frozen=True, eq=False, kw_only=True)
class ChainWorker(Worker):
    """Worker under model parallelism, as of JointDNN, JointDNN+ and JALAD.

    The phases follow each other as in the cost model: the weights are updated when the last
    gradient is there, on all tiers at once, and the next iteration begins when all have finished.
    Several devices compute side by side, each its own samples, and average the gradients of their
    layers before the update; a hub without layers only averages.
    """

    policy: Chain

    async def __call__(self, context: Context) -> None:
        """Run the iterations."""
        problem, policy, role = self.problem, self.policy, self.role
        holders = [role for tier in TIERS if tier in policy.tiers for role in self.team[tier]]
        averaged_bytes = policy.sum_on("device", problem.param_bytes)
        members = dict.fromkeys(self.team["device"], (problem.layers, averaged_bytes))
        averages = averaged_bytes > 0 and self.hub not in members
        update_s = policy.sum_on(role.tier, problem.update_s[role.tier])
        for iteration in range(self.iterations if role in holders or role == self.hub else 0):
            self.learner.begin(iteration)
            for _batch in range(problem.accumulate if role in holders else 0):
                await self._passes(context, iteration)
                await self.wait_for(context, holders)
            if averages and (role in members or role == self.hub):
                await self.average(context, members)
            if role in holders:
                await self.update(context, None, update_s)
                await self.wait_for(context, holders)

    async def _passes(self, context: Context, iteration: int) -> None:
        """Forward and backward of the tier's runs of layers."""
        batch = self.policy.batch
        runs = [(tier, (first, last or 0)) for tier, first, last, _ in self.policy.rows()]
        mine = [index for index, (tier, _) in enumerate(runs) if tier == self.role.tier]
        tensors = None
        for index in mine:
            if index == 0:
                tensors = await self.take_samples(context, iteration, range(batch))
            else:
                before = self.team[runs[index - 1][0]]
                tensors, *_ = await self.receive(context, before, "features")
            layers = runs[index][1]
            tensors = await self.forward(context, layers, batch, tensors)
            if index + 1 < len(runs):
                self._pass_on(context, "features", tensors, runs[index + 1][0], layers[1])
            else:
                tensors = self.loss(context, tensors)
        for index in mine[::-1]:
            if index + 1 < len(runs):
                behind = self.team[runs[index + 1][0]]
                tensors, *_ = await self.receive(context, behind, "gradient")
            layers = runs[index][1]
            tensors = await self.backward(context, layers, batch, tensors)
            if index > 0:
                self._pass_on(context, "gradient", tensors, runs[index - 1][0], layers[0] - 1)

    def _pass_on(self, context: Context, topic: str, tensors: Any, to: str, cut: int) -> None:
        """Send features of layer `cut`, or their gradient, to a tier."""
        back = topic == "gradient"
        if (bits := self.policy.bits_between(self.role.tier, to)) < 32:
            tensors = self.learner.quantise(tensors, bits)
        size_bytes = self.policy.crossing_bytes(self.problem, cut, back=back)
        self.send(context, self.team[to], topic, tensors, size_bytes)


def cluster_of(problem: Problem, sharing: str = "none") -> Cluster:
    """Device, edge and cloud, and how they are linked.

    With ``sharing`` ``"none"`` every message has its pair's whole bandwidth, whatever else is sent,
    as the paper's cost model assumes (Eq. 4): samples lie on a fourth node with the device's links
    to edge and cloud once more and a free one to the device. With ``"interfaces"`` the device sends
    the samples itself, over one interface of its bandwidth to the edge; the cloud has one of its
    bandwidth to the edge. Concurrent messages share these max-min fairly in each direction. The
    edge's two interfaces, one to either side, limit nothing more.
    """
    check_name("sharing", sharing, SHARING)
    links: dict[tuple[int | str, int | str], Link] = {pair: problem.links[pair] for pair in PAIRS}
    if sharing == "none":
        links[SOURCE, "device"] = Link(math.inf)
        links[SOURCE, "edge"] = problem.link("device", "edge")
        links[SOURCE, "cloud"] = problem.link("device", "cloud")
        nodes = [Node(name) for name in (*TIERS, SOURCE)]
    else:
        near_bps = problem.link("device", "edge").bandwidth_bps
        far_bps = problem.link("edge", "cloud").bandwidth_bps
        nodes = [
            Node("device", uplink_bps=near_bps, downlink_bps=near_bps),
            Node("edge"),
            Node("cloud", uplink_bps=far_bps, downlink_bps=far_bps),
        ]
    both_ways = {ends: link for (a, b), link in links.items() for ends in ((a, b), (b, a))}
    return Cluster(nodes, both_ways)


def programs_of(
    problem: Problem,
    policy: Policy,
    iterations: int,
    *,
    sharing: str = "none",
    barriers: bool = False,
    learners: Sequence[Learner] | None = None,
    samples: Samples | None = None,
) -> list[Program]:
    """Programs for the nodes of ``cluster_of(problem, sharing)``, in their order.

    Parameters
    ----------
    barriers
        Whether workers of a `Hybrid` wait for each other after each phase of Eqs. (5)-(11), as the
        paper's procedure has it (IV-B): an iteration then takes what the cost model says. Without,
        whoever is done goes on, which is never slower. Under a `Chain` nothing overlaps anyway.
        Requests of samples and barriers have no bytes; the latency of a link delays them, too,
        which the cost model leaves out.
    learners
        Of device, edge and cloud; without these and `samples` only bytes move.
    """
    check_name("sharing", sharing, SHARING)
    check_truth("barriers", barriers)
    check_kind("policy", policy, Policy, "a Hybrid or a Chain")  # type: ignore[type-abstract]
    policy.check(problem)
    return tier_programs(
        [(problem, 1.0)],
        policy,
        check_whole("iterations", iterations, 1),
        range(len(TIERS)),
        sources=[0 if sharing == "interfaces" else len(TIERS)],
        barriers=barriers,
        learners=learners,
        samples=samples,
    )


def tier_programs(
    devices: Devices,
    policy: Policy,
    iterations: int,
    nodes: Sequence[int],
    *,
    sources: Sequence[int] | None = None,
    barriers: bool = False,
    learners: Sequence[Learner] | None = None,
    samples: Samples | None = None,
) -> list[Program]:
    """Programs of nodes that are devices, the edge or the cloud, in their order.

    Parameters
    ----------
    nodes
        Of the devices, the edge and the cloud. A device may be edge or cloud as well.
    sources
        Nodes that hold the samples of each device; by default it holds them itself.
    learners
        Of the devices, the edge and the cloud. With several devices only bytes move.
    barriers, samples
        As for `programs_of`.
    """
    count = len(devices)
    sources = sources or nodes[:count]
    problems, shares = zip(*devices, strict=True)
    roles_on = Counter(nodes)
    roles = [
        Role(
            TIERS[max(0, place - count + 1)],
            node,
            shares[place] if place < count else 1.0,
            roles_on[node] > 1,
        )
        for place, node in enumerate(nodes)
    ]
    team = {tier: [role for role in roles if role.tier == tier] for tier in TIERS}
    whole = as_one(devices)
    if isinstance(policy, Hybrid):
        hub = team[whole.hub(policy.order[0])][0]
        taken = dict(zip(policy.order, (policy.b_o, policy.b_s, policy.b_l), strict=True))
        make: Callable[..., Worker] = partial(HybridWorker, policy=policy, barriers=barriers)
    else:
        assert isinstance(policy, Chain)
        hub = team[whole.hub("device")][0]
        taken = {policy.tiers[0]: policy.batch}
        make = partial(ChainWorker, policy=policy)
    programs: dict[int, list[Program]] = {node: [] for node in (*nodes, *sources)}
    requests = Counter[int]()
    for place, role in enumerate(roles):
        is_device = role.tier == "device"
        worker = make(
            role=role,
            iterations=iterations,
            problem=problems[place if is_device else 0],
            team=team,
            hub=hub,
            sources=sources[place : place + 1] if is_device else sources,
            learner=learners[place] if learners else Learner(),
        )
        programs[role.node].append(worker)
        if taken.get(role.tier):
            requests.update(worker.sources)
    batches = iterations * whole.accumulate
    for source, share, problem in zip(sources, shares, problems, strict=True):
        sample_bytes = share * problem.sample_bytes
        programs[source].append(_serve(requests[source] * batches, sample_bytes, samples))
    return [_side_by_side(programs[node]) for node in sorted(programs)]


def _serve(requests: int, sample_bytes: float, samples: Samples | None) -> Program:
    """Program of a node that holds a share of the samples: answers this number of requests."""

    async def program(context: Context) -> None:
        for _ in range(requests):
            message = await context.receive("request")
            request: Request = message.payload
            size_bytes = sample_bytes * (request.last - request.first)
            batch = None if samples is None else samples(request)
            free = size_bytes == 0
            answer = Message(context.node, "samples", batch, size_bytes, control=free)
            context.send(message.sender, answer)

    return program


def _side_by_side(programs: Sequence[Program]) -> Program:
    """Program that runs several at once, until all have ended."""
    first, *others = programs
    if not others:
        return first

    async def program(context: Context) -> None:
        tasks = [context.spawn(other(context)) for other in others]
        await first(context)
        for task in tasks:
            await task

    return program
