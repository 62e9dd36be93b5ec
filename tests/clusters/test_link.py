import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.refusals import refusals
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


test_link_refused = refusals(
    Link,
    {"bandwidth_bps": 1e6},
    {
        "bandwidth_bps": {
            "above 0 bits per second": [0, -1, math.nan],
            "bandwidth_bps: '1e6' is not a schedule; give a number, pairs": ["1e6"],
            "bandwidth_bps: None is not a schedule": [None],
            "bandwidth_bps is True; give a number": [True],
            "bandwidth_bps: .* give pairs of": [[1e6, 2e6]],
            "bandwidth_bps: the schedule starts at 1.0 s": [[(1, 1e6)]],
            "bandwidth_bps: .* Schedule.sampled": [lambda t: 1e6],
        },
        "overhead_s": {"overhead_s is": [-0.1, math.inf, "0.1"]},
        "tensor_s": {"tensor_s is nan; it must be finite and at least 0": [math.nan]},
        "latency_s": {r"latency_s is \[1\]; give a number": [[1]]},
        "split_bytes": {"split_bytes is .*; it must be at least 0": [-1, math.nan]},
        "whole_share": {"whole_share is": [0, 1.5, "1"]},
    },
)


@pytest.mark.parametrize("link", [Link(1e6), Link([(0, 1e6), (5, 2e6)])], ids=["fixed", "varying"])
@pytest.mark.parametrize(
    ("tensor_bytes", "start_s"),
    [([-5], 0), ([5, math.nan], 0), ([math.inf], 0), ([1e308] * 2, 0), ([5], -1), ([5], math.nan)],
)
def test_transfers_that_cannot_be_are_refused(
    link: Link, tensor_bytes: list[float], start_s: float
) -> None:
    with pytest.raises(ValueError, match="sizes and the time are finite and not negative"):
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
