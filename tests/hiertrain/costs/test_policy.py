"""Policies validate themselves and show as tables."""

from typing import Any

import pytest

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
    assert policy.taking_part == ("cloud", "device", "edge")


def test_worker_without_a_task_is_not_in_the_table() -> None:
    policy = Hybrid(TIERS, 0, 2, b_o=0, b_s=0, b_l=8)
    assert policy.table(2).rows() == [("cloud", 1, 2, 8)]
    assert policy.taking_part == ("device", "cloud")


def test_chain_as_a_table() -> None:
    policy = Chain(("device", "cloud", "cloud", "device"), 8)
    assert policy.table().rows() == [("device", 1, 1, 8), ("cloud", 2, 3, 8), ("device", 4, 4, 8)]


def test_policies_read_well() -> None:
    assert str(Chain(("edge", "cloud"), 8)) == (
        "edge: layer 1, 8 samples; cloud: layer 2, 8 samples"
    )
    hybrid = Hybrid(("edge", "cloud", "device"), 0, 0, 8, 0, 0)
    assert str(hybrid) == "edge: layers 1 to the last, 8 samples"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": ("device", "edge", "edge")}, "each of device, edge, cloud once"),
        ({"order": ("device", "edge")}, "each of device, edge, cloud once"),
        ({"m_s": 3}, "m_s is 3 and m_l is 2; the short task must not be longer"),
        ({"m_s": 0}, "m_s is 0, so that worker takes no part and b_s must be 0, not 1"),
        ({"m_s": 0, "m_l": 0, "b_s": 0}, "m_l is 0, so that worker .* b_l must be 0, not 2"),
        ({"b_o": -1}, "b_o is -1, not a whole number of at least 0"),
        ({"m_l": 2.5}, "m_l is 2.5, not a whole number"),
        ({"b_l": True}, "b_l is True, not a whole number"),
        ({"b_o": 0, "b_s": 0, "b_l": 0}, "at least one sample"),
    ],
)
def test_hybrid_that_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"order": TIERS, "m_s": 1, "m_l": 2, "b_o": 3, "b_s": 1, "b_l": 2}
    Hybrid(**good)
    with pytest.raises(ValueError, match=message):
        Hybrid(**(good | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tiers": ()}, "at least one layer"),
        ({"tiers": "edge"}, "one tier per layer"),
        ({"tiers": ("edge", "fog")}, "layer 2 is on 'fog'; the tiers are device, edge, cloud"),
        ({"batch": 0}, "batch is 0, not a whole number of at least 1"),
        ({"bits": 0}, "bits is 0; values take 1 to 16 bits, or 32"),
        ({"gradient_bits": 24}, "gradient_bits is 24"),
    ],
)
def test_chain_that_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"tiers": ("edge", "cloud"), "batch": 8}
    Chain(**good)
    with pytest.raises(ValueError, match=message):
        Chain(**(good | change))
