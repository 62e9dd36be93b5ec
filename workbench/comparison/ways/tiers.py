"""Device, edge and cloud as one worker, under each of HierTrain's planners; devices in turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from itertools import permutations
from operator import itemgetter
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from workbench.clusters.cluster import some
from workbench.comparison.parts import ASSUMES, part_memory, parts
from workbench.comparison.question import Pair, Question, UnusableError
from workbench.comparison.ways.turns import Turn, Turns
from workbench.comparison.ways.way import EQUAL, Option, Way
from workbench.hiertrain.algorithms import PLANNERS
from workbench.hiertrain.costs.iteration import iteration
from workbench.hiertrain.costs.policy import Policy
from workbench.hiertrain.costs.problem import PAIRS, TIERS, Problem
from workbench.utils.numbers import bytes_as_text, three_digits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from workbench.profiles import LayerTimes

NEAREST = 3
"""Nodes tried as edge and cloud of a device: those that would learn fastest from what it sends."""

TRIED = 12
"""Problems that are planned, of all devices that differ; two for each at the least."""

PRICED = 3
"""Plans whose programs are run, those shortest by the planner's own cost model."""

UNLIMITED_BPS = 1e18
"""Bandwidth, to a planner, of links that have no limit."""

QUANTISED = "equal to SGD except for 8-bit features"


def plan(question: Question, planner: str) -> Option:
    """Every holder of samples as a device, in turns, each with its best edge and cloud.

    A planner assumes that every message has its link to itself (Liu et al. 2020, Eq. 4), and knows
    no memory. What its plan takes on the cluster, where messages share interfaces and tiers may
    have to compute again, is found by running its programs.
    """
    if len(question.cluster) < 3:
        raise UnusableError("device, edge and cloud need three nodes")
    alike = defaultdict[object, list[int]](list)
    for device in question.holders:
        alike[_about(question, device)].append(device)
    most = max(2, TRIED // len(alike)), max(1, PRICED // len(alike))
    found: dict[int, tuple[float, int, Turn]] = {}
    for devices in alike.values():
        planned_s, turn = _best(question, planner, devices[0], *most)
        for device in devices:
            its = _turn(question, (device, *turn.nodes[1:]), turn.policy)
            found[device] = planned_s, devices[0], its
    turns = {device: found[device][2] for device in question.holders}
    taken = Turns(question, turns, {device: first for device, (_, first, _) in found.items()})
    planned_s = sum(question.share([device]) * found[device][0] for device in turns)
    return _option(question, taken, planned_s)


def _about(question: Question, device: int) -> object:
    """All that a plan depends on: devices that do not differ in it have the same plan."""
    node, times = question.kind(device)
    near = tuple(
        (other, question.routed.link(device, other), question.routed.link(other, device))
        for *_, other in _nearest(question, device)
    )
    interfaces = question.routed.nodes[device].uplink, question.routed.nodes[device].downlink
    return replace(node, samples=0), times, interfaces, near, max(0.5, question.share([device]))


def _best(
    question: Question, planner: str, device: int, tried: int, priced: int
) -> tuple[float, Turn]:
    """The planner's own seconds, and the turn that fits in the shortest time."""
    free = _without_samples(question)
    near = [node for *_, node in _nearest(question, device)]
    pairs = [pair for pair in permutations(near, 2) if len(free) > 1 or {*free} <= {*pair}]
    pairs.sort(key=lambda pair: sum(map(near.index, pair)))
    found = []
    for edge, cloud in pairs[:tried]:
        nodes = (device, edge, cloud)
        for policy in _policies(question, planner, nodes):
            turn = _turn(question, nodes, policy)
            unfit = sum(one.fits is False for one in turn.memory.values())
            own_s = iteration(turn.problem, policy).total_s
            handed_s = _handed_over_s(question, turn)
            found.append((unfit, own_s + handed_s, handed_s, own_s, turn))
    found.sort(key=itemgetter(0, 1))
    fitting = [one[2:] for one in found if one[0] == found[0][0]][:priced]

    def on_cluster_s(one: tuple[float, float, Turn]) -> float:
        return one[0] + Turns(question, {device: one[2]}, {device: device}).use().iteration_s

    _, own_s, turn = min(fitting, key=on_cluster_s) if len(fitting) > 1 else fitting[0]
    return own_s, turn


def _policies(question: Question, planner: str, nodes: tuple[int, int, int]) -> Iterator[Policy]:
    """The planner's policy; if devices take turns, also that without layers on the device.

    A planner does not know that these are handed over from turn to turn. It leaves the device alone
    if each sample takes longer there than a whole iteration under its own policy.
    """
    problem = problem_of(question, nodes)
    policy = PLANNERS[planner](problem)
    yield policy
    if len(question.holders) > 1 and policy.held("device", problem.layers):
        price_s = 1.0 + 2.0 * iteration(problem, policy).total_s
        dear_s = {"device": problem.layer_s["device"] + price_s}
        yield PLANNERS[planner](replace(problem, layer_s=dict(problem.layer_s) | dear_s))


def _handed_over_s(question: Question, turn: Turn) -> float:
    """Seconds, about, in which the device gets its layers, if another had its turn before."""
    device, *others = turn.nodes
    others = [node for node in question.holders if node != device] or others
    policy, layers = turn.policy, turn.problem.layers
    held = [*turn.layers(device)]
    if len(question.holders) < 2 or not held:
        return 0.0
    tiers = {policy.holders(layers)[layer] for layer in held}
    sources = {turn.nodes[TIERS.index(tier)] for tier in tiers} - {device}
    size = float(turn.problem.param_bytes[held].sum())
    share = question.share([device])
    got_s = [_sent_s(question, (node, device), size) for node in sources or others]
    return min(1.0, (1 - share) / share) * (max(got_s) if sources else fmean(got_s))


def _sent_s(question: Question, hop: Pair, size_bytes: float) -> float:
    link = question.routed.link(*hop)
    return link.overhead_s + link.latency_s + 8 * size_bytes / question.path_bps(*hop)


def _without_samples(question: Question) -> list[int]:
    """Nodes that hold no samples: edges and clouds, where there are two."""
    return [node for node in question.by_name if node not in question.holders]


def _nearest(question: Question, device: int) -> list[tuple[bool, float, int]]:
    """(whether it lacks memory, seconds, node) of nodes to try as edge and cloud of a device.

    Those that would learn fastest from a batch of it, and have the memory. Holders of samples only
    where fewer than two other nodes hold none.
    """

    def there(node: int) -> tuple[bool, float, int]:
        size = question.batch_size * question.sample_bytes
        sent_s = _sent_s(question, (device, node), size)
        unfit = not question.fits(node, question.batch_size)
        return unfit, question.batch_s(node) + sent_s, node

    free = _without_samples(question)
    holders = [node for node in question.holders if node != device]
    if len(free) > 1:
        return sorted(map(there, free), key=itemgetter(0, 1))[:NEAREST]
    nearest = sorted(map(there, holders), key=itemgetter(0, 1))
    return [*map(there, free), *nearest][:NEAREST]


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
            one / speed for one in _arrays(question.layer_times(node, 1, again=False))
        )
    ends = {pair: list(permutations(by_tier[tier] for tier in pair)) for pair in PAIRS}
    links = [question.routed.link(*way) for ways in ends.values() for way in ways]
    return Problem(
        layer_s,
        update_s,
        table["param_bytes"].to_numpy(),
        table["output_bytes"].to_numpy(),
        question.sample_bytes,
        {
            pair: min(UNLIMITED_BPS, *(question.path_bps(*way) for way in ways))
            for pair, ways in ends.items()
        },
        question.batch_size,
        overhead_s=max(link.overhead_s + link.latency_s for link in links),
    )


