"""Devices that take turns: an iteration of one, with its edge and cloud, then one of another.

Each iteration updates the one model, on samples of one device, so that all together are SGD on the
samples of all. So agents train one network by split learning (Gupta and Raskar 2018, *Distributed
learning of deep neural network over multiple agents*). Devices have as many turns as their share
of the samples. What a node holds in an iteration has to be as the last one left it: layers that it
did not update itself it gets from a node that did, as one message from each.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from workbench.comparison.memory import NodeMemory
from workbench.comparison.question import Pair, Question
from workbench.comparison.use import DryRun, Runner, Use
from workbench.hiertrain.costs.policy import Hybrid, Policy
from workbench.hiertrain.costs.problem import TIERS, Problem
from workbench.hiertrain.programs.network import programs_of
from workbench.runtime import Message

if TYPE_CHECKING:
    from workbench.runtime import Context, Program


SHOWN = 50
"""Turns of a simulation."""

COUNTED = 2520
"""Turns in which it is counted how often one device follows another: a multiple of 1 to 10."""


class Turn(NamedTuple):
    """An iteration of a device: its nodes as device, edge and cloud, and how they share it."""

    nodes: tuple[int, int, int]
    problem: Problem
    policy: Policy
    memory: Mapping[int, NodeMemory]

    @property
    def batches(self) -> dict[int, int]:
        """Node -> samples of which it computes something."""
        by_tier = dict(zip(TIERS, self.nodes, strict=True))
        policy, batch = self.policy, self.problem.batch
        if isinstance(policy, Hybrid):
            counts = dict(zip(policy.order, (batch, policy.b_s, policy.b_l), strict=True))
            return {by_tier[tier]: count for tier, count in counts.items() if count}
        return {by_tier[tier]: batch for tier in TIERS if policy.held(tier, self.problem.layers)}

    def layers(self, node: int) -> set[int]:
        """Layers that a node holds and updates, from 0."""
        if node not in self.nodes:
            return set()
        spans = self.policy.held(TIERS[self.nodes.index(node)], self.problem.layers)
        return {layer for first, last in spans for layer in range(first - 1, last)}


@dataclass(frozen=True)
class Turns:
    """Turns of devices on a cluster, in proportion to their samples.

    Attributes
    ----------
    turns
        Device -> its turn.
    alike
        Device -> one that does not differ in what its turn takes; itself, if it is the first.
    """

    question: Question
    turns: Mapping[int, Turn]
    alike: Mapping[int, int]

    @cached_property
    def nodes(self) -> list[int]:
        """All that take part, the devices first."""
        return list(dict.fromkeys([*self.turns, *chain(*(t.nodes for t in self.turns.values()))]))

    @cached_property
    def successions(self) -> dict[Pair, float]:
        """(device, device of the next turn) -> share of all turns."""
        devices = tuple(self.turns)
        shares = successions(tuple(map(self._samples, devices)))
        return {(devices[a], devices[b]): share for (a, b), share in shares.items()}

    @cached_property
    def order(self) -> list[int]:
        """Devices in the order of their turns, which begins again at its end."""
        devices = list(self.turns)
        return [devices[place] for place in schedule(tuple(map(self._samples, devices)))]

    def use(self) -> Use:
        """What an iteration takes, as the mean of all."""
        seconds = 0.0
        sums = [defaultdict[Any, float](float) for _ in range(3)]
        for pair, share in self.successions.items():
            use = self._one_more(pair)
            seconds += share * use.iteration_s
            of_pair: list[Mapping[Any, float]] = [use.busy_s, use.link_bytes, use.messages]
            for total, values in zip(sums, of_pair, strict=True):
                for key, value in values.items():
                    total[key] += share * value
        return Use(seconds, self.question.batch_size, *map(dict, sums))

    def _one_more(self, pair: Pair) -> Use:
        """What a turn takes after another; the same for devices that are alike."""
        before, device = pair
        links = {
            (size, self.question.routed.link(*hop), self.question.path_bps(*hop))
            for hop, size in self.handed_over(*pair).items()
        }
        about = self.alike[before], self.alike[device], before == device, frozenset(links)
        if about not in self._known:
            self._known[about] = pair, self.dry_run((device, before, device)).use()
        known, use = self._known[about]
        names = dict(zip(known, pair, strict=True))

        def renamed(values: Mapping[Pair, float]) -> dict[Pair, float]:
            return {(names.get(a, a), names.get(b, b)): value for (a, b), value in values.items()}

        return replace(
            use,
            busy_s={names.get(node, node): busy_s for node, busy_s in use.busy_s.items()},
            link_bytes=renamed(use.link_bytes),
            messages=renamed(use.messages),
        )

    @cached_property
    def _known(self) -> dict[object, tuple[Pair, Use]]:
        """By what a turn depends on: two devices, and what it takes."""
        return {}

    def run(self, run: Runner, count: int | None = None) -> Use:
        """The same with the seconds of turns that follow each other in one run.

        With a `count` of turns, the mean is over pairs of devices that follow each other in them.
        """
        order = self.order[: SHOWN if count is None else count + 1]
        ends = defaultdict[int, float](float)
        cluster = self.question.part(self.nodes, [1.0] * len(self.nodes))
        for at_s in run(cluster, self.programs(order)).results.values():
            for number, end_s in at_s.items():
                ends[number] = max(ends[number], end_s)
        taken_s = defaultdict[Pair, list[float]](list)
        for number, pair in enumerate(pairwise(order), start=1):
            taken_s[pair].append(ends[number] - ends[number - 1])
        seconds = 0.0
        shares = self.successions
        if count is not None:
            whole = sum(shares[pair] for pair in taken_s)
            shares = {pair: shares[pair] / whole for pair in taken_s}
        for pair, share in shares.items():
            if pair in taken_s:
                seconds += share * sum(taken_s[pair]) / len(taken_s[pair])
            else:  # a device with few samples
                seconds += share * self._one_more(pair).iteration_s
        return replace(self.use(), iteration_s=seconds)

    def _samples(self, device: int) -> int:
        return self.question.samples[device]

    def dry_run(self, order: Sequence[int], nodes: Sequence[int] | None = None) -> DryRun:
        """Turns in this order, again and again; on the devices' nodes, or on these.

        Its use is that of the turn that ends the order, after all others.
        """
        if nodes is None:
            nodes = list(dict.fromkeys(chain(*(self.turns[device].nodes for device in order))))

        def programs(count: int) -> list[Program]:
            return self.programs([order[at % len(order)] for at in range(count)], nodes)

        cluster = self.question.part(nodes, [1.0] * len(nodes))
        return DryRun(
            cluster, nodes, programs, self.question.batch_size, len(order) - 1, len(order)
        )

    def programs(self, order: Sequence[int], nodes: Sequence[int] | None = None) -> list[Program]:
        """Programs of nodes, of all by default; their results: when which turn ended."""
        nodes = self.nodes if nodes is None else nodes
        parts = {
            device: dict(
                zip(
                    self.turns[device].nodes,
                    programs_of(*self.turns[device][1:3], 1, sharing="interfaces"),
                    strict=True,
                )
            )
            for device in set(order)
        }
        places = {device: [*map(nodes.index, self.turns[device].nodes)] for device in parts}
        handed = {pair: self.handed_over(*pair) for pair in set(pairwise(order))}

        def program_of(node: int) -> Program:
            async def program(context: Context) -> dict[int, float]:
                ends_s = {}
                for number, device in enumerate(order):
                    if number:
                        for a, b in handed[order[number - 1], device]:
                            if b == node:
                                await context.receive("weights", sender=nodes.index(a))
                    if node in parts[device]:
                        in_turn = _InTurn(context, places[device])
                        await parts[device][node](cast("Context", in_turn))
                        ends_s[number] = context.now_s()
                    if number + 1 < len(order):
                        for (a, b), size in handed[device, order[number + 1]].items():
                            if a == node:
                                weights = Message(context.node, "weights", None, size)
                                context.send(nodes.index(b), weights)
                return ends_s

            return program

        return [program_of(node) for node in nodes]

    def handed_over(self, before: int, after: int) -> dict[Pair, float]:
        """(source, target) -> bytes of layers that a turn needs and others updated in the last."""
        first, then = self.turns[before], self.turns[after]
        sizes = first.problem.param_bytes
        holders = first.policy.holders(first.problem.layers)
        sources = [first.nodes[TIERS.index(tier)] for tier in holders]
        sent = defaultdict[Pair, float](float)
        for node in then.nodes:
            for layer in sorted(then.layers(node) - first.layers(node)):
                if sizes[layer]:
                    sent[sources[layer], node] += float(sizes[layer])
        return dict(sent)

    def batches(self) -> dict[int, int]:
        """Node -> most samples of a turn of which it computes something."""
        found = Counter[int]()
        for turn in self.turns.values():
            found |= Counter(turn.batches)
        return dict(found)

    def memory(self) -> dict[int, NodeMemory]:
        """Of each node, of the turn in which it needs most."""
        found: dict[int, NodeMemory] = {}
        for node, one in chain(*(turn.memory.items() for turn in self.turns.values())):
            found[node] = max(found.get(node, one), one, key=lambda held: held.once_bytes)
        return found


@cache
def schedule(samples: tuple[int, ...]) -> list[int]:
    """Turns in proportion to samples, by place: the next is of who is furthest behind its share."""
    shares = [each / sum(samples) for each in samples]
    taken, order = [0] * len(shares), list[int]()
    for number in range(1, COUNTED + 1):
        behind = [share * number - count for share, count in zip(shares, taken, strict=True)]
        order.append(behind.index(max(behind)))
        taken[order[-1]] += 1
    return order


@cache
def successions(samples: tuple[int, ...]) -> Mapping[Pair, float]:
    """(place of a turn, of the next) -> share of all turns."""
    order = schedule(samples)
    order = order + sorted({*range(len(samples))} - {*order})
    counts, after = Counter(pairwise([order[-1], *order])), Counter(order)
    return {
        pair: samples[pair[1]] / sum(samples) * count / after[pair[1]]
        for pair, count in sorted(counts.items())
    }


class _InTurn:
    """A node's context in a turn, in which nodes are known by their tiers' places."""

    def __init__(self, context: Context, places: Sequence[int]) -> None:
        self._context, self._places = context, places
        self.node = places.index(context.node)
        self.now_s, self.compute, self.spawn = context.now_s, context.compute, context.spawn

    def send(self, to: int, message: Message) -> None:
        self._context.send(self._places[to], replace(message, sender=self._context.node))

    async def receive(self, topic: str, *, sender: int | None = None) -> Message:
        known = None if sender is None else self._places[sender]
        message = await self._context.receive(topic, sender=known)
        return replace(message, sender=self._places.index(message.sender))
