"""No plan: every buffer has memory of its own."""

from __future__ import annotations

from workbench.olpb.memory.lifetimes import Lifetimes
from workbench.olpb.memory.planners.blocks import Blocks


def none(life: Lifetimes) -> Blocks:
    """One block for each buffer."""
    blocks = Blocks(life)
    for buffer in range(len(life.sizes)):
        blocks.add(buffer)
    return blocks
