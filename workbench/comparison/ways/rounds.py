"""Ways that exchange whole models: gossip epoch by epoch, GoSGD, EdgeGossip, FedAvg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

from workbench.comparison.federated import client, server, together
from workbench.comparison.question import Question, UnusableError
from workbench.comparison.sharing import Transfer
from workbench.comparison.use import DryRun, Runner, Use, no_work
from workbench.comparison.ways.batches import equal
from workbench.comparison.ways.hub import Hub, with_best_hub
from workbench.comparison.ways.way import AVERAGES, Option, Way
from workbench.decentralised.topologies import ring
from workbench.edgegossip.algorithms.balancer import THRESHOLD, Balance, balance
from workbench.edgegossip.algorithms.effects import quota
from workbench.runtime import Message

if TYPE_CHECKING:
    from workbench.runtime import Context, Program

GOSGD_PROBABILITY = 0.05
"""Probability that a node sends its model after a step; within what Blot et al. (2016) try."""

GOSGD_STEPS = 2000
"""Steps of all nodes together in a simulation."""

RATIO = 10.0
"""Samples that EdgeGossip's ranking aggregates into one."""

FORWARD_SHARE = 1 / 3
"""Share of the forward pass in the seconds of learning from a sample."""


def gossip(question: Question) -> Option:
    """Every node learns from its samples, then averages models with its neighbours on a ring."""
    _holders(question)
    samples, assumes = question.samples, ("models are exchanged on a ring, once an epoch",)
    own_s = {node: epoch_s(question, node, count) for node, count in samples.items()}
    return _synchronous(question, own_s, sum(samples.values()), assumes)


def edgegossip(question: Question) -> Option:
    """As gossip, except that slower nodes learn from fewer samples, those that matter most."""
    nodes, samples = _holders(question), question.samples
    rates = [1 / question.sample_s[node] for node in nodes]
    if min(rates) < THRESHOLD:
        raise UnusableError(
            f"EdgeGossip counts nodes as failed that learn from less than {THRESHOLD:g} samples/s"
        )
    share = FORWARD_SHARE / RATIO
    ratios = balance(Balance(list(samples.values()), rates), ranking_share=share).ratios
    counts = {node: quota(samples[node], r) for node, r in zip(nodes, ratios, strict=True)}
    own_s = {
        node: epoch_s(question, node, counts[node])
        + samples[node] * share * question.sample_s[node]
        for node in nodes
    }
    learnt = sum(counts.values())
    assumes = (f"{learnt / sum(samples.values()):.0%} of the samples are learnt from in an epoch",)
    return _synchronous(question, own_s, learnt, assumes)


def gosgd(question: Question) -> Option:
    """After a step, now and then, a node sends its model to a random other; none ever waits."""
    nodes = _holders(question)
    batch, seconds = question.batch_size, {node: question.batch_s(node) for node in nodes}
    longest_s = max(seconds.values())
    steps = {node: longest_s / seconds[node] for node in nodes}

    sent = {
        (a, b): GOSGD_PROBABILITY * steps[a] / (len(nodes) - 1) for a, b in permutations(nodes, 2)
    }
    use = Use(
        longest_s,
        batch * sum(steps.values()),
        dict.fromkeys(nodes, longest_s),
        {pair: count * question.model_bytes for pair, count in sent.items()},
        sent,
    )

    def again(run: Runner, count: int | None) -> Use:
        rounds = count or max(1, round(GOSGD_STEPS / sum(steps.values())))
        taken = {node: max(1, round(rounds * steps[node])) for node in nodes}
        cluster, size = question.part(nodes), float(question.model_bytes)
        programs = [
            gosgd_peer(taken[node], seconds[node] * question.speeds[node], size) for node in nodes
        ]
        ran = run(cluster, programs)
        step_s = {node: ran.results[place] / taken[node] for place, node in enumerate(nodes)}
        iteration_s, node_of = max(step_s.values()), dict(zip(cluster.names, nodes, strict=True))
        links = {}
        for link in (one for one in ran.links if one.bytes):
            a, b = node_of[link.source], node_of[link.target]
            links[a, b] = link, iteration_s / step_s[a] / taken[a]
        return Use(
            iteration_s,
            batch * sum(iteration_s / one for one in step_s.values()),
            {node: seconds[node] * iteration_s / step_s[node] for node in nodes},
            {pair: link.bytes * share for pair, (link, share) in links.items()},
            {pair: link.messages * share for pair, (link, share) in links.items()},
        )

    return Option(
        use=use,
        again=again,
        learns_from=nodes,
        batches=dict.fromkeys(nodes, batch),
        assumes=(f"a node sends its model after a step with probability {GOSGD_PROBABILITY:g}",),
    )


def gosgd_peer(steps: int, cost_s: float, size_bytes: float) -> Program:
    """Computes, and after a step may send a random peer its model; returns when it has ended."""

    async def program(context: Context) -> float:
        for number in range(steps):
            await context.compute(no_work, cost_s=cost_s, lane="learn", label=str(number))
            if context.random.random() < GOSGD_PROBABILITY:
                to = int(context.random.choice(context.peers))
                context.send(to, Message(context.node, "model", None, size_bytes))
        return context.now_s()

    return program


