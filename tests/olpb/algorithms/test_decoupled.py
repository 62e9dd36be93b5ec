"""Cuts are the best; what modules learn is tested where they train."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import olpb_nodes as oracle
from workbench.olpb.algorithms.decoupled import cut


@given(st.lists(st.floats(0, 10), min_size=1, max_size=9), st.integers(1, 9))
def test_cuts_are_the_best(costs: list[float], modules: int) -> None:
    if modules > len(costs):
        with pytest.raises(ValueError, match=f"cannot be cut into {modules} modules"):
            cut(costs, modules)
        return
    spans = cut(costs, modules)
    assert len(spans) == modules
    assert [at for span in spans for at in span] == list(range(len(costs)))
    assert all(spans)
    most = max(sum(costs[span.start : span.stop]) for span in spans)
    assert most == pytest.approx(oracle.dearest(costs, modules), abs=1e-9)
    for left, span in enumerate(reversed(spans[:-1]), 1):  # the longest modules first
        assert span.stop == len(costs) - left or sum(costs[span.start :][: len(span) + 1]) > (
            most - 1e-9
        )
