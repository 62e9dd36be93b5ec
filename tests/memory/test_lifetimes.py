"""Lifetimes and orders against plain loops and all orders."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory.flows import chain, flows
from tests.oracles import memory as oracle
from workbench.memory.dataflow import Dataflow, check_order
from workbench.memory.lifetimes import lifetimes
from workbench.memory.orders import ORDERS, searched


@given(flows(), st.booleans())
def test_bytes_alive_are_those_of_plain_loops(flow: Dataflow, overwriting: bool) -> None:
    order = list(range(len(flow.steps)))
    life = lifetimes(flow, order, overwriting=overwriting)
    assert life.alive_bytes.tolist() == oracle.alive(flow, order, overwriting=overwriting)
    items = life.items
    assert items["upper"].ge(items["lower"]).all()


@given(flows())
@pytest.mark.parametrize("name", ORDERS)
def test_every_order_can_run(name: str, flow: Dataflow) -> None:
    check_order(flow, ORDERS[name](flow))


@given(flows(most=6))
def test_the_search_finds_the_least(flow: Dataflow) -> None:
    assert lifetimes(flow, searched(flow)).bound_bytes == oracle.least_bound(flow)


@settings(max_examples=40)
@given(flows(most=10))
def test_without_time_it_is_still_an_order(flow: Dataflow) -> None:
    found = searched(flow, most_states=1, until_s=0.0)
    check_order(flow, found)
    assert lifetimes(flow, found).bound_bytes >= lifetimes(flow, searched(flow)).bound_bytes


@pytest.mark.parametrize(
    ("order", "why"), [([0, 1], "each of the 3 steps once"), ([1, 0, 2], "step 1 before step 0")]
)
def test_orders_that_cannot_run_are_refused(order: list[int], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_order(chain(1, 1, 1), order)
