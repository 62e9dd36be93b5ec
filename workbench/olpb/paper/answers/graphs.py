"""Answers to what the graph's optimiser removes (Sec. V-A)."""

from __future__ import annotations

import polars as pl

from workbench.claims import Answer, Table


def _removed(count: str, frame: pl.DataFrame) -> Answer:
    """Share of nodes or edges that is gone in the end."""
    before, left = frame[count][0], frame[count][-1]
    removed = frame[f"{count}_removed_percent"][-1]
    return Answer(removed, f"{before} to {left}, of PyTorch's operators, SGD")


ANSWERS: Table = {"olpb.optimiser": ("optimiser", _removed)}
