"""Methods that exchange whole models: gossip once an epoch, GoSGD and EdgeGossip."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from workbench.comparison.cost import Phase, mean, no_work, periods
from workbench.comparison.methods import batches
from workbench.comparison.methods.method import AVERAGES, Method, Plan
from workbench.comparison.problem import Problem, UnusableError
from workbench.decentralised.topologies import ring
from workbench.edgegossip.algorithms.balancer import THRESHOLD, balance
from workbench.edgegossip.algorithms.effects import quota
from workbench.runtime import Message
from workbench.utils.numbers import percent

if TYPE_CHECKING:
    from workbench.runtime import Context, Program, Run

GOSGD_PROBABILITY = 0.05
"""Probability that a node sends its model after a step; within what Blot et al. (2016) try."""

GOSGD_NODES = 200
"""Largest number of nodes: the number of links grows as its square."""

GOSGD_STEPS = 2000
"""Steps of all nodes together in a simulation."""

BEGINNING, FEWEST_ROUNDS, MOST_ROUNDS = 4, 8, 32
"""Rounds of gossip left out as warm-up; fewest and most rounds over which a mean is taken."""

RING_STEPS = 1600
"""Rounds, summed over nodes, over which a mean is taken, within these limits."""

RATIO = 10.0
"""Samples that EdgeGossip's ranking aggregates into one."""

FORWARD_SHARE = 1 / 3
"""Share of the forward pass in the seconds of learning from a sample."""


def gossip(problem: Problem) -> Plan:
    """Every node learns from its samples, then averages models with its neighbours on a ring."""
    samples, assumes = problem.samples, ("models are exchanged on a ring, once an epoch",)

    def own_s(part: Problem) -> dict[int, float]:
        return {node: epoch_s(part, node, count) for node, count in samples.items()}

    return _synchronous(problem, own_s, sum(samples.values()), assumes)


def edgegossip(problem: Problem) -> Plan:
    """Gossip in which slower nodes learn from fewer samples, those that matter most."""
    nodes, samples = check_owners(problem), problem.samples
    rates = [1 / problem.sample_s[node] for node in nodes]
    if min(rates) < THRESHOLD:
        raise UnusableError(
            f"EdgeGossip counts nodes as failed that learn from less than {THRESHOLD:g} samples/s"
        )
    ranking = FORWARD_SHARE / RATIO
    ratios = balance(list(samples.values()), rates, ranking_share=ranking).ratios
    counts = {node: quota(samples[node], ratio) for node, ratio in zip(nodes, ratios, strict=True)}

    def own_s(part: Problem) -> dict[int, float]:
        return {
            node: epoch_s(part, node, counts[node]) + samples[node] * ranking * part.sample_s[node]
            for node in nodes
        }

    learnt = sum(counts.values())
    same = ", the same in each" if problem.cache_frozen else ""
    share = learnt / sum(samples.values())
    assumes = (f"{percent(share)} of the samples are learnt from in an epoch{same}",)
    return _synchronous(problem, own_s, learnt, assumes)


def gosgd(problem: Problem) -> Plan:
    """Nodes send their models to random others, after some of their steps, and never wait.

    An iteration is a step of the slowest node.
    """
    nodes = check_owners(problem)
    if len(nodes) > GOSGD_NODES:
        raise UnusableError(
            f"{len(nodes)} nodes hold samples, of which each may send to any other; up to "
            f"{GOSGD_NODES} are compared"
        )
    size, cluster = float(problem.model_bytes), problem.routes.part(nodes)

    def phase(part: Problem) -> Phase:
        seconds = {node: part.batch_s(node) for node in nodes}
        steps = {node: max(seconds.values()) / seconds[node] for node in nodes}

        def programs(iterations: int) -> list[Program]:
            return [
                gosgd_peer(round(iterations * steps[node]), seconds[node] * part.speeds[node], size)
                for node in nodes
            ]

        last = 1 + max(1, round(GOSGD_STEPS / sum(steps.values())))
        samples = problem.batch_size * sum(steps.values())
        return Phase(cluster, nodes, programs, samples, first=1, last=last, end_s=_last_step_s)

    phases = periods(problem, phase)
    return Plan(
        cost=mean([each.cost() for each in phases], [each.share for each in phases]),
        phases=phases,
        learns_from=nodes,
        batches=dict.fromkeys(nodes, problem.batch_size),
        assumes=(
            *batches.assumes(problem, {node: 1 / problem.batch_s(node) for node in nodes}),
            f"a node sends its model after a step with probability {GOSGD_PROBABILITY:g}",
        ),
    )


