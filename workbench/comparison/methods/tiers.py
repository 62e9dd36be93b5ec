"""Training on devices, edge and cloud, under each of HierTrain's planners."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from itertools import pairwise, permutations
from operator import itemgetter
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from workbench.clusters import Link
from workbench.clusters.cluster import some
from workbench.comparison.cost import Cost, Phase, within_links
from workbench.comparison.memory import NodeMemory
from workbench.comparison.methods.method import EQUAL, QUANTISED, Method, Plan
from workbench.comparison.parts import ASSUMES, part_bytes, parts
from workbench.comparison.problem import Problem, UnusableError
from workbench.comparison.routes import Pair, at_beginning
from workbench.hiertrain.algorithms import FAST as PLANNERS
from workbench.hiertrain.costs import PAIRS, TIERS, Chain, Hybrid, Policy, as_one, iteration
from workbench.hiertrain.costs import Problem as TierProblem
from workbench.hiertrain.programs import tier_programs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from workbench.profiles import LayerTimes
    from workbench.runtime import Program

NEAREST = 3
"""Nodes tried as edge and cloud: those that would learn fastest from the devices' samples."""

TRIED = 12
"""Largest number of pairs of edge and cloud that are planned for."""

PRICED = 3
"""Plans whose programs are simulated: the shortest by the planner's own cost model."""

WITHIN = ("all_edge", "all_cloud", "jointdnn", "jointdnn_plus")
"""Planners whose policies HierTrain's planner chooses from as well."""

UNLIMITED_BPS = 1e18
"""Bandwidth that planners are given for links without a limit."""


def plan(problem: Problem, planner: str) -> Plan:
    """The fastest of a planner's policies, with all data owners as devices.

    The planner finds a policy for each pair of nodes that may be edge and cloud. Its cost model
    lets messages share only what all devices share. So the shortest are simulated on the cluster,
    where messages share links and interfaces, and the fastest of these is taken. HierTrain's
    planner chooses among the policies of `WITHIN` as well.
    """
    if len(problem.cluster) < 3:
        raise UnusableError("device, edge and cloud need three nodes")
    names = (planner, *(WITHIN if planner == "hiertrain" else ()))
    tried = [trial for name in names for trial in _tried(problem, name)]
    return _as_plan(problem, min(tried, key=_order))


class TierPlan(NamedTuple):
    """A policy on nodes of the cluster, and the cost of an iteration there."""

    team: Team
    policy: Policy
    memory: Mapping[int, NodeMemory]
    cost: Cost
    phase: Phase

    @property
    def unfit(self) -> int:
        """Number of nodes that lack memory."""
        return sum(need.fits is False for need in self.memory.values())


class Team(NamedTuple):
    """Nodes as devices, edge and cloud, and HierTrain's problem on them.

    Attributes
    ----------
    nodes
        The devices, the edge, the cloud; the edge or the cloud may be one of the devices.
    devices
        Problem of each device, and its share of all samples.
    tier_problem
        Problem of all devices as one.
    """

    nodes: tuple[int, ...]
    devices: Sequence[tuple[TierProblem, float]]
    tier_problem: TierProblem

    @property
    def roles(self) -> list[tuple[str, int, float]]:
        """(tier, node, share of the tier's samples)."""
        *devices, edge, cloud = self.nodes
        shares = [share for _, share in self.devices]
        roles = [("device", node, share) for node, share in zip(devices, shares, strict=True)]
        return [*roles, ("edge", edge, 1.0), ("cloud", cloud, 1.0)]


def _order(trial: TierPlan) -> tuple[int, float]:
    return trial.unfit, float(f"{trial.cost.iteration_s:.9g}")


@lru_cache(maxsize=64)
def _tried(problem: Problem, planner: str) -> tuple[TierPlan, ...]:
    """Simulate a planner's shortest policies, by its own cost model, over pairs of nodes.

    Pairs with the same policy and seconds, such as pairs of equal nodes, count once.
    """
    policies = dict[object, tuple[int, float, int, int, Policy]]()
    for edge, cloud in _pairs(problem):
        tier_problem = team_of(problem, edge, cloud).tier_problem
        policy = PLANNERS[planner](tier_problem)
        seconds = iteration(tier_problem, policy).total_s
        memory = _memory(problem, edge, cloud, policy)
        unfit = sum(need.fits is False for need in memory.values())
        key = unfit, f"{seconds:.9g}", policy
        policies.setdefault(key, (unfit, seconds, edge, cloud, policy))
    shortest = sorted(policies.values(), key=itemgetter(0, 1))
    fewest = shortest[0][0]
    fitting = [trial[2:] for trial in shortest if trial[0] == fewest]
    return tuple(_trial(problem, *trial) for trial in fitting[:PRICED])


