"""Devices, edge and cloud as one worker, under each of HierTrain's planners."""

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

from workbench.clusters.cluster import some
from workbench.comparison.cost import Cost, Phase, within_links
from workbench.comparison.memory import NodeMemory
from workbench.comparison.methods.method import EQUAL, Method, Plan
from workbench.comparison.parts import ASSUMES, part_bytes, parts
from workbench.comparison.problem import Problem, UnusableError
from workbench.comparison.routes import Pair, at_beginning
from workbench.hiertrain.algorithms import PLANNERS
from workbench.hiertrain.costs.iteration import iteration
from workbench.hiertrain.costs.policy import Chain, Hybrid, Policy
from workbench.hiertrain.costs.problem import PAIRS, TIERS
from workbench.hiertrain.costs.problem import Problem as TierProblem
from workbench.hiertrain.costs.tier import as_one
from workbench.hiertrain.programs.network import tier_programs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from workbench.profiles import LayerTimes
    from workbench.runtime import Program

NEAREST = 3
"""Nodes tried as edge and cloud: those that would learn fastest from what devices send."""

TRIED = 12
"""Pairs of nodes that are planned."""

PRICED = 3
"""Plans whose programs are run, those shortest by the planner's own cost model."""

WITHIN = ("all_edge", "all_cloud", "jointdnn", "jointdnn_plus")
"""Planners whose plans are among those that HierTrain's chooses from."""

UNLIMITED_BPS = 1e18
"""Bandwidth, to a planner, of links that have no limit."""

QUANTISED = "equal to SGD except for 8-bit features"


def plan(problem: Problem, planner: str) -> Plan:
    """All data owners as one tier of devices, with an edge and a cloud.

    The planner finds a policy for each of the pairs of nodes that may be edge and cloud, by its
    cost model, in which messages have links to themselves but for what all devices share. The
    shortest are run on the cluster, where messages share interfaces, and the fastest is taken.
    HierTrain's planner chooses among those of `WITHIN` as well.
    """
    if len(problem.cluster) < 3:
        raise UnusableError("device, edge and cloud need three nodes")
    names = (planner, *(WITHIN if planner == "hiertrain" else ()))
    tried = [trial for name in names for trial in _tried(problem, name)]
    return _as_plan(problem, min(tried, key=_order))


class TierPlan(NamedTuple):
    """A policy on nodes of the cluster, and what an iteration takes there."""

    team: Team
    policy: Policy
    memory: Mapping[int, NodeMemory]
    cost: Cost
    phase: Phase

    @property
    def unfit(self) -> int:
        """Nodes that lack memory."""
        return sum(one.fits is False for one in self.memory.values())


