"""Device, edge and cloud as nodes of the simulated network, and the programs that they run.

Every tier runs a program: of worker o, s or l (`hybrid`) under a `Hybrid` policy, of some runs of
layers (`chain`) under a `Chain`. A node serves the samples, each worker's on request at the start
of its iteration. Labels travel with samples and features, at no cost (Liu et al. 2020, IV-B).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workbench.clusters import Cluster, Link, Node
from workbench.hiertrain.costs.policy import Chain, Hybrid, Policy
from workbench.hiertrain.costs.problem import PAIRS, TIERS, Problem
from workbench.hiertrain.programs.chain import chain_program
from workbench.hiertrain.programs.hybrid import hybrid_programs
from workbench.hiertrain.programs.worker import Idle, Learning, Request, Samples, Worker
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
        pair: Link(problem.bandwidth_bps[pair], problem.overhead_s) for pair in PAIRS
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
    source = TIERS.index("device") if sharing == "interfaces" else len(TIERS)
    workers = [
        Worker(tier, learner, problem, iterations, source)
        for tier, learner in zip(TIERS, learners or [Idle() for _ in TIERS], strict=True)
    ]
    if isinstance(policy, Hybrid):
        programs = hybrid_programs(policy, workers)
        asking = sum(count > 0 for count in (policy.b_o, policy.b_s, policy.b_l))
    else:
        assert isinstance(policy, Chain)
        programs, asking = [chain_program(policy, worker) for worker in workers], 1
    serving = _serve(problem, asking * iterations, samples)
    if sharing == "none":
        return [*programs, serving]
    return [_both(programs[source], serving), *programs[source + 1 :]]


def _serve(problem: Problem, requests: int, samples: Samples | None) -> Program:
    """Program of the node that holds the samples: answers this number of requests."""

    async def program(context: Context) -> None:
        for _ in range(requests):
            asked = await context.receive("request")
            wanted: Request = asked.payload
            size_bytes = (wanted.last - wanted.first) * problem.sample_bytes
            batch = None if samples is None else samples(wanted)
            free = size_bytes == 0
            message = Message(context.node, "samples", batch, size_bytes, control=free)
            context.send(asked.sender, message)

    return program


def _both(program: Program, beside: Program) -> Program:
    """Program that runs two, until both have ended."""

    async def together(context: Context) -> Any:
        task = context.spawn(beside(context))
        result = await program(context)
        await task
        return result

    return together
