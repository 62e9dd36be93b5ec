"""Modules of decoupled back-propagation, each on a node (DPB, Huo et al. 2018, Alg. 1).

Activations go forward and gradients back, message by message; a node waits only for what it needs
of its neighbours, so that the modules' iterations overlap. With one module it is plain
back-propagation on one node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from workbench.olpb.costs.subtasks import Pool
from workbench.olpb.programs.cluster import Delays, arrived, seconds
from workbench.olpb.programs.scan import Part
from workbench.utils.checks import UserError
from workbench.utils.numbers import bytes_as_text

if TYPE_CHECKING:
    from workbench.runtime import Context, Program


@dataclass(frozen=True)
class ModuleWork:
    """Costs of a module for a batch.

    `boundary_bytes` are those of what it passes on, and of the gradient that comes back;
    `dispatches` and `backward_dispatches` those of a pass. A module with none backward needs no
    gradient: neither it nor one before it is trained.
    """

    forward_flops: float
    backward_flops: float
    boundary_bytes: float = 0.0
    memory_bytes: int = 0
    dispatches: int = 1
    backward_dispatches: int = 1


class ModuleLearner(Protocol):
    """The learning of a module; batches count from 0."""

    def samples(self, batch: int) -> Any:
        """Features before the first layer."""

    def forward(self, batch: int, features: Any) -> Any:
        """Pass a batch forward with the current weights; return what `backward` needs."""

    def features(self, passed: Any) -> Any:
        """Features for the next module."""

    def loss(self, batch: int, passed: Any) -> tuple[float, Any]:
        """The mean loss, and its gradient by the scores."""

    def backward(self, gradient: Any, passed: Any) -> Any:
        """Step on the weights; return the gradient for the module before."""

    def end(self, iteration: int) -> Part | None:
        """The module after an iteration, if it is to be evaluated."""


def nodes_of(modules: Sequence[ModuleWork], pool: Pool) -> tuple[int, ...]:
    """Node of each module: the dearest gets the fastest that it fits on, and so on."""
    if len(modules) > len(pool.nodes):
        raise UserError(
            f"{len(modules)} modules need a node each, and the pool has {len(pool.nodes)}; give "
            "more nodes, or cut the network into fewer modules"
        )
    free = sorted(range(len(pool.nodes)), key=lambda node: -pool.nodes[node].flops_per_s)
    chosen: dict[int, int] = {}
    costs = [module.forward_flops + module.backward_flops for module in modules]
    for module in sorted(range(len(modules)), key=lambda module: -costs[module]):
        needed = modules[module].memory_bytes
        fitting = [node for node in free if pool.nodes[node].room >= needed]
        if not fitting:
            raise UserError(
                f"module {module} needs {bytes_as_text(needed)}, and no free node has as much; "
                "give nodes with more memory, or a smaller batch"
            )
        chosen[module] = fitting[0]
        free.remove(fitting[0])
    return tuple(chosen[module] for module in range(len(modules)))


def programs_of(
    modules: Sequence[ModuleWork],
    pool: Pool,
    iterations: int,
    learners: Sequence[ModuleLearner],
    *,
    random_delays: bool = False,
) -> dict[int, Program]:
    """Programs by node of ``cluster_of(pool)``; each returns when its iterations ended, in seconds.

    `learners` are what the modules learn with.
    """
    nodes, delays = nodes_of(modules, pool), Delays(pool, random_delays)
    return {
        nodes[place]: partial(_Program(place, nodes, modules, delays, learner).run, iterations)
        for place, learner in enumerate(learners)
    }


@dataclass(frozen=True, eq=False)
class _Program:
    """A module among the others."""

    place: int
    nodes: Sequence[int]  # by module
    modules: Sequence[ModuleWork]
    delays: Delays
    learner: ModuleLearner

    async def run(self, iterations: int, context: Context) -> list[float]:
        """Pass every batch forward, and the one that is due backward (see `decoupled`)."""
        own, ended_s = self.modules[self.place], list[float]()
        late = len(self.modules) - 1 - self.place
        passes = deque[Any]()  # batches that have not gone backward
        for iteration in range(iterations):
            passes.append(await self._forward(context, iteration))
            if iteration >= late:
                passed = passes.popleft()
                if own.backward_dispatches:
                    await self._backward(context, iteration - late, passed)
            ended_s.append(context.now_s())
            if (part := self.learner.end(iteration)) is not None:
                context.record(part)
        return ended_s

    async def _forward(self, context: Context, batch: int) -> Any:
        topic, own = f"features {batch}", self.modules[self.place]
        if self.place:
            features = await arrived(context, (await context.receive(topic)).payload)
        else:
            features = self.learner.samples(batch)
        passed = await context.compute(
            partial(self.learner.forward, batch, features),
            cost_s=seconds(self.delays.pool, context.node, own.forward_flops, own.dispatches),
            lane="forward",
            label=f"batch {batch}",
        )
        if self.place < len(self.modules) - 1:
            target, features = self.nodes[self.place + 1], self.learner.features(passed)
            self.delays.send(context, target, topic, features, own.boundary_bytes)
        return passed

    async def _backward(self, context: Context, batch: int, passed: Any) -> None:
        topic, own = f"gradient {batch}", self.modules[self.place]
        if self.place < len(self.modules) - 1:
            gradient = await arrived(context, (await context.receive(topic)).payload)
        else:
            loss, gradient = self.learner.loss(batch, passed)
            context.record(loss)
        cost_s = seconds(
            self.delays.pool, context.node, own.backward_flops, own.backward_dispatches
        )
        gradient = await context.compute(
            partial(self.learner.backward, gradient, passed),
            cost_s=cost_s,
            lane="backward",
            label=f"batch {batch}",
        )
        before = self.modules[self.place - 1] if self.place else None
        if before is not None and before.backward_dispatches:
            target = self.nodes[self.place - 1]
            self.delays.send(context, target, topic, gradient, before.boundary_bytes)
