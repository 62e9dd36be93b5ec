"""Parts of gradients: exact, in the cheapest encoding, nobody's but the receiver's; and links."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dlion.gradients import gradient, gradients
from tests.oracles import dlion_parts as oracle
from tests.refusals import refusals
from workbench.dlion.gradient import LATEST, Gradient, Monitor
from workbench.dlion.part import Part, encoded_bytes
from workbench.runtime import Transfer


def arrays(part: Part) -> list[np.ndarray[Any, Any]]:
    return [one for piece in part.pieces for one in (piece.values, piece.at) if one is not None]


def check(found: Part, one: Gradient, mask: np.ndarray[Any, Any], scale: float) -> None:
    """The part is what a mask selects: its bytes, what it adds, whose it is."""
    item = one.values.itemsize
    expected = sum(oracle.cheapest_bytes(mask[v].tolist(), item) for v in one.variables)
    assert found.size_bytes == sum(array.nbytes for array in arrays(found)) == expected
    assert not any(array.flags.writeable for array in arrays(found))
    assert not any(np.shares_memory(array, one.values) for array in arrays(found))
    weights = np.linspace(-1, 1, len(mask)).astype(one.values.dtype)
    flat = weights.copy()
    found.add_to(flat, scale)
    steps = np.float64(one.values.dtype.type(scale)) * one.values
    exact = oracle.added(weights.tolist(), steps.tolist(), mask.tolist(), 1.0)
    np.testing.assert_allclose(flat, exact, rtol=4 * np.finfo(flat.dtype).eps, atol=1e-7)
    assert np.array_equal(flat[~mask], weights[~mask])


@given(st.data(), gradients(), st.sampled_from([0.0, 1.0, -0.1, -0.5]))
def test_what_a_mask_selects(data: st.DataObject, one: Gradient, scale: float) -> None:
    size = len(one.values)
    often = data.draw(st.sampled_from([0.0, 0.02, 0.1, 0.5, 0.95, 1.0]))
    mask = np.random.default_rng(data.draw(st.integers(0, 99))).random(size) < often
    check(one.part(mask), one, mask, scale)
    if mask.all():
        check(one.whole, one, mask, scale)


@given(st.integers(0, 200), st.integers(1, 200), st.sampled_from([4, 8]))
def test_encoded_bytes_is_the_cheapest(count: int, size: int, item: int) -> None:
    count = min(count, size)
    selected = [at < count for at in range(size)]
    assert encoded_bytes(count, size, item) == oracle.cheapest_bytes(selected, item)
    several = [encoded_bytes(one, size, item) for one in range(size + 1)]
    assert (np.diff(several) >= 0).all()


@pytest.mark.parametrize(
    ("count", "kind"), [(1, "positions"), (30, "bitmap"), (100, "whole"), (97, "whole")]
)
def test_each_encoding(count: int, kind: str) -> None:
    one = gradient(np.arange(1.0, 101.0))
    mask = np.arange(100) < count
    (piece,) = one.part(mask).pieces
    at = piece.at
    found = "whole" if at is None else "bitmap" if at.dtype == np.uint8 else "positions"
    assert found == kind
    check(one.part(mask), one, mask, -0.5)


def test_nothing_selected_is_nothing() -> None:
    one = gradient([1.0, 2.0, 3.0], (1, 2))
    nothing = one.part(np.zeros(3, dtype=bool))
    assert (nothing.pieces, nothing.size_bytes, nothing.values) == ((), 0, 0)
    flat = np.ones(3, np.float32)
    nothing.add_to(flat, 5.0)
    assert flat.tolist() == [1, 1, 1]
    assert one.part(np.array([False, True, False])).pieces[0].variable == slice(1, 3)


def test_values_of_ones_own() -> None:
    one, mask = gradient([1.0, 2.0, 3.0]), np.array([True, False, True])
    flat = np.zeros(3, np.float32)
    one.part(mask, np.array([10.0, 20.0, 30.0])).add_to(flat, 1.0)
    assert flat.tolist() == [10, 0, 30]


test_part_refused = refusals(
    gradient([1.0, 2.0, 3.0]).part,
    {"mask": np.ones(3, dtype=bool)},
    {
        "mask": {
            "give a boolean for each of the 3 values": [
                *(np.ones(2, dtype=bool), np.ones((3, 1), dtype=bool), np.ones(3)),
                *(np.ones(3, dtype=np.int64), [True, True, False], None),
            ]
        },
        "values": {r"values are of shape \(4,\); give as many .* 3": [np.ones(4)]},
    },
)


def test_bandwidth_is_bytes_over_seconds_of_the_latest_on_each_link() -> None:
    seen: list[Transfer] = []
    monitor = Monitor(0, seen)
    assert monitor.bandwidth_bps([1, 2]) == {1: None, 2: None}
    seen += [Transfer(0, 1, "gradient", 100.0 * at, 0.0, 1.0) for at in range(1, LATEST + 3)]
    seen += [
        Transfer(1, 0, "gradient", 1e9, 0.0, 1.0),  # towards this node
        Transfer(0, 2, "power", 0.0, 0.0, 1.0),  # without a size
        Transfer(0, 2, "gradient", 10.0, 1.0, 1.0),  # without a time
    ]
    latest = sum(100.0 * at for at in range(3, LATEST + 3))
    assert monitor.bandwidth_bps([1, 2]) == {1: pytest.approx(8 * latest / LATEST), 2: None}
    assert seen == []
    assert monitor.bandwidth_bps([1, 3]) == {1: pytest.approx(8 * latest / LATEST), 3: None}
