"""A few bits a value: near, stable, and cheap as said."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workbench.training import quantise

VALUES = st.lists(
    st.floats(-1e6, 1e6, width=32) | st.sampled_from([0.0, 1.0, 1e-30, 3e38]),
    min_size=1,
    max_size=40,
)
BITS = st.integers(1, 16)


@given(VALUES, BITS)
def test_no_value_moves_by_more_than_half_a_step(values: list[float], bits: int) -> None:
    tensor = torch.tensor(values)
    found = quantise(tensor, bits).values
    exact = tensor.double()
    step = float(exact.max() - exact.min()) / (2**bits - 1)
    rounding = np.spacing(np.abs(tensor.numpy()).max()).astype(float)
    moved = (found.double() - exact).abs()
    assert float(moved.max()) <= step / 2 * (1 + 1e-9) + rounding
    assert found.min() == tensor.min()
    assert found.max() == tensor.max()


@given(VALUES, BITS)
def test_at_most_so_many_levels_and_again_the_same(values: list[float], bits: int) -> None:
    once = quantise(torch.tensor(values), bits).values
    assert len(set(once.tolist())) <= 2**bits
    assert torch.equal(quantise(once, bits).values, once)


def test_by_hand() -> None:
    tensor = torch.tensor([0.0, 0.2, 0.4, 0.6, 1.5])
    found = quantise(tensor, 2)  # levels 0, 0.5, 1, 1.5
    assert found.values.tolist() == [0.0, 0.0, 0.5, 0.5, 1.5]
    assert found.size_bytes == math.ceil(5 * 2 / 8) + 2 * 4
    assert quantise(tensor, 1).values.tolist() == [0.0, 0.0, 0.0, 0.0, 1.5]


@pytest.mark.parametrize("bits", range(1, 17))
def test_bytes_and_constant_tensors(bits: int) -> None:
    constant = torch.full((3, 7), -0.1)
    values, size_bytes = quantise(constant, bits)
    assert torch.equal(values, constant)
    assert size_bytes == math.ceil(21 * bits / 8) + 8
    assert quantise(constant.double(), bits).size_bytes == math.ceil(21 * bits / 8) + 16


def test_back_propagation_goes_straight_through() -> None:
    tensor = torch.linspace(-1, 1, 9).requires_grad_()
    weights = torch.arange(9.0)
    torch.autograd.backward([(quantise(tensor, 3).values * weights).sum()])
    assert tensor.grad is not None
    assert torch.equal(tensor.grad, weights)
