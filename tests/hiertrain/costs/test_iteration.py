"""The cost model against sums done by hand and against the equations in loops."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hiertrain.strategies import chains, choice_of, given_of, hybrids, problems
from tests.oracles import hiertrain as oracle
from tests.refusals import refusals
from workbench.clusters import Link
from workbench.hiertrain import TIERS, Chain, Hybrid, Problem, iteration

RELATIVE = 1e-12  # sums of n doubles in different orders differ by about n units in the last place

# A byte takes 1 s between device and edge, 2 s between edge and cloud, 4 s between device and
# cloud. Seconds per sample, forward and backward, of three layers:
PROBLEM = Problem(
    layer_s={
        "device": [[4, 8], [4, 8], [4, 8]],
        "edge": [[2, 4], [2, 4], [2, 4]],
        "cloud": [[1, 2], [1, 2], [1, 2]],
    },
    update_s={"device": [3, 3, 3], "edge": [2, 2, 2], "cloud": [1, 1, 1]},
    param_bytes=[1, 2, 10],
    output_bytes=[3, 1, 1],
    sample_bytes=2,
    links={
        ("device", "edge"): Link(8),
        ("cloud", "edge"): Link(4),
        ("device", "cloud"): Link(2),
    },
    batch=6,
)

REST = ("device", "cloud")


def test_hybrid_iteration_by_hand() -> None:
    # Worker o is the cloud, s the device, l the edge.
    ours = iteration(PROBLEM, Hybrid(("cloud", "device", "edge"), 1, 2, b_o=3, b_s=1, b_l=2))
    # Samples: 6 bytes to the cloud, 4 to the edge. Features and gradients of the device: 1 sample
    # of 3 bytes, 4 s a byte; of the edge: 2 samples of 1 byte, 2 s a byte.
    assert list(ours.forward_phases_s) == [
        max(24 + 3 * 1, 0 + 1 * 4 + 12, 4 + 2 * 2),
        max((3 + 1) * 1, 2 * 2 + 4),
        6 * 1,
    ]
    assert list(ours.backward_phases_s) == [
        max(3 * 2, 1 * 8 + 12, 2 * 4),
        max((3 + 1) * 2, 2 * 4 + 4),
        6 * 2,
    ]
    assert ours.weights_s == max(3, 3, 4)
    assert ours.exchange_s == max(2 * 1 * 4, 2 * 3 * 2)
    assert ours.total_s == (27 + 8 + 6) + (20 + 12 + 12) + 16


def test_chain_iteration_by_hand() -> None:
    ours = iteration(PROBLEM, Chain(("edge", "edge", "cloud"), 6))
    assert list(ours.forward_phases_s) == [6 * 2 * 1, 12 + 12 + 6, 6 * 1 * 2]
    assert list(ours.backward_phases_s) == [24 + 24 + 12, 6 * 1 * 2]
    assert ours.weights_s == max(0, 4, 1)
    assert (ours.forward_s, ours.backward_s, ours.update_s) == (54, 72, 4)
    assert ours.total_s == 130


def test_overhead_and_latency_are_paid_by_every_message() -> None:
    links = {
        pair: replace(link, overhead_s=70.0, latency_s=30.0) for pair, link in PROBLEM.links.items()
    }
    alone = iteration(replace(PROBLEM, links=links), Hybrid(("edge", *REST), 0, 0, 6, 0, 0))
    assert alone.total_s == 100 + 12 + 6 * 6 + 6 * 12 + 6


@given(problem=problems(max_layers=8, max_batch=20), data=st.data())
def test_hybrid_iteration_is_what_the_equations_say(problem: Problem, data: st.DataObject) -> None:
    policy = data.draw(hybrids(problem))
    expected_s = oracle.hybrid_s(given_of(problem), choice_of(policy))
    assert iteration(problem, policy).total_s == pytest.approx(expected_s, rel=RELATIVE)


@given(problem=problems(max_layers=8, max_batch=20), data=st.data())
def test_chain_iteration_is_the_walk_forth_and_back(problem: Problem, data: st.DataObject) -> None:
    policy = data.draw(chains(problem))
    expected_s = oracle.chain_s(given_of(problem), policy.tiers, *[policy.bits or 32] * 2)
    assert iteration(problem, policy).total_s == pytest.approx(expected_s, rel=RELATIVE)


test_policy_that_does_not_fit = refusals(
    partial(iteration, PROBLEM),
    {"policy": Chain(("edge",) * 3, 6)},
    {
        "policy": {
            "m_l is 4, but the model has only 3 layers": [Hybrid(TIERS, 1, 4, 4, 1, 1)],
            "shares out 5 samples, but the problem's": [Hybrid(TIERS, 1, 3, 4, 1, 0)],
            "places 1 layers, but the model has 3": [Chain(("edge",), 6)],
            "shares out 7 samples": [Chain(("edge",) * 3, 7)],
        }
    },
)
test_not_a_policy = refusals(
    partial(iteration, PROBLEM),
    {"policy": Chain(("edge",) * 3, 6)},
    {"policy": {"policy is .*; give a Hybrid or a Chain": ["hiertrain", None]}},
    TypeError,
)
