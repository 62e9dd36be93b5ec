"""Needs of a process that runs a plan: the block, and all that lies beside it.

What an operator allocates while it runs is let go of when it ends, so that of one operator counts,
the one that takes most (`workbench.memory.workspace_bytes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from workbench.memory.dataflow import ALIGNMENT, Dataflow
from workbench.memory.plan import MemoryPlan
from workbench.utils.checks import check_kind, check_whole, choose


class Optimizer(NamedTuple):
    """Copies of all trained parameters as its state, and of one parameter as workspace."""

    state: int
    workspace: int

    def workspace_bytes(self, trained: Sequence[int]) -> int:
        """Most bytes that an update of parameters of these sizes allocates, whatever their order.

        PyTorch updates one after the other, and keeps one array of the one before.
        """
        if not self.workspace:
            return 0
        return self.workspace * max(trained, default=0) + sum(sorted(trained)[-2:-1])


OPTIMIZERS: Mapping[str, Optimizer] = {
    "sgd": Optimizer(0, 0),
    "momentum": Optimizer(1, 0),
    "adam": Optimizer(2, 2),
    "adamw": Optimizer(2, 2),
}
"""By name: PyTorch's, of which ``momentum`` is SGD with momentum."""


@dataclass(frozen=True)
class Needs:
    """Bytes of a process that runs a plan, by purpose.

    Attributes
    ----------
    block
        For results, gradients included; what aligns its beginning is counted.
    workspace
        That one operator allocates beside the block, at most, its results among them, which are
        then copied to their places: as measured; 0 where it was not.
    parameters, optimizer_state
        What is trained counts twice: an arena trains a copy, and leaves the module as it is.
    constants
        And what the module holds and no operator reads; running statistics, of which an arena has a
        copy, too.
    folded
        What weights were folded from, which the module keeps.
    inputs
        A batch: the user's, and its place in the arena.
    """

    block: int
    workspace: int
    parameters: int
    optimizer_state: int
    constants: int
    folded: int
    inputs: int

    @property
    def total(self) -> int:
        """Most that is allocated at once."""
        return sum(vars(self).values())


def needs(plan: MemoryPlan, optimizer: str = "sgd", workspace_bytes: int = 0) -> Needs:
    """Return the needs of a process that runs a plan.

    The optimizer is a name in `OPTIMIZERS`; in inference it changes nothing. The workspace is of
    `workbench.memory.workspace_bytes`.
    """
    check_kind("plan", plan, MemoryPlan, "one of plan_memory")
    check_whole("workspace_bytes", workspace_bytes, 0)
    return _needs(plan.flow, plan.total_bytes, optimizer, workspace_bytes)


def beside_bytes(flow: Dataflow, optimizer: str = "sgd", workspace_bytes: int = 0) -> int:
    """Return the bytes that a process needs beside the block of results, whatever the plan."""
    return _needs(flow, 0, optimizer, workspace_bytes).total


def _needs(flow: Dataflow, block: int, optimizer: str, workspace_bytes: int) -> Needs:
    chosen = choose("optimizer", optimizer, OPTIMIZERS)
    trained = [held.size_bytes for held in flow.held if held.kind == "weight" and held.is_written]
    copied = sum(held.size_bytes for held in flow.held if held.is_written)
    return Needs(
        block=block + ALIGNMENT,
        workspace=max(workspace_bytes, chosen.workspace_bytes(trained)),
        parameters=flow.held_bytes("weight") + sum(trained),
        optimizer_state=chosen.state * sum(trained),
        constants=flow.held_bytes("constant") + flow.held_bytes("unused") + copied - sum(trained),
        folded=flow.held_bytes("folded"),
        inputs=2 * flow.held_bytes("input"),
    )
