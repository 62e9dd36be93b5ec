"""Policies validate themselves and show as tables."""

from typing import Any

from tests.refusals import refusals
from workbench.hiertrain import TIERS, Chain, Hybrid


def test_hybrid_as_a_table() -> None:
    policy = Hybrid(("cloud", "device", "edge"), 1, 3, b_o=5, b_s=1, b_l=2)
    rows = [
        ("cloud", 1, 1, 5),
        ("cloud", 2, 3, 6),
        ("cloud", 4, 4, 8),
        ("device", 1, 1, 1),
        ("edge", 1, 3, 2),
    ]
    assert policy.table(layers=4).rows() == rows
    assert policy.table().rows() == [*rows[:2], ("cloud", 4, None, 8), *rows[3:]]
    assert policy.table(layers=3).rows() == [*rows[:2], *rows[3:]]
    assert str(Hybrid(TIERS, 0, 0, 8, 0, 0)) == "device: layers 1 to the last, 8 samples"


def test_worker_without_a_task_is_not_in_the_table() -> None:
    policy = Hybrid(TIERS, 0, 2, b_o=0, b_s=0, b_l=8)
    assert policy.table(2).rows() == [("cloud", 1, 2, 8)]


def test_chain_as_a_table() -> None:
    policy = Chain(("device", "cloud", "cloud", "device"), 8)
    assert policy.table().rows() == [("device", 1, 1, 8), ("cloud", 2, 3, 8), ("device", 4, 4, 8)]
    assert str(Chain(("edge", "cloud"), 1)) == "edge: layer 1, 1 sample; cloud: layer 2, 1 sample"


ORDER_TWICE = [("device", "edge", "edge"), ("device", "edge"), (1, 2, "edge")]
ALONE: dict[str, Any] = {"order": TIERS, "m_s": 0, "m_l": 0, "b_o": 8, "b_s": 0, "b_l": 0}

test_hybrid_refused = refusals(
    Hybrid,
    {"order": TIERS, "m_s": 1, "m_l": 2, "b_o": 3, "b_s": 1, "b_l": 2},
    {
        "order": {
            "each of device, edge, cloud once": ORDER_TWICE,
            "order is {.*}, where order counts; give the tiers of": [set(TIERS)],
            "order is .*; give the tiers of workers o, s and l": [5, "edge"],
        },
        "m_s": {
            "m_s is 3 and m_l is 2; the short task must not be longer": [3],
            "m_s is 0, so that worker takes no part and b_s must be 0, not 1": [0],
        },
    },
)
test_hybrid_of_one_worker_refused = refusals(
    Hybrid,
    ALONE,
    {
        "b_l": {"m_l is 0, so that worker .* b_l must be 0, not 2": [2]},
        "b_o": {"at least one sample": [0]},
    },
)
test_chain_refused = refusals(
    Chain,
    {"tiers": ("edge", "cloud"), "batch": 8},
    {
        "tiers": {
            "at least one layer": [()],
            "tiers is {'edge'}, where order counts; name one tier per": [{"edge"}],
            "tiers is .*; name one tier per layer": ["edge", 5],
            "layer 2 is on 'fog'; the tiers are device, edge, cloud": [("edge", "fog")],
        },
    },
)
