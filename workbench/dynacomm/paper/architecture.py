"""DynaComm's workers and parameter servers, as a drawing."""

from __future__ import annotations

from workbench.figures.sketch import Box, Sketch, joined


def architecture() -> Sketch:
    """Return who computes, and what goes between them."""
    servers = [Box("parameter server", x, 3.3, "far", 1.9) for x in (2, 4.2, 6.4, 8.6)]
    workers = [Box("worker", x, 0.7) for x in (1.7, 3.5, 5.3, 7.1, 8.9)]
    notes = [
        Box("cloud", 0.4, 3.3, "note", 0.7),
        Box("edge", 0.4, 0.7, "note", 0.7),
        Box("parameters down, gradients up, layer by layer", 5.3, 2, "note", 4.3, 0.5),
    ]
    lines = joined((worker, server) for worker in workers for server in servers)
    return Sketch("Workers and parameter servers", lines, (*servers, *workers, *notes))
