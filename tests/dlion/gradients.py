"""Gradients and links by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from workbench.dlion.gradient import Gradient, Links

VALUES = st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0, -10.0, 9.0, 10.0])


def gradient(
    values: Sequence[float] | NDArray[Any],
    sizes: Sequence[int] = (),
    *,
    step: float = 1.0,
    weights: NDArray[Any] | None = None,
    kind: Any = np.float32,
) -> Gradient:
    """A gradient of weight variables of these sizes, by default a single one."""
    flat = np.array(values, kind)
    flat.flags.writeable = False
    ends = np.cumsum([0, *(sizes or (len(flat),))]).tolist()
    variables = tuple(slice(*one) for one in pairwise(ends))
    held = np.ones_like(flat) if weights is None else weights
    return Gradient(flat, variables, step, 1, lambda: held)


def links(*peers: int, bandwidth_bps: float | None = None, node: int = 0) -> Links:
    """Links to peers, all of a bandwidth; an iteration takes a second."""
    return Links(node, dict.fromkeys(peers, bandwidth_bps), 1.0)


@st.composite
def gradients(draw: st.DrawFn, kinds: Sequence[Any] = (np.float32, np.float64)) -> Gradient:
    """Some variables of some values from a coarse grid, of any magnitude."""
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=3))
    values = draw(st.lists(VALUES, min_size=sum(sizes), max_size=sum(sizes)))
    scale = draw(st.sampled_from([1.0, 1e-38, 1e-44, 1e30, 3.0, 1e-3]))
    return gradient(np.array(values) * scale, sizes, kind=draw(st.sampled_from(kinds)))
