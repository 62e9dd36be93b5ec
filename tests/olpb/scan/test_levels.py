"""Levels are longest paths, and boundaries have what a later group reads."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.olpb.scan.networks import KINDS, NETWORKS, Drawn, example
from tests.oracles import olpb_scan as oracle
from workbench.olpb.scan.levels import UNITS, groups, levels
from workbench.olpb.scan.recording import record
from workbench.olpb.scan.tape import Tape

nodes = st.tuples(st.sampled_from(KINDS), st.integers(0, 8), st.integers(0, 8))


def check(tape: Tape, unit: str, level: int) -> None:
    reads = [sorted(tape.makers[value] for value in values) for values in tape.sources]
    costs = [1 if unit == "operator" else int(one.operator.weighted) for one in tape.calls]
    wanted = [max(one, 1) for one in oracle.longest_paths(reads, costs)]
    assert list(levels(tape, unit)) == wanted
    found = groups(tape, unit, level)
    of_call = {call: number for number, group in enumerate(found) for call in group.calls}
    assert sorted(of_call) == list(range(len(tape.calls)))
    assert all(of_call[call] == (wanted[call] - 1) // level for call in of_call)
    for number, group in enumerate(found):
        crossing = {
            value
            for call, values in enumerate(tape.sources)
            for value in values
            if of_call[tape.makers[value]] <= number < of_call[call]
        }
        assert set(group.boundary) == (
            crossing if group is not found[-1] else {tape.graph.outputs[0].value}
        )


@given(st.lists(nodes, min_size=2, max_size=8), st.sampled_from(UNITS), st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_drawn_graphs(drawn: list[tuple[str, int, int]], unit: str, level: int) -> None:
    check(record(Drawn(drawn), torch.zeros(2, 4), torch.tensor([0, 1])), unit, level)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, unit: str) -> None:
    check(record(*example(name)), unit, 2)


def test_a_skip_is_alive_at_all_boundaries_between() -> None:
    tape = record(*example("residual, evaluated"))
    found = groups(tape)
    names = [tuple(tape.calls[at].name for at in group.calls) for group in found]
    block = names.index(("convolution",), 1)
    skipped = found[block - 1].boundary
    assert len(skipped) == 1
    assert all(skipped[0] in group.boundary for group in found[block : block + 2])
    assert names[block + 2] == ("add",)
    assert skipped[0] not in found[block + 2].boundary
