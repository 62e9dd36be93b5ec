"""Peers without a server: DLion and other systems of gradients, and exchanges of models."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from workbench.comparison.cost import Cost, mean, shares, within_links
from workbench.comparison.methods import batches
from workbench.comparison.methods.method import AVERAGES, EQUAL, Method, Plan
from workbench.comparison.problem import Problem, UnusableError
from workbench.decentralised import EXCHANGES
from workbench.dlion.algorithms import SYSTEMS
from workbench.dlion.costs.iteration import Workload, iteration

LEAST_ROUNDS, MOST_ROUNDS = 10, 30
"""Exchanges over which a mean is taken, unless they repeat themselves earlier."""

EXCHANGED = 800
"""Messages of a dry run: the fewer the peers, the more exchanges."""

NEVER_WAIT = ("ako", "ad_psgd")
"""Systems whose peers never wait for messages, so that links do not set their pace."""

MOST_PEERS = 32
"""Largest number of peers: the messages to simulate grow as its square."""

MOST_UNEQUAL = 200
"""Largest ratio of two peers' seconds a batch: every iteration of the fastest is simulated."""

STALE = "gradients stale by up to 5"
PARTLY = f"{STALE}, leaves values out"
UPDATES = {
    "baseline": EQUAL,
    "hop": f"{STALE}, leaves the slowest out",
    "ako": "gradients of any age",
    **dict.fromkeys(("gaia", "max10", "dlion", "top_k"), PARTLY),
}
TITLES = {"baseline": "synchronous exchange of whole gradients among peers"}


def plan(problem: Problem, system: str) -> Plan:
    """Every data owner as a peer of all others."""
    nodes = problem.owners
    if len(nodes) < 2:
        raise UnusableError("peers need at least two nodes that hold samples")
    if len(nodes) > MOST_PEERS:
        raise UnusableError(
            f"{len(nodes)} nodes hold samples; each as a peer of all others, up to {MOST_PEERS} "
            "are compared"
        )
    rounds = EXCHANGED // (len(nodes) * (len(nodes) - 1))
    rounds = min(MOST_ROUNDS, max(LEAST_ROUNDS, rounds))
    equal = UPDATES.get(system) == EQUAL
    own_s = _own_s(problem, is_equal=equal)
    least_s = min(own_s)
    if max(own_s) > MOST_UNEQUAL * least_s:
        raise UnusableError(
            f"the slowest data owner takes {max(own_s) / least_s:.0f} times as long as the "
            f"fastest; peers are compared up to {MOST_UNEQUAL} times"
        )
    costs, learnt_per_s = zip(
        *(_cost(part, system, rounds, is_equal=equal) for part, _ in problem.periods), strict=True
    )
    assumes: tuple[str, ...] = ()
    if len({(problem.samples[node], own) for node, own in zip(nodes, own_s, strict=True)}) > 1:
        assumes = batches.assumes(problem, learnt_per_s[-1])
    if equal:
        assumes += ("each node sends its whole gradient to all others",)
    elif UPDATES.get(system) == PARTLY:
        assumes += (
            "bytes depend on gradients: estimated with random ones, or by recorded trainings",
        )
    return Plan(
        cost=mean(costs, shares(problem, [cost.samples for cost in costs])),
        learns_from=nodes,
        batches=dict.fromkeys(nodes, problem.batch_size),
        assumes=assumes,
        accumulates=problem.accumulate if equal else 1,
    )


def _own_s(problem: Problem, *, is_equal: bool) -> list[float]:
    """Seconds of each peer's iteration without messages."""
    return list(map(problem.step_s if is_equal else problem.batch_s, problem.owners))


def _cost(
    problem: Problem, system: str, rounds: int, *, is_equal: bool
) -> tuple[Cost, dict[int, float]]:
    """Cost of an iteration of the slowest peer, and samples a second that each learns from."""
    nodes, own_s = problem.owners, _own_s(problem, is_equal=is_equal)
    samples, least_s = problem.step_samples if is_equal else problem.batch_size, min(own_s)
    cluster = problem.routes.part(nodes, [least_s / each_s for each_s in own_s])
    workload = Workload(float(problem.model_bytes), least_s / samples, local_batch=samples)

    average = iteration(cluster, workload, system, rounds=rounds)
    longest_s = max(average.iteration_s)

    def sent(by_pair: Mapping[tuple[int, int], float]) -> dict[tuple[int, int], float]:
        return {
            (nodes[a], nodes[b]): amount * longest_s / average.iteration_s[a]
            for (a, b), amount in by_pair.items()
        }

    cost = Cost(
        iteration_s=longest_s,
        samples=average.samples_per_s * longest_s,
        busy_s={
            node: average.compute_s[place] / average.iteration_s[place] * longest_s
            for place, node in enumerate(nodes)
        },
        link_bytes=sent(average.link_bytes),
        messages=sent(average.link_messages),
    )
    learnt_per_s = zip(average.batches, average.iteration_s, strict=True)
    return (
        cost if system in NEVER_WAIT else within_links(problem, cost),
        {node: batch / each_s for node, (batch, each_s) in zip(nodes, learnt_per_s, strict=True)},
    )


METHODS = tuple(
    Method(
        name=name,
        system="DLion" if name in SYSTEMS else "model exchange",
        update=UPDATES.get(name, AVERAGES),
        title=TITLES.get(name, ""),
        survives=True,
        planner=partial(plan, system=name),
    )
    for name in (*SYSTEMS, *EXCHANGES)
    if name != "gosgd"  # a method of its own
)
