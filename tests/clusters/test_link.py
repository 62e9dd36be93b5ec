import math

import pytest

from workbench.clusters import Link, load_testbed
from workbench.names import UnknownNameError


def test_transfer_by_hand() -> None:
    link = Link(bandwidth_bps=8e6, overhead_s=0.5, tensor_s=0.25)
    assert link.transfer_s([1_000_000, 500_000]) == 1.5 + 2 * 0.25  # the overhead is apart
    assert link.transfer_s([]) == 0


def test_tensors_below_the_split_bound_get_a_share_of_the_bandwidth() -> None:
    link = Link(bandwidth_bps=8e6, split_bytes=1_000_000, whole_share=0.5)
    assert link.transfer_s([1_000_000]) == 1.0
    assert link.transfer_s([999_999]) == pytest.approx(2 * 0.999999)


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
    ],
)
def test_links_that_make_no_sense_are_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Link(**({"bandwidth_bps": 1e6} | change))  # type: ignore[arg-type]


def test_testbed_of_the_paper() -> None:
    stated = load_testbed("dynacomm")
    assert (stated["workers"]["count"], stated["servers"]["count"]) == (8, 4)


def test_unknown_testbed_names_the_right_ones() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'dynacomm'"):
        load_testbed("dynacom")
