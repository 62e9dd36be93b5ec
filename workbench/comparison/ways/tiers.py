"""Device, edge and cloud as one worker, under each of HierTrain's planners."""

from __future__ import annotations

from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING

from workbench.comparison.question import Question, UnusableError, link_bps
from workbench.comparison.use import Use, run_dry
from workbench.comparison.ways.way import EQUAL, Option, Way
from workbench.hiertrain.algorithms import PLANNERS
from workbench.hiertrain.costs.iteration import iteration
from workbench.hiertrain.costs.policy import Chain, Hybrid, Policy
from workbench.hiertrain.costs.problem import PAIRS, TIERS, Problem
from workbench.hiertrain.programs.cluster import cluster_of
from workbench.hiertrain.programs.serve import programs_of

if TYPE_CHECKING:
    from workbench.runtime import Program

CANDIDATES = 3
"""Nodes that are tried as edge and as cloud: those that would learn fastest from what is sent."""

QUANTISED = "equal to SGD but for features of 8 bits"


def find(question: Question, planner: str) -> Option:
    """The device, edge and cloud with the shortest iteration."""
    if len(question.cluster) < 3:
        raise UnusableError("device, edge and cloud take three nodes")
    options = []
    for device in question.holders:
        for edge, cloud in permutations(_nearest(question, device), 2):
            problem = problem_of(question, (device, edge, cloud))
            policy = PLANNERS[planner](problem)
            options.append((iteration(problem, policy).total_s, device, edge, cloud))
    seconds, *nodes = min(options)
    return _option(question, planner, nodes, seconds)


def _nearest(question: Question, device: int) -> list[int]:
    def batch_there_s(node: int) -> float:
        link = question.routed.link(device, node)
        size = question.batch_size * question.sample_bytes
        return question.batch_s(node) + link.overhead_s + 8 * size / link_bps(link)

    others = [node for node in range(len(question.cluster)) if node != device]
    return sorted(others, key=batch_there_s)[:CANDIDATES]


def problem_of(question: Question, nodes: tuple[int, int, int]) -> Problem:
    """The problem of three nodes of a cluster, a batch on the first of them."""
    table = question.profile.table
    by_tier = dict(zip(TIERS, nodes, strict=True))
    layer_s, update_s = {}, {}
    for tier, node in by_tier.items():
        speed = question.routed.nodes[node].speed_over_time.at(0.0)
        times = question.layer_times(node, 1).table
        layer_s[tier] = times.select("forward_s", "backward_s").to_numpy() / speed
        update_s[tier] = times["update_s"].to_numpy() / speed
    links = {
        (a, b): [
            question.routed.link(*pair)
            for pair in ((by_tier[a], by_tier[b]), (by_tier[b], by_tier[a]))
        ]
        for a, b in PAIRS
    }
    return Problem(
        layer_s,
        update_s,
        table["param_bytes"].to_numpy(),
        table["output_bytes"].to_numpy(),
        question.sample_bytes,
        {pair: min(map(link_bps, both)) for pair, both in links.items()},
        question.batch_size,
        overhead_s=max(
            link.overhead_s + link.latency_s for both in links.values() for link in both
        ),
    )


def _option(question: Question, planner: str, nodes: list[int], seconds: float) -> Option:
    problem = problem_of(question, (nodes[0], nodes[1], nodes[2]))
    policy, names = PLANNERS[planner](problem), question.cluster.names
    own = cluster_of(problem)
    places = [*nodes, nodes[0]]  # samples lie beside the device

    def programs(iterations: int) -> list[Program]:
        return programs_of(problem, policy, iterations)

    def simulate() -> Use:
        shared = cluster_of(problem, "interfaces")
        return run_dry(
            shared,
            nodes,
            lambda count: programs_of(problem, policy, count, sharing="interfaces"),
            problem.batch,
        )

    dry = run_dry(own, places, programs, problem.batch, first=1, last=2)
    use = Use(
        seconds,
        problem.batch,
        dry.busy_s,
        {pair: size for pair, size in dry.link_bytes.items() if pair[0] != pair[1]},
        dry.messages,
    )
    idle = [names[node] for node in question.holders if node not in nodes]
    assumes = [f"device {names[nodes[0]]}, edge {names[nodes[1]]}, cloud {names[nodes[2]]}"]
    if idle:
        assumes.append(f"{', '.join(idle)} take no part, and their samples are not learnt from")
    overheads = {question.routed.link(a, b).overhead_s for a, b in permutations(nodes, 2)}
    if len(overheads) > 1:
        assumes.append("every message costs the largest of the links' overheads")
    return Option(
        use=use,
        simulate=simulate,
        batches=_batches(policy, nodes, problem.batch),
        assumes=tuple(assumes),
    )


def _batches(policy: Policy, nodes: list[int], batch: int) -> dict[int, int]:
    by_tier = dict(zip(TIERS, nodes, strict=True))
    if isinstance(policy, Hybrid):
        counts = dict(zip(policy.order, (batch, policy.b_s, policy.b_l), strict=True))
        return {by_tier[tier]: count for tier, count in counts.items() if count}
    assert isinstance(policy, Chain)
    return {by_tier[tier]: batch for tier in set(policy.tiers)}


WAYS = tuple(
    Way(
        name=name,
        system="HierTrain",
        update=QUANTISED if name == "jalad" else EQUAL,
        moves_samples=True,
        find=partial(find, planner=name),
    )
    for name in PLANNERS
)
