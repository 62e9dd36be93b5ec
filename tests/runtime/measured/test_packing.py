"""What is pickled for another process is the same there, strides and shared memory included."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.dynacomm.trainings import LENET, replicas
from workbench.runtime.measured.packing import dumps, loads, pack, unpack
from workbench.training.repeatable import fixed_threads


def sent(value: Any) -> Any:
    """A value as it arrives: its pieces are bytes of another process's memory."""
    return unpack([bytearray(piece) for piece in pack(value).pieces])


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """Arrays of any type, shape and order, and views of them."""
    kinds = hnp.scalar_dtypes() | hnp.array_dtypes() | hnp.unicode_string_dtypes()
    array = draw(hnp.arrays(draw(kinds), hnp.array_shapes(min_dims=0, min_side=0)))
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    steps = st.sampled_from([1, 2, -1])
    return array[tuple(slice(None, None, draw(steps)) for _ in range(array.ndim))]


@pytest.mark.parametrize("by", [sent, lambda value: loads(dumps(value))])
@given(array=arrays())
def test_arrays_are_the_same(by: Any, array: Any) -> None:
    found = by(array)
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()
    assert found.flags.writeable == array.flags.writeable


@pytest.mark.parametrize("by", [sent, lambda value: loads(dumps(value))])
def test_strides_stay_where_pickle_would_change_them(by: Any) -> None:
    """Kernels choose their way by strides, even by those of axes of length 1."""
    images = np.broadcast_to(np.ones((4, 1, 3, 2), np.float32), (4, 1, 3, 2))
    images = np.lib.stride_tricks.as_strided(images, strides=(24, 0, 8, 4))
    assert by(images).strides == (24, 0, 8, 4)
    tensor = torch.from_numpy(images.copy()).as_strided((4, 1, 3, 2), (6, 1, 2, 1))
    assert by(tensor).stride() == (6, 1, 2, 1)


def test_of_a_view_only_what_it_shows_travels() -> None:
    whole = torch.zeros(100_000)
    assert pack(whole[10:20]).size_bytes < 1_000
    assert pack(np.zeros((1_000, 100))[:, 3]).size_bytes < 10_000


def test_arrays_are_not_copied() -> None:
    array = np.zeros(1_000)
    packed = pack([array])
    array[0] = 7
    assert np.frombuffer(packed.pieces[1])[0] == 7


def test_what_arrives_may_be_written_to() -> None:
    for value in (torch.zeros(3), np.zeros(3)):
        found = sent(value)
        found += 1
        assert found.tolist() == [1, 1, 1]


def test_tensors_of_a_program_share_memory_as_they_did() -> None:
    whole = torch.arange(6.0)
    vector, part, matrix = loads(dumps((whole, whole[2:4], whole.view(2, 3).t())))
    vector[3] = 9
    assert part.tolist() == [2, 9]
    assert matrix[0, 1] == 9


def test_parameters_and_gradients_are_tensors_again() -> None:
    layer = torch.nn.Linear(2, 3)
    found = loads(dumps(layer))
    assert all(parameter.requires_grad for parameter in found.parameters())
    assert torch.equal(found.weight, layer.weight)


def test_a_pickled_replica_learns_the_same_bits() -> None:
    with fixed_threads():
        (replica,) = replicas(replace(LENET, workers=1).programs())
        other = loads(dumps(replica))
        losses = [[one.learn(number) for number in range(2)] for one in (replica, other)]
    assert torch.equal(replica.flat.gradients, other.flat.gradients)
    assert losses[0] == losses[1]
