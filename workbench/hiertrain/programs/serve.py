"""Device, edge and cloud carry a policy out, simulated or measured (Liu et al. 2020, IV-B).

Every tier runs a program: of worker o, s or l (`hybrid_programs`) under a `Hybrid` policy, of some
runs of layers (`chain_programs`) under a `Chain`. A node serves the samples, each worker's on
request at the start of its iteration. Labels travel with samples and features, at no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workbench.errors import UserError
from workbench.hiertrain.costs.policy import Chain, Hybrid, Policy
from workbench.hiertrain.costs.problem import TIERS, Problem
from workbench.hiertrain.programs import chain as chain_programs
from workbench.hiertrain.programs import hybrid as hybrid_programs
from workbench.hiertrain.programs.cluster import SHARING
from workbench.hiertrain.programs.job import Idle, Job, Learner, Request, Samples
from workbench.names import check_name
from workbench.runtime import Message

if TYPE_CHECKING:
    from workbench.runtime import Context, Program


def serve(job: Job, requests: int, samples: Samples | None) -> Program:
    """Program of the node that holds the samples: answers so many requests."""

    async def program(context: Context) -> None:
        for _ in range(requests):
            asked = await context.receive("request")
            wanted: Request = asked.payload
            size_bytes = (wanted.last - wanted.first) * job.problem.sample_bytes
            context.send(
                asked.sender,
                Message(
                    context.node,
                    "samples",
                    None if samples is None else samples(wanted),
                    size_bytes,
                    control=size_bytes == 0,
                ),
            )

    return program


def both(program: Program, beside: Program) -> Program:
    """Program that runs two, until both have ended."""

    async def together(context: Context) -> Any:
        task = context.spawn(beside(context))
        result = await program(context)
        await task
        return result

    return together


def programs_of(
    problem: Problem,
    policy: Policy,
    iterations: int,
    *,
    sharing: str = "none",
    learners: Sequence[Learner] | None = None,
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
    job = Job(problem, policy, iterations, source)
    learners = [Idle() for _ in TIERS] if learners is None else list(learners)
    if isinstance(policy, Hybrid):
        programs = hybrid_programs.programs_of(job, policy, learners)
        asking = sum(count > 0 for count in (policy.b_o, policy.b_s, policy.b_l))
    elif isinstance(policy, Chain):
        programs, asking = chain_programs.programs_of(job, policy, learners), 1
    else:
        raise TypeError(f"a policy is a Hybrid or a Chain, not a {type(policy).__name__}")
    serving = serve(job, asking * iterations, samples)
    if sharing == "none":
        return [*programs, serving]
    return [both(programs[source], serving), *programs[source + 1 :]]
