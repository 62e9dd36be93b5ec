"""Workers that carry out the operations of a plan, simulated or measured, learning or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.sharding.collectives import all_gather, all_reduce, reduce_scatter
from workbench.sharding.costs import Problem
from workbench.sharding.schedules import (
    ALL_GATHER,
    ALL_REDUCE,
    Bucket,
    Collective,
    Compute,
    Operation,
    Plan,
    operations,
)

if TYPE_CHECKING:
    from workbench.runtime import Context, Program, Synchronized, Task
    from workbench.sharding.learning import Replica


@dataclass(frozen=True, eq=False)
class Worker:
    """Program of a node; without a replica it moves bytes and charges time only.

    Attributes
    ----------
    order
        Operations of an iteration, the same in each.
    group
        All nodes, in the order of sums.
    seconds
        Seconds of each computation at the node's speed of 1.
    """

    order: Sequence[Operation]
    buckets: Sequence[Bucket]
    group: Sequence[int]
    seconds: Mapping[Compute, float]
    iterations: int
    replica: Synchronized[Replica] | None = None

    async def __call__(self, context: Context) -> None:
        """Do all iterations."""
        for iteration in range(self.iterations):
            collectives: list[Task[None]] = []
            for operation in self.order:
                if isinstance(operation, Compute):
                    if operation.after:
                        await collectives[operation.after - 1]
                    await self._compute(context, iteration, operation)
                else:
                    before = collectives[-1] if collectives else None
                    work = self._collective(context, iteration, operation, before)
                    collectives.append(context.spawn(work))
            if collectives:
                await collectives[-1]

    async def _compute(self, context: Context, iteration: int, work: Compute) -> None:
        cost_s, bucket = self.seconds[work], self.buckets[work.bucket]
        label = "" if work.lane == "update" else f"{bucket.first}-{bucket.last}"
        if self.replica is None:
            await context.compute(lambda: None, cost_s=cost_s, lane=work.lane, label=label)
            return
        record = await context.compute(
            lambda replica: replica.compute(iteration, work),
            cost_s=cost_s,
            lane=work.lane,
            label=label,
            on=self.replica,
        )
        if record is not None:
            context.record(record)

    async def _collective(
        self, context: Context, iteration: int, work: Collective, before: Task[None] | None
    ) -> None:
        """Take part in a collective after the one before it; computation goes on meanwhile."""
        if before is not None:
            await before
        group, size_bytes = self.group, self.buckets[work.bucket].size_bytes
        replica = None if self.replica is None else self.replica.value
        if work.kind == ALL_GATHER:
            value = None if replica is None else replica.parameters(work.bucket)
            await all_gather(context, group, value, size_bytes)
            return
        value = None if replica is None else replica.gradient(work.bucket)
        weights = () if replica is None else replica.labels[iteration]
        if work.kind == ALL_REDUCE:
            await all_reduce(context, group, value, size_bytes, weights=weights)
        else:
            value = await reduce_scatter(context, group, value, size_bytes, weights=weights)
        if self.replica is not None:
            self.replica.value.reduced[work.bucket] = value

    def warm_up(self) -> None:
        """Compute the first gradient."""
        if self.replica is not None:
            self.replica.value.warm_up()


def worker(
    problem: Problem,
    plan: Plan,
    node: int,
    *,
    iterations: int,
    replica: Synchronized[Replica] | None = None,
) -> Worker:
    """Program of a node under a plan."""
    buckets = problem.buckets(plan)
    order = operations(plan.stage, buckets, problem.accumulate)
    seconds = {
        work: float(problem.seconds(plan, work)[node])
        for work in order
        if isinstance(work, Compute)
    }
    return Worker(order, buckets, range(problem.nodes), seconds, iterations, replica)


def dry_run(problem: Problem, plan: Plan, iterations: int) -> list[Program]:
    """Programs of all nodes, without learning, on nodes of speed 1."""
    return [worker(problem, plan, node, iterations=iterations) for node in range(problem.nodes)]
