"""Subtasks and pools to draw."""

from __future__ import annotations

from hypothesis import strategies as st

from workbench.olpb.costs.backward import LOSS
from workbench.olpb.costs.subtasks import Node, Pool, Subtask

flops = st.floats(0, 1e3)


@st.composite
def subtasks(draw: st.DrawFn, most: int = 14) -> tuple[Subtask, ...]:
    """Elements of a scan: the loss's gradient, and at least one group."""
    costs = draw(st.lists(flops, min_size=1, max_size=most))
    needs = st.integers(0, 50)
    groups = [Subtask((f"group {at}",), flops, 8, draw(needs)) for at, flops in enumerate(costs)]
    return (LOSS, *groups)


@st.composite
def pools(draw: st.DrawFn, most: int = 9, *, equal: bool = False, bandwidths: bool = False) -> Pool:
    """Nodes with enough memory, of equal or of any speed."""
    bandwidth = st.none() | st.floats(1, 100) if bandwidths else st.none()
    node = st.builds(Node, st.floats(0.5, 50), st.none(), bandwidth)
    alike, count = draw(node), draw(st.integers(1, most))
    nodes = [alike if equal else draw(node) for _ in range(count)]
    seconds = st.floats(0, 20)
    return Pool(tuple(nodes), draw(seconds), draw(seconds))