def _last_step_s(run: Run) -> float:
    return float(max(run.results.values()))


def gosgd_peer(steps: int, cost_s: float, size_bytes: float) -> Program:
    """A node of GoSGD; its result is the time at which its last step ended."""

    async def program(context: Context) -> float:
        for number in range(steps):
            await context.compute(no_work, cost_s=cost_s, lane="learn", label=str(number))
            if context.random.random() < GOSGD_PROBABILITY:
                to = int(context.random.choice(context.peers))
                context.send(to, Message(context.node, "model", None, size_bytes))
        return context.now_s()

    return program


def _synchronous(
    problem: Problem,
    own_s: Callable[[Problem], Mapping[int, float]],
    samples: int,
    assumes: tuple[str, ...],
) -> Plan:
    """Every node sends its model to its neighbours on a ring and waits for theirs."""
    nodes = check_owners(problem)
    graph = ring(len(nodes))
    near = [sorted(graph.neighbors(place)) for place in range(len(nodes))]
    size = float(problem.model_bytes)
    pairs = [(nodes[a], nodes[b]) for a in range(len(nodes)) for b in near[a]]
    cluster = problem.routes.part(nodes, pairs=pairs)

    last = BEGINNING + min(MOST_ROUNDS, max(FEWEST_ROUNDS, RING_STEPS // len(nodes)))

    def phase(part: Problem) -> Phase:
        seconds = own_s(part)

        def programs(rounds: int) -> list[Program]:
            return [
                peer(near[place], rounds, seconds[node] * problem.speeds[node], size)
                for place, node in enumerate(nodes)
            ]

        return Phase(cluster, nodes, programs, samples, first=BEGINNING, last=last)

    return Plan.of(
        problem,
        periods(problem, phase),
        learns_from=nodes,
        batches=dict.fromkeys(nodes, problem.batch_size),
        assumes=assumes,
    )


def peer(near: Sequence[int], rounds: int, cost_s: float, size_bytes: float) -> Program:
    """A node that computes, then exchanges models with its neighbours; `cost_s` at speed 1."""

    async def program(context: Context) -> None:
        for number in range(rounds):
            await context.compute(no_work, cost_s=cost_s, lane="learn", label=str(number))
            for peer in near:
                context.send(peer, Message(context.node, f"model {number}", None, size_bytes))
            for peer in near:
                await context.receive(f"model {number}", sender=peer)

    return program


def check_owners(problem: Problem) -> list[int]:
    """Return the data owners; raise UnusableError for fewer than two."""
    if len(problem.owners) < 2:
        raise UnusableError("an exchange of models needs at least two nodes that hold samples")
    return list(problem.owners)


def epoch_s(problem: Problem, node: int, samples: int) -> float:
    """Seconds of a node's pass over this number of samples."""
    times = problem.layer_times(node)
    steps = -(-samples // problem.batch_size)
    batch_s = samples / problem.batch_size * (times.forward_s + times.backward_s)
    return (batch_s + steps * times.update_s) / problem.speeds[node]


METHODS = (
    Method(name="gossip", system="gossip", update=AVERAGES, survives=True, planner=gossip),
    Method(name="gosgd", system="gossip", update=AVERAGES, survives=True, planner=gosgd),
    Method(
        name="edgegossip",
        system="EdgeGossip",
        update=f"{AVERAGES}, may leave samples out",
        survives=True,
        planner=edgegossip,
    ),
)
