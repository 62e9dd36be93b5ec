"""Levels are longest paths, and boundaries have what a later group reads."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.olpb.algorithms.networks import KINDS, NETWORKS, Drawn, example
from tests.oracles import olpb_scan as oracle
from workbench import memory
from workbench.olpb.algorithms.levels import (
    UNITS,
    Flow,
    bppsa,
    flow,
    groups,
    level_of_each,
    olpb,
)
from workbench.olpb.algorithms.tape import record
from workbench.zoo import build

nodes = st.tuples(st.sampled_from(KINDS), st.integers(0, 8), st.integers(0, 8))


def check(flow: Flow, unit: str, levels: int) -> None:
    reads = [sorted(flow.makers[value] for value in values) for values in flow.sources]
    costs = [1 if unit == "operator" else int(one) for one in flow.weighted]
    wanted = [max(one, 1) for one in oracle.longest_paths(reads, costs)]
    assert list(level_of_each(flow, unit)) == wanted
    found = groups(flow, unit, levels)
    of_call = {call: number for number, group in enumerate(found) for call in group.operators}
    assert sorted(of_call) == list(range(len(flow.names)))
    assert all(of_call[call] == (wanted[call] - 1) // levels for call in of_call)
    for number, group in enumerate(found):
        crossing = {
            value
            for call, values in enumerate(flow.sources)
            for value in values
            if of_call[flow.makers[value]] <= number < of_call[call]
        }
        assert set(group.boundary) == (crossing if group is not found[-1] else flow.outputs)


@given(st.lists(nodes, min_size=2, max_size=8), st.sampled_from(UNITS), st.integers(1, 4))
@settings(max_examples=25)
def test_drawn_graphs(drawn: list[tuple[str, int, int]], unit: str, levels: int) -> None:
    check(record(Drawn(drawn), torch.zeros(2, 4), torch.tensor([0, 1])).flow, unit, levels)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str) -> None:
    found = record(*example(name)).flow
    for unit in UNITS:
        check(found, unit, 2)


@pytest.mark.parametrize("unit", UNITS)
def test_a_traced_graph_has_the_levels_of_a_pass_with_numbers(unit: str) -> None:
    traced = flow(memory.trace("lenet5", batch_size=2, training=True))
    module, x = build("lenet5", "cpu"), torch.zeros(2, 1, 28, 28)
    recorded = record(module, x, torch.tensor([0, 1])).flow
    assert traced.names == recorded.names
    assert level_of_each(traced, unit) == level_of_each(recorded, unit)
    check(traced, unit, 3)


def test_a_traced_graph_begins_where_something_is_trained() -> None:
    module = nn.Sequential(nn.Linear(4, 4).requires_grad_(False), nn.ReLU(), nn.Linear(4, 2))
    traced = flow(memory.trace(module, (4,), batch_size=2, training=True))
    assert traced.names == record(module, torch.zeros(2, 4), torch.tensor([0, 1])).flow.names


def test_methods_are_groups_of_operators_or_of_layers() -> None:
    network = flow(memory.trace("lenet5", batch_size=2, training=True))
    assert olpb(network, 3) == groups(network, "operator", 3)
    assert bppsa(network) == groups(network, "matrix_layer", 1)


def test_listing_algorithms_imports_no_pytorch() -> None:
    code = "import sys, workbench.olpb.algorithms; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_large_model_without_its_numbers() -> None:
    found = flow(memory.trace("resnet18", training=True, batch_size=2))
    # 17 convolutions one after the other, 3 more on skips beside them, and the last layer.
    assert sum(found.weighted) == 21
    assert len(groups(found, "matrix_layer")) == 18
    check(found, "operator", 2)
