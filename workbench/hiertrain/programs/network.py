"""Devices, edge and cloud as nodes of the simulated network, and the programs that they run.

Every worker runs a program: of worker o, s or l (`hybrid`) under a `Hybrid` policy, of some runs of
layers (`chain`) under a `Chain`. A node serves a device's samples, on request at the start of an
iteration. Labels travel with samples and features, at no cost (Liu et al. 2020, IV-B).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from workbench.clusters import Cluster, Link, Node
from workbench.hiertrain.costs.policy import Chain, Hybrid, Policy
from workbench.hiertrain.costs.problem import PAIRS, TIERS, Problem
from workbench.hiertrain.costs.tier import Devices, as_one
from workbench.hiertrain.programs.chain import chain_program
from workbench.hiertrain.programs.hybrid import hybrid_program
from workbench.hiertrain.programs.worker import Learning, Request, Samples, Worker
from workbench.runtime import Message
from workbench.utils.checks import UserError, check_name

if TYPE_CHECKING:
    from workbench.runtime import Context, Program

SHARING = ("none", "interfaces")
SOURCE = "samples"


def cluster_of(problem: Problem, sharing: str = "none") -> Cluster:
    """Device, edge and cloud, and how they are linked.

    With ``sharing`` ``"none"`` every message has its pair's whole bandwidth, whatever else is sent,
    as the paper's cost model assumes (Eq. 4): samples lie on a fourth node with the device's links
    to edge and cloud once more and a free one to the device. With ``"interfaces"`` the device sends
    the samples itself, over one interface of its bandwidth to the edge; the cloud has one of its
    bandwidth to the edge. Concurrent messages share these max-min fairly in each direction. The
    edge's two interfaces, one to either side, limit nothing more.
    """
    check_name("sharing", sharing, SHARING)
    between: dict[tuple[int | str, int | str], Link] = {
        pair: Link(problem.bandwidth_bps[pair], problem.overhead_s[pair]) for pair in PAIRS
    }
    links = dict(between)
    if sharing == "none":
        links[SOURCE, "device"] = Link(math.inf)
        links[SOURCE, "edge"] = between["device", "edge"]
        links[SOURCE, "cloud"] = between["device", "cloud"]
        nodes = [Node(name) for name in (*TIERS, SOURCE)]
    else:
        near_bps = problem.bandwidth_bps["device", "edge"]
        far_bps = problem.bandwidth_bps["edge", "cloud"]
        nodes = [
            Node("device", uplink_bps=near_bps, downlink_bps=near_bps),
            Node("edge"),
            Node("cloud", uplink_bps=far_bps, downlink_bps=far_bps),
        ]
    both_ways = {ends: link for (a, b), link in links.items() for ends in ((a, b), (b, a))}
    return Cluster(nodes, both_ways)


def programs_of(
    problem: Problem,
    policy: Policy,
    iterations: int,
    *,
    sharing: str = "none",
    learners: Sequence[Learning] | None = None,
    samples: Samples | None = None,
) -> list[Program]:
    """Programs for the nodes of ``cluster_of(problem, sharing)``, in their order.

    Without `learners` (of device, edge and cloud) and `samples` only bytes move.
    """
    check_name("sharing", sharing, SHARING)
    policy.check(problem)
    if iterations < 1:
        raise UserError(f"iterations is {iterations}; there is at least one")
    source = 0 if sharing == "interfaces" else len(TIERS)
    return tier_programs(
        [(problem, 1.0)],
        policy,
        iterations,
        range(3),
        sources=[source],
        learners=learners,
        samples=samples,
    )


def tier_programs(
    devices: Devices,
    policy: Policy,
    iterations: int,
    nodes: Sequence[int],
    *,
    sources: Sequence[int] | None = None,
    learners: Sequence[Learning] | None = None,
    samples: Samples | None = None,
) -> list[Program]:
    """Programs of nodes that are devices, the edge or the cloud, in their order.

    Parameters
    ----------
    nodes
        Of the devices, the edge and the cloud. A device may be edge or cloud as well.
    sources
        Nodes that hold the samples of each device; by default it holds them itself.
    learners
        Of the devices, the edge and the cloud. With several devices only bytes move.
    """
    sources = sources or nodes[: len(devices)]
    problems, shares = zip(*devices, strict=True)
    team: dict[str, list[Worker]] = {tier: [] for tier in TIERS}
    programs: dict[int, list[Program]] = {node: [] for node in (*nodes, *sources)}
    roles = Counter(nodes)
    for place, node in enumerate(nodes):
        tier = TIERS[max(0, place - len(devices) + 1)]
        is_device = tier == "device"
        team[tier].append(
            Worker(
                tier,
                node,
                problem=problems[place if is_device else 0],
                iterations=iterations,
                sources=sources[place : place + 1] if is_device else sources,
                share=shares[place] if is_device else 1.0,
                has_neighbour=roles[node] > 1,
            )
        )
    whole = as_one(devices)
    if isinstance(policy, Hybrid):
        (hub, *_) = team[whole.hub(policy.order[0])]
        counts = dict(zip(policy.order, (policy.b_o, policy.b_s, policy.b_l), strict=True))
        make = partial(hybrid_program, policy)
    else:
        assert isinstance(policy, Chain)
        (hub, *_) = team[whole.hub("device")]
        counts = {policy.tiers[0]: policy.batch}
        make = partial(chain_program, policy)
    workers = [worker for of in team.values() for worker in of]
    for place, worker in enumerate(workers):
        own = replace(worker, learner=learners[place]) if learners else worker
        programs[worker.node].append(make(own, team, hub))
    asking = Counter(
        source for worker in workers if counts.get(worker.tier, 0) for source in worker.sources
    )
    for source, share, problem in zip(sources, shares, problems, strict=True):
        programs[source].append(_serve(problem, asking[source] * iterations, share, samples))
    return [_together(programs[node]) for node in sorted(programs)]


def _serve(problem: Problem, requests: int, share: float, samples: Samples | None) -> Program:
    """Program of a node that holds a share of the samples: answers this number of requests."""

    async def program(context: Context) -> None:
        for _ in range(requests):
            asked = await context.receive("request")
            wanted: Request = asked.payload
            size_bytes = share * (wanted.last - wanted.first) * problem.sample_bytes
            batch = None if samples is None else samples(wanted)
            free = size_bytes == 0
            message = Message(context.node, "samples", batch, size_bytes, control=free)
            context.send(asked.sender, message)

    return program


def _together(programs: Sequence[Program]) -> Program:
    """Program that runs several, until all have ended."""
    first, *others = programs
    if not others:
        return first

    async def together(context: Context) -> None:
        tasks = [context.spawn(other(context)) for other in others]
        await first(context)
        for task in tasks:
            await task

    return together
