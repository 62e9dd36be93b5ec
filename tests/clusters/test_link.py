import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from workbench.clusters import Link, Schedule, load_testbed
from workbench.names import UnknownNameError


def test_transfer_by_hand() -> None:
    link = Link(bandwidth_bps=8e6, overhead_s=0.5, tensor_s=0.25)
    assert link.transfer_s([1_000_000, 500_000]) == 1.5 + 2 * 0.25  # the overhead is apart
    assert link.transfer_s([]) == 0


def test_tensors_below_the_split_bound_get_a_share_of_the_bandwidth() -> None:
    link = Link(bandwidth_bps=8e6, split_bytes=1_000_000, whole_share=0.5)
    assert link.transfer_s([1_000_000]) == 1.0
    assert link.transfer_s([999_999]) == pytest.approx(2 * 0.999999)


def test_bandwidth_over_time_is_given_as_pairs_or_as_a_schedule() -> None:
    pairs = [(0, 1e6), (1, 2e6)]
    link = Link(bandwidth_bps=pairs)
    assert link == Link(Schedule.of(pairs)) == Link(np.array(pairs))  # type: ignore[arg-type]
    assert hash(link) == hash(Link(Schedule.of(pairs)))
    assert link.bandwidth == Schedule.of(pairs)
    assert link.transfer_s([250_000]) == 1.5
    assert str(link).startswith("1 to 2 Mbit/s in 2 steps")
    assert replace(link, overhead_s=1.0).bandwidth == link.bandwidth
    assert Link(8e6).bandwidth == Link(np.int64(8_000_000)).bandwidth == 8e6  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bandwidth_bps": 0}, "above 0 bits per second"),
        ({"bandwidth_bps": -1}, "above 0 bits per second"),
        ({"bandwidth_bps": math.nan}, "above 0 bits per second"),
        ({"overhead_s": -0.1}, "overhead_s is -0.1"),
        ({"overhead_s": math.inf}, "overhead_s is inf"),
        ({"tensor_s": math.nan}, "tensor_s is nan"),
        ({"whole_share": 0}, "whole_share is 0"),
        ({"whole_share": 1.5}, "whole_share is 1.5"),
        ({"whole_share": "1"}, "whole_share is '1'; give a number"),
        ({"split_bytes": -1}, "split_bytes is -1; it must be at least 0"),
        ({"split_bytes": math.nan}, "split_bytes is nan"),
        ({"overhead_s": "0.1"}, "overhead_s is '0.1'; give a number"),
        ({"latency_s": [1]}, r"latency_s is \[1\]; give a number"),
        ({"bandwidth_bps": "1e6"}, "bandwidth_bps: '1e6' is no schedule; give a number, pairs"),
        ({"bandwidth_bps": None}, "bandwidth_bps: None is no schedule"),
        ({"bandwidth_bps": True}, "bandwidth_bps is True; give a number"),
        ({"bandwidth_bps": [1e6, 2e6]}, "bandwidth_bps: .* give pairs of"),
        ({"bandwidth_bps": [(1, 1e6)]}, "bandwidth_bps: the schedule starts at 1.0 s"),
        ({"bandwidth_bps": lambda t: 1e6}, "bandwidth_bps: .* Schedule.sampled"),
    ],
)
def test_links_that_make_no_sense_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Link(**({"bandwidth_bps": 1e6} | change))


@pytest.mark.parametrize("link", [Link(1e6), Link([(0, 1e6), (5, 2e6)])], ids=["fixed", "varying"])
@pytest.mark.parametrize(
    ("tensor_bytes", "start_s", "message"),
    [
        (5, 0, r"tensor_bytes is 5; give the bytes of each tensor, such as \[5e6\]"),
        (None, 0, "tensor_bytes is None; give the bytes"),
        ("5", 0, "tensor_bytes is '5'; give the bytes"),
        ({5, 7}, 0, "tensor_bytes is {5, 7}, where order counts"),
        ([1, "5"], 0, "the size of tensor 1 is '5'; give a number"),
        ([[1], 5], 0, r"the size of tensor 0 is \[1\]; give a number"),
        ([-5], 0, "the size of tensor 0 is -5; bytes are finite and not negative"),
        ([5, math.nan], 0, "the size of tensor 1 is nan; bytes are finite"),
        ([math.inf], 0, "the size of tensor 0 is inf"),
        ([1e308, 1e308], 0, "2 tensors have more bits than a float holds"),
        ([5], -1, "start_s is -1; it must be finite and at least 0"),
        ([5], math.nan, "start_s is nan"),
        ([5], "x", "start_s is 'x'; give a number"),
    ],
)
def test_transfers_that_cannot_be_are_refused(
    link: Link, tensor_bytes: Any, start_s: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        link.transfer_s(tensor_bytes, start_s)


def test_testbed_of_the_paper() -> None:
    stated = load_testbed("dynacomm")
    assert (stated["workers"]["count"], stated["servers"]["count"]) == (8, 4)


def test_unknown_testbed_names_the_right_ones() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'dynacomm'"):
        load_testbed("dynacom")


def test_numbers_of_another_precision_become_floats() -> None:
    numbers: dict[str, Any] = {"bandwidth_bps": np.float32(1e4), "latency_s": np.float16(0.5)}
    link = Link(**numbers)
    assert link == Link(1e4, latency_s=0.5)
    assert {type(link.bandwidth), type(link.latency_s)} == {float}
