"""OLPB's operators, forward and backward, as a drawing."""

from __future__ import annotations

from itertools import pairwise

from workbench.figures.sketch import Box, Line, Sketch


def architecture() -> Sketch:
    """Return who computes, and what goes between them."""
    names = ("convolve", "add", "ReLU", "multiply", "loss")
    forward = [Box(name, 1.9 + 1.8 * at, 3.3, "near", 1.3) for at, name in enumerate(names)]
    backward = [Box(f"{box.label}'", box.x, 1.1, "far", 1.3) for box in forward]
    groups = [Box("", x, 1.1, "group", 3.3, 1.1) for x in (2.8, 6.4)]
    notes = [
        Box("forward", 0.45, 3.3, "note", 0.9),
        Box("backward", 0.45, 1.1, "note", 0.9),
        Box("two levels: a subtask of a small node", 4.6, 0.25, "note", 3.6, 0.4),
    ]
    there = [Line(a.x + 0.65, a.y, b.x - 0.68, b.y, head="right") for a, b in pairwise(forward)]
    back = [Line(b.x - 0.65, b.y, a.x + 0.68, a.y, head="left") for a, b in pairwise(backward)]
    kept = [
        Line(a.x, 2.95, b.x, 1.5, dashed=True, head="down")
        for a, b in zip(forward, backward, strict=True)
    ]
    boxes = (*groups, *forward, *backward, *notes)
    return Sketch("Operators, forward and backward", (*there, *back, *kept), boxes)
