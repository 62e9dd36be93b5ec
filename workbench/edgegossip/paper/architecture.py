"""EdgeGossip's platforms and balancer, as a drawing."""

from __future__ import annotations

from itertools import pairwise

from workbench.figures.sketch import Box, Sketch, joined


def architecture() -> Sketch:
    """Return who computes, and what goes between them."""
    platforms = [
        Box("GPU platform", 1.5, 3.3, "far", 2.2),
        Box("GPU platform", 8.5, 3.3, "far", 2.2),
        Box("CPU platform", 8.5, 0.7, "small", 1.7),
        Box("CPU platform", 1.5, 0.7, "small", 1.7),
    ]
    balancer = Box("balancer", 5, 2)
    notes = [
        Box("models", 5, 3.3, "note", 0.9, 0.4),
        Box("models", 5, 0.7, "note", 0.9, 0.4),
        Box("reports, shares of data", 3.1, 2.05, "note", 2.0, 0.4),
    ]
    ring = joined(pairwise([*platforms, platforms[0]]))
    stars = joined(((platform, balancer) for platform in platforms), dashed=True)
    boxes = (*platforms, balancer, *notes)
    return Sketch("Platforms that exchange models with peers", (*ring, *stars), boxes)
