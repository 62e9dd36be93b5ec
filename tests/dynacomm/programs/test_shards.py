"""Models shared out over servers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dynacomm.jobs import whole_layers
from workbench.dynacomm.programs.shards import Shards, split_evenly


def test_an_even_split_by_hand() -> None:
    shards = split_evenly(2, 2, (0, 4, 7))
    assert (shards.servers, shards.layers) == (2, 2)
    assert shards.slices(0, 1, 2) == [slice(0, 2), slice(4, 6)]
    assert shards.slices(1, 1, 2) == [slice(2, 4), slice(6, 7)]
    assert shards.slices(1, 2, 2) == [slice(6, 7)]


def test_whole_layers_by_hand() -> None:
    shards = whole_layers([1, 0, 1], 2, (0, 4, 7, 9))
    assert shards.slices(0, 1, 3) == [slice(4, 7)]
    assert shards.slices(1, 1, 3) == [slice(0, 4), slice(7, 9)]
    assert shards.slices(0, 1, 1) == []


@given(sizes=st.lists(st.integers(0, 50), min_size=1, max_size=6), servers=st.integers(1, 5))
def test_every_element_has_one_server(sizes: list[int], servers: int) -> None:
    starts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    shards = split_evenly(len(sizes), servers, starts)
    held = np.zeros(starts[-1])
    for server in range(servers):
        for where in shards.slices(server, 1, len(sizes)):
            held[where] += 1
    assert (held == 1).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: whole_layers([0, 0, 2], 3), "server 1 of 3 would hold no layer of 3"),
        (lambda: split_evenly(0, 2), "layers is 0; it must be a whole number of at least 1"),
        (lambda: split_evenly(2, 0), "servers is 0; it must be a whole number of at least 1"),
        (lambda: split_evenly(2, 1, (0, 3)), "starts has 2 bounds for 2 layers"),
        (lambda: Shards(np.array([[0.5, 1.0], [0.4, 0.0]])), "shared out whole"),
        (lambda: Shards(np.array([[1.5, 1.0], [-0.5, 0.0]])), "in shares from 0 to 1"),
    ],
)
def test_what_leaves_a_layer_or_a_server_out_is_refused(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        make()
