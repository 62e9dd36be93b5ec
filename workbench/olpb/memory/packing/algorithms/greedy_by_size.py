"""Largest buffer first, in the smallest gap: what TensorFlow Lite does (Pisarchyk and Lee 2020)."""

from __future__ import annotations

import numpy as np

from workbench.olpb.memory.packing.algorithms.gaps import place_in_order
from workbench.olpb.memory.packing.buffers import Buffers, Effort, Ints


def greedy_by_size(buffers: Buffers, _effort: Effort) -> Ints:
    """Place the largest buffer first, each in the smallest gap that holds it (TFLite)."""
    return place_in_order(buffers, np.argsort(-buffers.size, kind="stable"), smallest_gap=True)