def _turn(question: Question, nodes: tuple[int, int, int], policy: Policy) -> Turn:
    """A turn with what its nodes hold, and the seconds that they compute again so that it fits."""
    problem = problem_of(question, nodes)
    layer_s, memory = dict(problem.layer_s), {}
    for tier, part in parts(policy, problem.output_bytes).items():
        node = nodes[TIERS.index(tier)]
        found = part_memory(question, node, part)
        if found is None:
            continue
        memory[node], again = found
        if again is not None:
            forward_s, backward_s = layer_s[tier].T
            more_s = again.forward * forward_s + again.backward * backward_s
            layer_s[tier] = np.stack([forward_s, backward_s + more_s], axis=1)
            taken_s = float((more_s * part.samples).sum())
            memory[node] = memory[node]._replace(recomputation_s=taken_s)
    return Turn(nodes, replace(problem, layer_s=layer_s), policy, memory)


def _option(question: Question, turns: Turns, planned_s: float) -> Option:
    use, names, devices = turns.use(), question.cluster.names, list(turns.turns)
    where, assumes = [], []
    by_tiers = defaultdict[tuple[int, ...], list[int]](list)
    for device, turn in turns.turns.items():
        by_tiers[turn.nodes[1:]].append(device)
    for (edge, cloud), group in by_tiers.items():
        of = some([names[device] for device in group])
        tier = "devices" if len(group) > 1 else "device"
        where.append(f"{tier} = {of}, edge = {names[edge]}, cloud = {names[cloud]}")
    if len(devices) > 1:
        sizes = [sum(turns.handed_over(*pair).values()) for pair in turns.successions]
        handed = (
            f", and hand over up to {bytes_as_text(max(sizes))} of weights" if any(sizes) else ""
        )
        assumes.append(f"devices take turns of one iteration, by their samples{handed}")
    if len(free := _without_samples(question)) < 2:
        since = f"only {names[free[0]]} holds none" if free else "all nodes hold some"
        assumes.append(f"a node that holds samples is edge or cloud of others, since {since}")
    if question.memory is not None:
        assumes.append(ASSUMES)
    if planned_s < 0.95 * use.iteration_s:
        rate = question.batch_size / planned_s
        assumes.append(
            f"its own cost model, in which no link is shared, predicts {three_digits(rate)}/s"
        )
    return Option(
        use=use,
        dry=replace(turns.dry_run(turns.order, turns.nodes), first=1, last=2),
        again=turns.run,
        fewest=len(devices),
        learns_from=devices,
        batches=turns.batches(),
        memory=turns.memory() or None,
        where="; ".join(where),
        assumes=tuple(assumes),
    )


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
