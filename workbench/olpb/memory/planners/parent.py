"""Reuse of a direct parent's block (Zhao et al., Sec. V-B): the paper's first strategy.

A result takes the block of an operand of the same size that nobody needs any more, where the
operator may overwrite it; otherwise it gets a new one.
"""

from __future__ import annotations

from workbench.olpb.memory.lifetimes import Lifetimes
from workbench.olpb.memory.planners.blocks import Blocks


def parent(life: Lifetimes) -> Blocks:
    """Blocks of results that overwrite each other."""
    blocks = Blocks(life)
    of_place: dict[int, int] = {}
    for step in life.order:
        for buffer in life.flow.steps[step].makes:
            place = int(life.places[buffer])
            if place in of_place:
                blocks.use(buffer, of_place[place])
            else:
                of_place[place] = blocks.add(buffer)
    return blocks