@lru_cache(maxsize=256)
def _trial(problem: Problem, edge: int, cloud: int, policy: Policy) -> TierPlan:
    team = team_of(problem, edge, cloud)
    memory = _memory(problem, edge, cloud, policy)
    nodes = list(dict.fromkeys(team.nodes))
    places = [nodes.index(node) for node in team.nodes]

    def programs(iterations: int) -> list[Program]:
        return tier_programs(team.devices, policy, iterations, places)

    # Devices send each other nothing.
    upward = [(node, upper) for node in nodes for upper in team.nodes[-2:] if node != upper]
    pairs = dict.fromkeys([*upward, *((upper, node) for node, upper in upward)])
    cluster = problem.routes.part(nodes, [1.0] * len(nodes), pairs)
    phase = Phase(cluster, nodes, programs, problem.step_samples, first=2, last=4)
    return TierPlan(team, policy, memory, within_links(problem, phase.cost()), phase)


def _pairs(problem: Problem) -> list[Pair]:
    """Pairs of nodes to try as edge and cloud, those that learn fastest first.

    A pair has every node that holds no samples, unless there are two or more of them.
    """
    free = _without_samples(problem)
    near = _nearest(problem)
    pairs = [pair for pair in permutations(near, 2) if len(free) > 1 or {*free} <= {*pair}]
    pairs.sort(key=lambda pair: sum(map(near.index, pair)))
    return pairs[:TRIED]


def _sent_s(problem: Problem, hop: Pair, size_bytes: float) -> float:
    link = problem.routes.link(*hop)
    return link.overhead_s + link.latency_s + 8 * size_bytes / problem.routes.path_bps(*hop)


def _without_samples(problem: Problem) -> list[int]:
    """Nodes that hold no samples."""
    return [node for node in problem.by_name if node not in problem.owners]


@lru_cache(maxsize=64)
def _nearest(problem: Problem) -> Sequence[int]:
    """Nodes to try as edge and cloud: those with the memory that learn fastest from the devices.

    They hold samples only where fewer than two nodes hold none.
    """
    size = problem.batch_size * problem.sample_bytes

    @cache
    def key(node: int) -> tuple[bool, float]:
        senders = [owner for owner in problem.owners if owner != node]
        sent_s = [_sent_s(problem, (sender, node), size) for sender in senders]
        unfit = not problem.fits(node, problem.batch_size)
        return unfit, problem.batch_s(node) + fmean(sent_s)

    def near(nodes: Sequence[int]) -> list[int]:
        return sorted(nodes, key=lambda node: key(problem.first_alike[node]))

    free = _without_samples(problem)
    return (near(free) if len(free) > 1 else [*free, *near(problem.owners)])[:NEAREST]


