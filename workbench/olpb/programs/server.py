"""The edge server: asks nodes for what they have, gives them subtasks, takes gradients (Fig. 4).

It asks before every backward pass. Where a node has left, which shows by its silence alone, all
subtasks are dealt again to those who are still there, and the pass begins again, with what it was
given: no gradient is lost. A node that comes back is given subtasks from the next pass on.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from workbench.olpb.algorithms.assignment import assign
from workbench.olpb.algorithms.schedules import schedule
from workbench.olpb.costs.backward import as_paper_counts
from workbench.olpb.costs.subtasks import Node
from workbench.olpb.programs.cluster import Delays
from workbench.olpb.programs.work import Costs, Counts, Idle, Job, Learner, Order, Report
from workbench.olpb.programs.worker import worker
from workbench.runtime import Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workbench.olpb.costs.backward import Group
    from workbench.olpb.costs.subtasks import Pool
    from workbench.runtime import Context, Program


def programs_of(
    subtasks: Sequence[Group],
    pool: Pool,
    iterations: int = 1,
    *,
    scan: str = "hillis_steele",
    random_delays: bool = False,
    costs: Costs | None = None,
    learner: Learner | None = None,
    forward_s: float = 0.0,
    patience_s: float | None = None,
) -> list[Program]:
    """Programs for the nodes of ``cluster_of(pool)``, in their order; the server's is the last.

    The server's returns a list of `Counts`, one a backward pass. OLPB and BPPSA differ in their
    subtasks alone.

    Parameters
    ----------
    subtasks
        Elements of the scan: the loss's gradient, then the groups from the loss to the input.
    random_delays
        Whether a message takes ``Exp(1) * delay_s``, from the run's seed, or `delay_s`.
    costs
        By default as the paper counts.
    learner
        By default nothing is learnt.
    """
    elements = tuple(subtasks)
    job = Job(
        elements,
        pool,
        scan,
        partial(as_paper_counts, elements=elements) if costs is None else costs,
        Idle() if learner is None else learner,
        Delays(pool, random_delays),
        iterations,
        forward_s,
        patience_s,
    )
    return [*(worker(job) for _ in pool.nodes), server(job)]


def server(job: Job) -> Program:
    """Program of the server."""

    async def program(context: Context) -> list[Counts]:
        passes: list[Counts] = []
        asking = _Asking(context, len(job.pool.nodes))
        for iteration in range(job.iterations):
            await context.compute(
                partial(job.learner.begin, iteration), cost_s=job.forward_s, lane="forward"
            )
            passes.append(await _backward(context, job, asking, iteration))
            job.learner.end(context.now_s())
        job.over.append(True)
        for node in range(len(job.pool.nodes)):
            context.send(node, Message(context.node, "end", control=True))
        return passes

    return program


async def _backward(context: Context, job: Job, asking: _Asking, iteration: int) -> Counts:
    """A backward pass, tried until all nodes that have subtasks are done."""
    begin_s, first = context.now_s(), asking.attempt
    while True:
        asking.attempt += 1
        there = await asking.conditions()
        nodes = list(job.pool.nodes)
        for node, (conditions, _) in there.items():
            nodes[node] = conditions
        left = [node for node in range(len(nodes)) if node not in there]
        runs = assign(job.subtasks, replace(job.pool, nodes=tuple(nodes)), left)
        plan = schedule(job.scan, len(job.subtasks), runs, exclusive=True)
        work, busy = job.costs(plan), [node for node, run in enumerate(runs) if run]
        for node in busy:
            order = Order(asking.attempt, plan, work, runs[node])
            context.send(node, Message(context.node, "order", order, control=True))
        reports = await _collect(context, job, asking, busy)
        if reports is not None:
            break
    took_s = context.now_s() - begin_s
    steps = max(one.steps for one in reports.values())
    done = sum(one.work for one in reports.values())
    return Counts(iteration, begin_s, took_s, steps, done, runs, asking.attempt - first)


async def _collect(
    context: Context, job: Job, asking: _Asking, busy: Sequence[int]
) -> Mapping[int, Report] | None:
    """What nodes report; None where one of them has left, or begun again, before it did."""
    reports: dict[int, Report] = {}
    patience_s = job.patience_s or 0.0
    while len(reports) < len(busy):
        try:
            done = await context.receive(f"done {asking.attempt}", timeout_s=patience_s)
            reports[done.sender] = done.payload
        except TimeoutError:
            there = await asking.conditions()
            waited_for = [node for node in busy if node not in reports]
            if any(there.get(node, (None, None))[1] != asking.attempt for node in waited_for):
                return None
            patience_s *= 2
    return reports


class _Asking:
    """Asks nodes for their conditions; `attempt` numbers the backward passes that are tried."""

    def __init__(self, context: Context, nodes: int) -> None:
        self._context, self._nodes, self._asked = context, nodes, 0
        self.attempt = 0

    async def conditions(self) -> dict[int, tuple[Node, int | None]]:
        """By node that is there, what it has, and the attempt that it works on."""
        self._asked += 1
        topic = f"conditions {self._asked}"
        for node in range(self._nodes):
            question = Message(self._context.node, "ask", topic, control=True)
            self._context.send(node, question)
        found: dict[int, tuple[Node, int | None]] = {}
        while len(found) < self._nodes:
            try:
                answer = await self._context.receive(topic, timeout_s=0.0)
            except TimeoutError:
                break
            found[answer.sender] = answer.payload
        return found
