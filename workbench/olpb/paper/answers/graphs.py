"""Answers to what the graph's optimiser removes (Sec. V-A)."""

from __future__ import annotations

import polars as pl

from workbench.claims import Answer, Cause, Table


def _removed(count: str, frame: pl.DataFrame) -> Answer:
    """Share of nodes or edges that is gone in the end."""
    before, left = frame[count][0], frame[count][-1]
    removed = frame[f"{count}_removed_percent"][-1]
    return Answer(removed, f"{before} to {left}, of PyTorch's operators, SGD")


CAUSES = {
    "olpb.optimiser": Cause(
        "data",
        "201 nodes and 239 edges are what the manual of the paper's library, Owl, gives for its "
        "example lazy_mnist.ml, of one convolution and two linear layers, trained by Adagrad; the "
        "network that the paper describes has two and three, and a step of SGD of it is 88 nodes "
        "and 118 edges of PyTorch's, with few constants to fold",
    )
}

ANSWERS: Table = {"olpb.optimiser": ("optimiser", _removed)}
