"""Ways that exchange whole models: gossip epoch by epoch, GoSGD, EdgeGossip, FedAvg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.comparison.federated import client, server
from workbench.comparison.question import Question, UnusableError
from workbench.comparison.use import DryRun, Use
from workbench.comparison.ways.way import AVERAGES, Option, Way
from workbench.decentralised.topologies import ring
from workbench.edgegossip.algorithms.balancer import Balance, balance
from workbench.edgegossip.algorithms.effects import quota
from workbench.runtime import Message

if TYPE_CHECKING:
    from workbench.runtime import Context, Program

USUAL_SAMPLES = 1000
"""Samples of each node in an epoch, if the cluster does not say how many it holds."""

GOSGD_PROBABILITY = 0.05
"""Probability that a node sends its model after a step; within what Blot et al. (2016) try."""

RATIO = 10.0
"""Samples that EdgeGossip's ranking aggregates into one."""

FORWARD_SHARE = 1 / 3
"""Share of the forward pass in the seconds of learning from a sample."""


def gossip(question: Question) -> Option:
    """Every node learns from its samples, then averages models with its neighbours on a ring."""
    samples = _samples(question)
    own_s = {node: epoch_s(question, node, count) for node, count in samples.items()}
    return _synchronous(
        question, own_s, sum(samples.values()), ("models on a ring, an epoch each",)
    )


def edgegossip(question: Question) -> Option:
    """As gossip, except that slower nodes learn from fewer samples, those that matter most."""
    samples = _samples(question)
    nodes = list(samples)
    rates = [1 / question.sample_s[node] for node in nodes]
    share = FORWARD_SHARE / RATIO
    ratios = balance(Balance(list(samples.values()), rates), ranking_share=share).ratios
    counts = {node: quota(samples[node], r) for node, r in zip(nodes, ratios, strict=True)}
    own_s = {
        node: epoch_s(question, node, counts[node])
        + samples[node] * share * question.sample_s[node]
        for node in nodes
    }
    kept = sum(counts.values()) / sum(samples.values())
    return _synchronous(
        question, own_s, sum(counts.values()), (f"{kept:.0%} of the samples are learnt from",)
    )


def gosgd(question: Question) -> Option:
    """After a step, now and then, a node sends its model to a random other; none ever waits."""
    nodes = _several(question)
    batch, seconds = question.batch_size, {node: question.batch_s(node) for node in nodes}
    longest_s = max(seconds.values())
    steps = {node: longest_s / seconds[node] for node in nodes}
    sent = {
        (a, b): GOSGD_PROBABILITY * steps[a] / (len(nodes) - 1)
        for a in nodes
        for b in nodes
        if a != b
    }
    use = Use(
        longest_s,
        batch * sum(steps.values()),
        dict.fromkeys(nodes, longest_s),
        {pair: count * question.model_bytes for pair, count in sent.items()},
        sent,
    )
    return Option(
        use=use,
        learns_from=nodes,
        batches=dict.fromkeys(nodes, batch),
        assumes=(f"sends after a step with probability {GOSGD_PROBABILITY:g}",),
    )


def fedavg(question: Question) -> Option:
    """A server averages its clients' models, each trained for an epoch on its own samples."""
    if len(question.cluster) < 2:
        raise UnusableError("a server takes a second node")
    count = len(question.cluster)
    free = [node for node in range(count) if node not in question.holders]
    options = [_federated(question, node) for node in free or range(count)]
    return max(options, key=lambda option: option.use.samples_per_s)


def _federated(question: Question, hub: int) -> Option:
    samples = {node: count for node, count in _samples(question).items() if node != hub}
    clients, size = list(samples), float(question.model_bytes)
    seconds = {node: epoch_s(question, node, count) for node, count in samples.items()}
    nodes = [*clients, hub]
    cluster = question.part(nodes)
    speeds = [question.speeds[node] for node in nodes]
    last = len(clients)

    def programs(rounds: int) -> list[Program]:
        costs_s = [seconds[node] * speed for node, speed in zip(clients, speeds, strict=False)]
        ends = [client(last, rounds, one_s, size) for one_s in costs_s]
        return [*ends, server(range(last), rounds, size)]

    dry = DryRun(cluster, nodes, programs, sum(samples.values()), first=1, last=3)
    names = question.cluster.names
    assumes = f"server on {names[hub]}", "an epoch of its own samples in each round"
    return Option(
        use=dry.use(),
        dry=dry,
        learns_from=clients,
        batches=dict.fromkeys(clients, question.batch_size) | {hub: 0},
        assumes=assumes,
    )


def _synchronous(
    question: Question, own_s: Mapping[int, float], samples: int, assumes: tuple[str, ...]
) -> Option:
    """Everyone sends its model to its neighbours on a ring and waits for theirs."""
    nodes = _several(question)
    graph = ring(len(nodes))
    near = [sorted(graph.neighbors(place)) for place in range(len(nodes))]
    size = float(question.model_bytes)
    cluster = question.part(nodes)

    def programs(rounds: int) -> list[Program]:
        return [
            _peer(
                near[place],
                rounds,
                own_s[node] * question.speeds[node],
                size,
            )
            for place, node in enumerate(nodes)
        ]

    dry = DryRun(cluster, nodes, programs, samples, first=4, last=12)
    return Option(
        use=dry.use(),
        dry=replace(dry, last=36),
        learns_from=nodes,
        batches=dict.fromkeys(nodes, question.batch_size),
        assumes=assumes,
    )


def _peer(near: Sequence[int], rounds: int, cost_s: float, size_bytes: float) -> Program:
    async def program(context: Context) -> None:
        for number in range(rounds):
            await context.compute(_nothing, cost_s=cost_s, lane="learn", label=str(number))
            for peer in near:
                context.send(peer, Message(context.node, f"model {number}", None, size_bytes))
            for peer in near:
                await context.receive(f"model {number}", sender=peer)

    return program


def _samples(question: Question) -> dict[int, int]:
    """Samples of an epoch by node."""
    return {
        node: question.cluster.nodes[node].samples or USUAL_SAMPLES for node in _several(question)
    }


def _several(question: Question) -> list[int]:
    if len(question.holders) < 2:
        raise UnusableError("models are exchanged between at least two holders of samples")
    return list(question.holders)


def epoch_s(question: Question, node: int, samples: int) -> float:
    """Seconds that a node takes to learn once from so many samples."""
    times = question.layer_times(node)
    steps = -(-samples // question.batch_size)
    speed = question.speeds[node]
    return samples * question.sample_s[node] + steps * times.update_s / speed


def _nothing() -> None:
    return None


WAYS = (
    Way(name="gossip", system="gossip", update=AVERAGES, survives=True, plan=gossip),
    Way(name="gosgd", system="gossip", update=AVERAGES, survives=True, waits=False, plan=gosgd),
    Way(
        name="edgegossip",
        system="EdgeGossip",
        update=f"{AVERAGES}, leaves samples out",
        survives=True,
        plan=edgegossip,
    ),
    Way(name="fedavg", system="FedAvg", update=AVERAGES, plan=fedavg),
)
