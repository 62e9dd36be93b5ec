"""A network's results as the paper's library keeps them, for planning its memory."""

from __future__ import annotations

import numpy as np

from workbench.checks import check_whole
from workbench.olpb.costs.library import LibraryGraph
from workbench.olpb.memory.dataflow import Dataflow, Step

UNARY = frozenset({"relu", "exp", "log", "neg", "sqrt", "sigmoid", "clamp", "floor", "reshape"})
"""Operators on one array, number by number, and reshape: the result may lie where it did."""
BINARY = frozenset({"add", "sub", "mul", "div"})
"""The result may lie where an operand of its shape did."""


def counted(library: LibraryGraph, bytes_per_number: int) -> Dataflow:
    """Each operator of the library's granularity as a step that makes one result.

    What may be overwritten follows Owl's own code: operators of `UNARY` and `BINARY`, and those
    that a normalisation is made of. Parameters and the input stay outside.

    Raises ValueError: bytes that are no positive whole number.
    """
    check_whole("bytes_per_number", bytes_per_number, 1)
    made = library.nodes.filter(kind="operator")
    buffers = {node: at for at, node in enumerate(made["node"].to_list())}
    reading: dict[int, list[int]] = {}
    for source, target in library.edges.iter_rows():
        if source in buffers:
            reading.setdefault(target, []).append(source)
    shapes = dict(zip(made["node"], made["shape"].to_list(), strict=True))
    steps = []
    for node, name in made.select("node", "name").iter_rows():
        sources = reading.get(node, [])
        is_binary = name in BINARY or name.startswith("normalise")
        over = [
            buffers[one]
            for one in sources
            if name in UNARY or (is_binary and shapes[one] == shapes[node])
        ]
        reads = tuple(buffers[one] for one in sources)
        steps.append(Step(name, "forward", reads, (buffers[node],), tuple(over)))
    read = {buffer for step in steps for buffer in step.reads}
    sizes = bytes_per_number * made["numbers"].to_numpy().astype(np.int64)
    return Dataflow(tuple(steps), sizes, frozenset(set(buffers.values()) - read))