def fedavg(question: Question) -> Option:
    """A server averages its clients' models, each trained for an epoch on its own samples."""
    _holders(question)
    samples = question.samples
    worker_s = {node: epoch_s(question, node, count) for node, count in samples.items()}

    def own_s(hub: Hub) -> dict[int, float]:
        if hub.node not in samples:
            return worker_s
        return worker_s | {hub.node: epoch_s(question, hub.node, samples[hub.node], serves=True)}

    def least_s(hub: Hub) -> float:
        size, all_s = question.model_bytes, own_s(hub)
        seconds = (
            hub.down.least_s(one, size) + all_s[one] + hub.up.least_s(one, size)
            for one in hub.remote
        )
        return max(hub.interface_s, all_s.get(hub.node, 0.0), *seconds)

    batches = equal(question)
    return with_best_hub(question, batches, lambda hub: _federated(hub, own_s(hub)), least_s)


def _federated(hub: Hub, own_s: Mapping[int, float]) -> Option:
    question, size = hub.question, float(hub.question.model_bytes)
    samples = sum(question.samples.values())
    pairs = [(hub.node, node) for node in hub.remote] + [(node, hub.node) for node in hub.remote]
    use = Use(
        iteration_s=round_s(hub, own_s),
        samples=samples,
        busy_s=own_s,
        link_bytes=dict.fromkeys(pairs, size),
        messages=dict.fromkeys(pairs, 1.0),
    )

    def programs(rounds: int) -> list[Program]:
        return [member(node, rounds) for node in hub.nodes]

    def member(node: int, rounds: int) -> Program:
        parts = []
        if node == hub.node:
            parts.append(server(range(len(hub.workers)), rounds, size))
        if node in own_s:
            cost_s = own_s[node] * question.speeds[node]
            parts.append(client(hub.place, rounds, cost_s, size))
        return together(parts)

    return Option(
        use=use,
        dry=DryRun(question.part(hub.nodes), hub.nodes, programs, samples, first=1, last=3),
        learns_from=hub.workers,
        batches=hub.all_batches,
        server=hub.node,
        where=hub.where,
        assumes=("a round is an epoch of each client's own samples",),
    )


def round_s(hub: Hub, own_s: Mapping[int, float]) -> float:
    """Seconds from one average to the next; exact in the simulated network.

    A client receives the model, learns, and sends its own; the hub's interface is shared fairly.
    """
    bits = 8.0 * hub.question.model_bytes
    sent_s = hub.down.arrive_s(
        {node: [Transfer(0.0, link.overhead_s, bits)] for node, link in hub.down.links.items()}
    )
    received_s = hub.up.arrive_s(
        {
            node: [Transfer(sent_s[node][0] + own_s[node], link.overhead_s, bits)]
            for node, link in hub.up.links.items()
        }
    )
    return max(own_s.get(hub.node, 0.0), *(one for (one,) in received_s.values()))


def _synchronous(
    question: Question, own_s: Mapping[int, float], samples: int, assumes: tuple[str, ...]
) -> Option:
    """Everyone sends its model to its neighbours on a ring and waits for theirs."""
    nodes = _holders(question)
    graph = ring(len(nodes))
    near = [sorted(graph.neighbors(place)) for place in range(len(nodes))]
    size = float(question.model_bytes)
    cluster = question.part(nodes)
    used = {(a, b): cluster.links[a, b] for a in range(len(nodes)) for b in near[a]}
    cluster = replace(cluster, links=used)

    def programs(rounds: int) -> list[Program]:
        return [
            peer(near[place], rounds, own_s[node] * question.speeds[node], size)
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


def peer(near: Sequence[int], rounds: int, cost_s: float, size_bytes: float) -> Program:
    """Computes, sends a model to its neighbours and waits for theirs; `cost_s` at a speed of 1."""

    async def program(context: Context) -> None:
        for number in range(rounds):
            await context.compute(no_work, cost_s=cost_s, lane="learn", label=str(number))
            for peer in near:
                context.send(peer, Message(context.node, f"model {number}", None, size_bytes))
            for peer in near:
                await context.receive(f"model {number}", sender=peer)

    return program


def _holders(question: Question) -> list[int]:
    if len(question.holders) < 2:
        raise UnusableError("an exchange of models needs at least two nodes that hold samples")
    return list(question.holders)


def epoch_s(question: Question, node: int, samples: int, *, serves: bool = False) -> float:
    """Seconds of a node's pass over as many samples; one that `serves` has less memory for it."""
    times = question.layer_times(node, serves=serves)
    steps = -(-samples // question.batch_size)
    batch_s = samples / question.batch_size * (times.forward_s + times.backward_s)
    return (batch_s + steps * times.update_s) / question.speeds[node]


WAYS = (
    Way(name="gossip", system="gossip", update=AVERAGES, survives=True, plan=gossip),
    Way(name="gosgd", system="gossip", update=AVERAGES, survives=True, waits=False, plan=gosgd),
    Way(
        name="edgegossip",
        system="EdgeGossip",
        update=f"{AVERAGES}, may leave samples out",
        survives=True,
        plan=edgegossip,
    ),
    Way(name="fedavg", system="FedAvg", update=AVERAGES, plan=fedavg),
)