class Team(NamedTuple):
    """Nodes as devices, edge and cloud, and the HierTrain problem that they have.

    Attributes
    ----------
    nodes
        The devices, the edge, the cloud; a node may be a device and edge or cloud of all.
    devices
        TierProblem and share of all samples of each device.
    tier_problem
        Of all devices as one.
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
    """A planner's policies on pairs of nodes, those shortest by its own cost model; run.

    Of pairs with the same policy and the same seconds, such as pairs of equal nodes, the first.
    """
    found = dict[object, tuple[int, float, int, int, Policy]]()
    for edge, cloud in _pairs(problem):
        tier_problem = team_of(problem, edge, cloud).tier_problem
        policy = PLANNERS[planner](tier_problem)
        seconds = iteration(tier_problem, policy).total_s
        memory = _memory(problem, edge, cloud, policy)
        unfit = sum(one.fits is False for one in memory.values())
        found.setdefault((unfit, f"{seconds:.9g}", policy), (unfit, seconds, edge, cloud, policy))
    shortest = sorted(found.values(), key=itemgetter(0, 1))
    fitting = [one[2:] for one in shortest if one[0] == shortest[0][0]]
    return tuple(_trial(problem, *one) for one in fitting[:PRICED])


@lru_cache(maxsize=256)
def _trial(problem: Problem, edge: int, cloud: int, policy: Policy) -> TierPlan:
    team = team_of(problem, edge, cloud)
    memory = _memory(problem, edge, cloud, policy)
    nodes = list(dict.fromkeys(team.nodes))
    places = [nodes.index(node) for node in team.nodes]

    def programs(iterations: int) -> list[Program]:
        return tier_programs(team.devices, policy, iterations, places)

    # devices send each other nothing
    to_hubs = [(node, hub) for node in nodes for hub in team.nodes[-2:] if node != hub]
    pairs = dict.fromkeys([*to_hubs, *((hub, node) for node, hub in to_hubs)])
    cluster = problem.routes.part(nodes, [1.0] * len(nodes), pairs)
    phase = Phase(cluster, nodes, programs, problem.batch_size, first=2, last=4)
    return TierPlan(team, policy, memory, within_links(problem, phase.cost()), phase)


def _pairs(problem: Problem) -> list[Pair]:
    """Nodes tried as edge and cloud; all that hold no samples are, where there are two."""
    free = _without_samples(problem)
    near = _nearest(problem)
    pairs = [pair for pair in permutations(near, 2) if len(free) > 1 or {*free} <= {*pair}]
    pairs.sort(key=lambda pair: sum(map(near.index, pair)))
    return pairs[:TRIED]


def _sent_s(problem: Problem, hop: Pair, size_bytes: float) -> float:
    link = problem.routes.link(*hop)
    return link.overhead_s + link.latency_s + 8 * size_bytes / problem.routes.path_bps(*hop)


def _without_samples(problem: Problem) -> list[int]:
    """Nodes that hold no samples: edges and clouds, where there are two."""
    return [node for node in problem.by_name if node not in problem.owners]


@lru_cache(maxsize=64)
def _nearest(problem: Problem) -> Sequence[int]:
    """Return nodes to try as edge and cloud.

    These have the memory and would learn fastest from a batch of any device. They hold samples only
    where fewer than two nodes hold none.
    """
    size = problem.batch_size * problem.sample_bytes

    @cache
    def key(node: int) -> tuple[bool, float]:
        sent_s = [_sent_s(problem, (one, node), size) for one in problem.owners if one != node]
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
        nodes, own = (device, edge, cloud), {tier: of[device] for tier, of in bps.items()}
        overhead_s = {
            pair: _overhead_s(problem, *(nodes[TIERS.index(tier)] for tier in pair))
            for pair in PAIRS
        }
        key = problem.kind(device), tuple(own.values()), tuple(overhead_s.values())
        if key not in tier_problems:
            tier_problems[key] = _tier_problem(problem, nodes, own, overhead_s)
        devices.append((tier_problems[key], problem.share([device])))
    return Team((*problem.owners, edge, cloud), devices, as_one(devices))


def _shared_bps(problem: Problem, to: int) -> dict[int, float]:
    """Device -> what its path to a node carries, the less of both directions, if all send at once.

    Each hop is shared equally by those whose paths lead over it, and so is the node's interface.
    """
    routes, devices = problem.routes, [one for one in problem.owners if one != to]
    found = {to: UNLIMITED_BPS}
    for pairs in ([(device, to) for device in devices], [(to, device) for device in devices]):
        hops = Counter(hop for pair in pairs for hop in pairwise(routes.paths[pair]))
        node = routes.nodes[to]
        interface = node.downlink if pairs[0][1] == to else node.uplink
        limit = UNLIMITED_BPS if interface is None else at_beginning(interface) / len(pairs)
        for device, pair in zip(devices, pairs, strict=True):
            shared = [routes.hop_bps(hop) / hops[hop] for hop in pairwise(routes.paths[pair])]
            found[device] = min(limit, *shared, found.get(device, UNLIMITED_BPS))
    return found


def _overhead_s(problem: Problem, a: int, b: int) -> float:
    """Overhead and latency of a message between two nodes, the longer of both directions."""
    links = [problem.routes.link(*pair) for pair in ((a, b), (b, a)) if a != b]
    return max((link.overhead_s + link.latency_s for link in links), default=0.0)


def _tier_problem(
    problem: Problem,
    nodes: tuple[int, int, int],
    bps: Mapping[str, float],
    overhead_s: Mapping[tuple[str, str], float],
) -> TierProblem:
    """The problem of three nodes, the first the device; `bps` from there to edge and cloud."""
    table = problem.profile.table
    layer_s, update_s = {}, {}
    for tier, node in zip(TIERS, nodes, strict=True):
        speed = problem.speeds[node]
        layer_s[tier], update_s[tier] = (
            one / speed for one in _arrays(problem.layer_times(node, 1))
        )
    _, edge, cloud = nodes
    far_bps = min(problem.routes.path_bps(edge, cloud), problem.routes.path_bps(cloud, edge))
    return TierProblem(
        layer_s,
        update_s,
        table["param_bytes"].to_numpy(),
        table["output_bytes"].to_numpy(),
        problem.sample_bytes,
        {
            ("device", "edge"): bps["edge"],
            ("device", "cloud"): bps["cloud"],
            ("edge", "cloud"): min(UNLIMITED_BPS, far_bps),
        },
        problem.batch_size,
        overhead_s=overhead_s,
    )


@lru_cache(maxsize=256)
def _memory(problem: Problem, edge: int, cloud: int, policy: Policy) -> dict[int, NodeMemory]:
    """What each node holds in all its roles; empty if the model's memory is not known."""
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
    rooms = {node: problem.cluster.nodes[node].memory_bytes for node in needed}
    return {
        node: NodeMemory(size, None if (room := rooms[node]) is None else size <= room)
        for node, size in needed.items()
    }


def _part_of(policy: Policy, share: float) -> Policy:
    """A policy for a share of the samples, rounded up to whole samples."""
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
    of = some([names[device] for device in devices])
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
        where=f"{tier} = {of}, edge = {names[edge]}, cloud = {names[cloud]}",
        assumes=tuple(assumes),
    )


def _batches(team: Team, policy: Policy) -> dict[int, int]:
    """Node -> samples of which it computes something."""
    found, counts = Counter[int](), dict.fromkeys(TIERS, 0)
    for tier, _, _, samples in policy.rows(team.tier_problem.layers):
        counts[tier] = max(counts[tier], samples)
    for tier, node, share in team.roles:
        found[node] += _whole(share * counts[tier])
    return {node: count for node, count in found.items() if count}


METHODS = tuple(
    Method(
        name=name,
        system="HierTrain",
        update=QUANTISED if name == "jalad" else EQUAL,
        moves_samples=True,
        planner=partial(plan, planner=name),
    )
    for name in PLANNERS
)
