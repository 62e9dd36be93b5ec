"""Modules of decoupled back-propagation, each on a node (DPB, Huo et al. 2018, Alg. 1).

Activations go forward and gradients back, message by message; nobody waits for the slowest but who
needs something of it, so that the modules' iterations overlap. With one module it is plain
back-propagation on one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from workbench.olpb.algorithms.decoupled import Module, backward, forward
from workbench.olpb.costs.subtasks import Pool
from workbench.olpb.programs.cluster import Delays, arrived, seconds
from workbench.utils.checks import UserError
from workbench.utils.numbers import bytes_as_text

if TYPE_CHECKING:
    from workbench.olpb.programs.learning import ModuleModel
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
    learners: Sequence[ModuleModel],
    *,
    random_delays: bool = False,
) -> dict[int, Program]:
    """Programs by node of ``cluster_of(pool)``; each returns when its iterations ended, in seconds.

    `learners` are what the modules learn with.
    """
    nodes, delays = nodes_of(modules, pool), Delays(pool, random_delays)
    return {
        nodes[number]: partial(_Place(number, nodes, modules, delays, learner).run, iterations)
        for number, learner in enumerate(learners)
    }


@dataclass(frozen=True, eq=False)
class _Place:
    """A module among the others: what it does in an iteration."""

    number: int
    nodes: Sequence[int]  # by module
    modules: Sequence[ModuleWork]
    delays: Delays
    learner: ModuleModel

    async def run(self, iterations: int, context: Context) -> list[float]:
        """Program of the module."""
        state: Module[Any, Any] = Module(self.number, len(self.modules), self.learner.start())
        ended_s = []
        for iteration in range(iterations):
            state = await self.forward(context, state, iteration)
            if state.due:
                state = await self.backward(context, state, iteration - state.late)
            ended_s.append(context.now_s())
            if (part := self.learner.end(iteration)) is not None:
                context.record(part)
        return ended_s

    async def forward(self, context: Context, state: Module[Any, Any], batch: int) -> Any:
        """Pass a batch forward and on; the next state."""
        topic, own = f"features {batch}", self.modules[self.number]
        if self.number:
            features = await arrived(context, (await context.receive(topic)).payload)
        else:
            features = self.learner.samples(batch)
        state = await context.compute(
            partial(forward, state, partial(self.learner.run, batch, features)),
            cost_s=seconds(self.delays.pool, context.node, own.forward_flops, own.dispatches),
            lane="forward",
            label=f"batch {batch}",
        )
        if state.late:
            going_on = self.learner.features(state.passes[-1])
            target = self.nodes[self.number + 1]
            self.delays.send(context, target, topic, going_on, own.boundary_bytes)
        return state

    async def backward(self, context: Context, state: Module[Any, Any], batch: int) -> Any:
        """Learn from an earlier batch, and pass its gradient back; the next state."""
        topic, own = f"gradient {batch}", self.modules[self.number]
        if not own.backward_dispatches:
            return backward(state, lambda weights, _: (weights, None))[0]
        if state.late:
            gradient = await arrived(context, (await context.receive(topic)).payload)
        else:
            loss, gradient = self.learner.loss(batch, state.passes[0])
            context.record(loss)
        state, going_back = await context.compute(
            partial(backward, state, partial(self.learner.learn, gradient)),
            cost_s=seconds(
                self.delays.pool, context.node, own.backward_flops, own.backward_dispatches
            ),
            lane="backward",
            label=f"batch {batch}",
        )
        before = self.modules[self.number - 1] if self.number else None
        if before is not None and before.backward_dispatches:
            target = self.nodes[self.number - 1]
            self.delays.send(context, target, topic, going_back, before.boundary_bytes)
        return state
