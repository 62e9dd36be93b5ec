"""DLion's workers in micro-clouds, as a drawing."""

from __future__ import annotations

from workbench.figures.sketch import Box, Line, Sketch, joined


def architecture() -> Sketch:
    """Return who computes, and what goes between them."""
    groups = [Box("", x, 1.8, "group", 2.6, 1.7) for x in (1.5, 5, 8.5)]
    large = [Box("worker", group.x, 2.15, "far", 1.7, 0.7) for group in groups]
    small = [Box("worker", group.x, 1.35, "near", 1.1, 0.45) for group in groups]
    notes = [
        *(Box("micro-cloud, by LAN", group.x, 0.5, "note", 2.4, 0.4) for group in groups),
        Box("parts of gradients, best weights, by WAN", 5, 3.6, "note", 4.0, 0.4),
    ]
    first, _, last = groups
    over = [Line(first.x, 3.6, last.x, 3.6, dashed=True)]
    over += [Line(group.x, 2.65, group.x, 3.6, dashed=True) for group in groups]
    within = joined(zip(large, small, strict=True))
    return Sketch("Workers in micro-clouds", (*over, *within), (*groups, *large, *small, *notes))