@lru_cache(maxsize=1024)
def _arrays(times: LayerTimes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Seconds of forward and backward, and of updates, by layer."""
    table = times.table
    return table.select("forward_s", "backward_s").to_numpy(), table["update_s"].to_numpy()


@lru_cache(maxsize=128)
def team_of(problem: Problem, edge: int, cloud: int) -> Team:
    """All data owners as devices, with an edge and a cloud."""
    bps = {tier: _shared_bps(problem, node) for tier, node in (("edge", edge), ("cloud", cloud))}
    tier_problems = dict[object, TierProblem]()  # of devices that differ
    devices = list[tuple[TierProblem, float]]()
    for device in problem.owners:
        nodes = device, edge, cloud
        own_bps = {tier: by_device[device] for tier, by_device in bps.items()}
        overhead_s = {
            pair: _overhead_s(problem, *(nodes[TIERS.index(tier)] for tier in pair))
            for pair in PAIRS
        }
        key = problem.kind(device), tuple(own_bps.values()), tuple(overhead_s.values())
        if key not in tier_problems:
            tier_problems[key] = _tier_problem(problem, nodes, own_bps, overhead_s)
        devices.append((tier_problems[key], problem.share([device])))
    return Team((*problem.owners, edge, cloud), devices, as_one(devices))


def _shared_bps(problem: Problem, to: int) -> dict[int, float]:
    """Device -> bandwidth of its path to a node, the lower of both directions, if all send at once.

    Each hop is shared equally by the paths that lead over it, and so is the node's interface.
    """
    routes, devices = problem.routes, [owner for owner in problem.owners if owner != to]
    bps = {to: UNLIMITED_BPS}
    for pairs in ([(device, to) for device in devices], [(to, device) for device in devices]):
        hops = Counter(hop for pair in pairs for hop in pairwise(routes.paths[pair]))
        node = routes.nodes[to]
        interface = node.downlink if pairs[0][1] == to else node.uplink
        limit = UNLIMITED_BPS if interface is None else at_beginning(interface) / len(pairs)
        for device, pair in zip(devices, pairs, strict=True):
            shared = [routes.hop_bps(hop) / hops[hop] for hop in pairwise(routes.paths[pair])]
            bps[device] = min(limit, *shared, bps.get(device, UNLIMITED_BPS))
    return bps


def _overhead_s(problem: Problem, a: int, b: int) -> float:
    """Overhead and latency of a message between two nodes, in the slower direction."""
    links = [problem.routes.link(*pair) for pair in ((a, b), (b, a)) if a != b]
    return max((link.overhead_s + link.latency_s for link in links), default=0.0)


def _tier_problem(
    problem: Problem,
    nodes: tuple[int, int, int],
    bps: Mapping[str, float],
    overhead_s: Mapping[tuple[str, str], float],
) -> TierProblem:
    """HierTrain's problem on a device, an edge and a cloud; `bps` is from the device to each."""
    table = problem.profile.table
    layer_s, update_s = {}, {}
    for tier, node in zip(TIERS, nodes, strict=True):
        machine, speed = problem.cluster.nodes[node], problem.speeds[node]
        # A sample's share of a batch, where the batch does not take as many times as long.
        is_linear = machine.bytes_per_s is None and machine.overhead_s == 0
        size = 1 if is_linear else problem.batch_size
        batch_s, batch_update_s = _arrays(problem.layer_times(node, size))
        layer_s[tier], update_s[tier] = batch_s / size / speed, batch_update_s / speed
    _, edge, cloud = nodes
    far_bps = min(problem.routes.path_bps(edge, cloud), problem.routes.path_bps(cloud, edge))
    links_bps = {
        ("device", "edge"): bps["edge"],
        ("device", "cloud"): bps["cloud"],
        ("edge", "cloud"): min(UNLIMITED_BPS, far_bps),
    }
    return TierProblem(
        layer_s,
        update_s,
        table["param_bytes"].to_numpy(),
        table["output_bytes"].to_numpy(),
        sample_bytes=problem.sample_bytes,
        links={pair: Link(pair_bps, overhead_s[pair]) for pair, pair_bps in links_bps.items()},
        batch=problem.batch_size,
        accumulate=problem.accumulate,
    )


@lru_cache(maxsize=256)
def _memory(problem: Problem, edge: int, cloud: int, policy: Policy) -> dict[int, NodeMemory]:
    """Memory of each node over all its roles; empty if the model's memory is not known."""
    team = team_of(problem, edge, cloud)
    of_share = {
        share: parts(_part_of(policy, share), team.tier_problem.output_bytes)
        for share in {share for *_, share in team.roles}
    }
    needed: defaultdict[int, float] = defaultdict(float)
    for tier, node, share in team.roles:
        part = of_share[share].get(tier)
        if part is not None and part.samples.any():
            size = part_bytes(problem, part)
            if size is None:
                return {}
            needed[node] += size
    return {node: problem.memory_on(node, size) for node, size in needed.items()}


def _part_of(policy: Policy, share: float) -> Policy:
    """A policy on a share of the batch, rounded up to whole samples."""
    if isinstance(policy, Chain):
        return replace(policy, batch=_whole(share * policy.batch))
    assert isinstance(policy, Hybrid)
    b_o, b_s, b_l = (_whole(share * samples) for samples in (policy.b_o, policy.b_s, policy.b_l))
    return replace(policy, b_o=b_o, b_s=b_s, b_l=b_l)


def _whole(samples: float) -> int:
    return math.ceil(samples - 1e-9)


def _as_plan(problem: Problem, trial: TierPlan) -> Plan:
    team, names = trial.team, problem.cluster.names
    *devices, edge, cloud = team.nodes
    tier = "devices" if len(devices) > 1 else "device"
    device_names = some([names[device] for device in devices])
    assumes = []
    if len(devices) > 1:
        assumes.append("devices share each batch, by the samples that they hold")
    if len(free := _without_samples(problem)) < 2:
        since = f"only {names[free[0]]} holds none" if free else "all nodes hold some"
        assumes.append(f"a node that holds samples is edge or cloud as well, since {since}")
    if problem.memory is not None:
        assumes.append(ASSUMES)
    return Plan(
        cost=trial.cost,
        phases=[trial.phase],
        costs=[trial.cost],
        predicted_s=iteration(team.tier_problem, trial.policy).total_s,
        learns_from=devices,
        batches=_batches(team, trial.policy),
        memory=trial.memory or None,
        where=f"{tier} = {device_names}, edge = {names[edge]}, cloud = {names[cloud]}",
        assumes=tuple(assumes),
        accumulates=problem.accumulate,
    )


def _batches(team: Team, policy: Policy) -> dict[int, int]:
    """Node -> samples that it computes at least one layer of."""
    samples_of, counts = Counter[int](), dict.fromkeys(TIERS, 0)
    for tier, _, _, samples in policy.rows(team.tier_problem.layers):
        counts[tier] = max(counts[tier], samples)
    for tier, node, share in team.roles:
        samples_of[node] += _whole(share * counts[tier])
    return {node: count for node, count in samples_of.items() if count}


METHODS = tuple(
    Method(
        name=name,
        system="HierTrain",
        update=QUANTISED if name == "jalad" else EQUAL,
        splits_model=True,
        moves_samples=True,
        planner=partial(plan, planner=name),
    )
    for name in PLANNERS
)
