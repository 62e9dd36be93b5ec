"""Device, edge and cloud as one worker, under each of HierTrain's planners."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from workbench.comparison.question import Question, UnusableError
from workbench.comparison.use import DryRun
from workbench.comparison.ways.way import EQUAL, Option, Way
from workbench.hiertrain.algorithms import PLANNERS
from workbench.hiertrain.costs.iteration import iteration
from workbench.hiertrain.costs.policy import Chain, Hybrid, Policy
from workbench.hiertrain.costs.problem import PAIRS, TIERS, Problem
from workbench.hiertrain.programs.network import programs_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from workbench.profiles import LayerTimes
    from workbench.runtime import Program

NEAREST, DEVICES = 3, 4
"""Nodes tried as edge and cloud of a device, those that would learn fastest from what it sends; and
devices tried, those whose batch the nearest node would learn from fastest."""

PRICED = 3
"""Plans whose programs are run, those shortest by the planner's own cost model."""

QUANTISED = "equal to SGD but for features of 8 bits"


def plan(question: Question, planner: str) -> Option:
    """The device, edge and cloud with the most samples a second.

    A planner assumes that every message has its link to itself (Liu et al. 2020, Eq. 4). What its
    plan takes on the cluster, where messages share interfaces, is found by running its programs.
    """
    if len(question.cluster) < 3:
        raise UnusableError("device, edge and cloud take three nodes")
    planned = []
    for nodes in _triples(question):
        problem = problem_of(question, nodes)
        policy = PLANNERS[planner](problem)
        planned.append((iteration(problem, policy).total_s, nodes, problem, policy))
    planned.sort(key=lambda one: one[:2])
    options = [_option(question, *one) for one in planned[:PRICED]]
    return max(options, key=lambda option: option.use.samples_per_s)


def _triples(question: Question) -> list[tuple[int, int, int]]:
    """Nodes to try as device, edge and cloud; devices that are alike are tried once."""
    by_device = {device: _nearest(question, device) for device in question.holders}
    first = {device: near[0][0] for device, near in by_device.items()}
    alike = {
        (seconds, question.batch_s(device)): device for device, seconds in reversed(first.items())
    }
    devices = [device for _, device in sorted(alike.items())][:DEVICES]
    return [
        (device, edge, cloud)
        for device in devices
        for edge, cloud in permutations([node for _, node in by_device[device]], 2)
    ]


def _nearest(question: Question, device: int) -> list[tuple[float, int]]:
    """(seconds, node) of the others that would learn fastest from a batch of a device."""

    def there_s(node: int) -> float:
        link = question.routed.link(device, node)
        size = question.batch_size * question.sample_bytes
        return question.batch_s(node) + link.overhead_s + 8 * size / question.way_bps(device, node)

    others = [node for node in range(len(question.cluster)) if node != device]
    return sorted((there_s(node), node) for node in others)[:NEAREST]


@lru_cache(maxsize=1024)
def _arrays(times: LayerTimes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Seconds of forward and backward, and of updates, by layer."""
    table = times.table
    return table.select("forward_s", "backward_s").to_numpy(), table["update_s"].to_numpy()


@lru_cache(maxsize=128)
def problem_of(question: Question, nodes: tuple[int, int, int]) -> Problem:
    """The problem of three nodes of a cluster, a batch on the first of them."""
    table = question.profile.table
    by_tier = dict(zip(TIERS, nodes, strict=True))
    layer_s, update_s = {}, {}
    for tier, node in by_tier.items():
        speed = question.speeds[node]
        layer_s[tier], update_s[tier] = (
            one / speed for one in _arrays(question.layer_times(node, 1))
        )
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
        {
            (a, b): min(question.way_bps(*pair) for pair in permutations((by_tier[a], by_tier[b])))
            for a, b in links
        },
        question.batch_size,
        overhead_s=max(
            link.overhead_s + link.latency_s for both in links.values() for link in both
        ),
    )


def _option(
    question: Question,
    planned_s: float,
    nodes: tuple[int, int, int],
    problem: Problem,
    policy: Policy,
) -> Option:
    names, cluster = question.cluster.names, question.part(nodes, [1.0] * len(nodes))

    def programs(iterations: int) -> list[Program]:
        return programs_of(problem, policy, iterations, sharing="interfaces")

    dry = DryRun(cluster, nodes, programs, problem.batch, first=1, last=2)

    assumes = [f"device {names[nodes[0]]}, edge {names[nodes[1]]}, cloud {names[nodes[2]]}"]
    assumes.append("memory is that of the whole model on each")
    found = dry.use()
    if planned_s < 0.95 * found.iteration_s:
        rate = problem.batch / planned_s
        assumes.append(f"its own cost model, where messages share nothing, says {rate:.3g}/s")
    return Option(
        use=found,
        dry=replace(dry, last=5),
        learns_from=nodes[:1],
        batches=_batches(policy, nodes, problem.batch),
        assumes=tuple(assumes),
    )


def _batches(policy: Policy, nodes: tuple[int, ...], batch: int) -> dict[int, int]:
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
        plan=partial(plan, planner=name),
    )
    for name in PLANNERS
)
