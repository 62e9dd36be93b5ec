"""HierTrain's device, edge server and cloud, as a drawing."""

from __future__ import annotations

from itertools import pairwise

from workbench.figures.sketch import Box, Line, Sketch, joined


def architecture() -> Sketch:
    """Return who computes, and what goes between them."""
    tiers = [
        Box("device", 1.3, 2, "small", 1.8),
        Box("edge server", 5, 2, "near", 1.8),
        Box("cloud", 8.7, 2, "far", 1.8),
    ]
    layers = [
        Box(
            "",
            tier.x - 0.7 + 0.35 * layer,
            1.15,
            tier.kind if layer < trained else "group",
            0.28,
            0.4,
        )
        for tier, trained in zip(tiers, (2, 3, 5), strict=True)
        for layer in range(5)
    ]
    notes = [
        Box("samples, results of layers, gradients", 5, 3.4, "note", 3.6, 0.5),
        Box("the layers that each trains, on some of the samples", 5, 0.4, "note", 4.6, 0.5),
    ]
    device, _, cloud = tiers
    over = (
        Line(device.x, 3.4, cloud.x, 3.4),
        *(Line(end.x, 2, end.x, 3.4) for end in (device, cloud)),
    )
    lines = (*joined(pairwise(tiers)), *over)
    return Sketch("Device, edge server and cloud", lines, (*tiers, *layers, *notes))
