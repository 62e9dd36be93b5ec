"""What all workers of a run know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.decentralised import node

if TYPE_CHECKING:
    from workbench.decentralised.gradient_exchange.part import Part
    from workbench.dlion.algorithms.system import System


@dataclass(frozen=True, eq=False, kw_only=True)
class Job(node.Job):
    """A training job."""

    system: System
    variables: tuple[slice, ...]  # of the flat vector
    last_iteration: float  # infinite if seconds end the run
    # by node: peers' gradients that are not added yet, each with its factor
    inboxes: Sequence[list[tuple[Part, float]]]
    # workers whose next iteration `synch_training` does not allow yet
    held_back: set[int] = field(default_factory=set)
