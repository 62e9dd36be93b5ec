"""Pairs of nodes, drawn anew in every turn, which all nodes know without a message."""

from __future__ import annotations

import numpy as np

PAIRS = 9  # purpose of a stream, beside those of `workbench.training.repeatable`


def partner(seed: int, turn: int, node: int, nodes: int) -> int | None:
    """Who is paired with a node in a turn; None for the one that an odd number leaves over."""
    stream = np.random.SeedSequence(seed, spawn_key=(PAIRS, turn))
    order = np.random.default_rng(stream).permutation(nodes).tolist()
    beside: int = order.index(node) ^ 1
    return order[beside] if beside < nodes else None
