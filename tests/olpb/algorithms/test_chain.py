"""The recurrent chain by a scan, step by step and by autograd: the same gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from workbench.olpb.algorithms.chain import BACKWARD, affine_scan, chain_gradients


def loss(states: Tensor) -> Tensor:
    return states[-1].square().sum() + states.sin().mean()


@pytest.mark.parametrize("backward", BACKWARD)
@given(
    st.integers(1, 40),
    st.integers(1, 3),
    st.builds(dict, nonlinearity=st.sampled_from(["tanh", "relu"]), bias=st.booleans()),
    st.integers(1, 50),
)
@settings(max_examples=20, deadline=None)
def test_gradients_are_those_of_autograd(
    backward: str, steps: int, samples: int, options: dict[str, Any], at_once: int
) -> None:
    torch.manual_seed(2)
    rnn = nn.RNN(2, 4, dtype=torch.float64, **options)
    x = torch.randn(steps, samples, 2, dtype=torch.float64)
    found = chain_gradients(rnn, x, loss, backward, at_once)
    value = loss(rnn(x)[0])
    value.backward()  # type: ignore[no-untyped-call]
    assert found.loss == pytest.approx(value.item(), rel=1e-12)
    assert found.gradients.keys() == {name for name, _ in rnn.named_parameters()}
    for name, one in rnn.named_parameters():
        torch.testing.assert_close(found.gradients[name], one.grad, rtol=0, atol=1e-10)


@given(st.integers(0, 33), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_affine_maps(steps: int, seed: int) -> None:
    torch.manual_seed(seed)
    matrices, added = torch.randn(steps, 2, 3, 3).double(), torch.randn(steps, 2, 3).double()

    def combine(state: Tensor, step: tuple[Tensor, Tensor]) -> Tensor:
        return (step[0] @ state[..., None])[..., 0] + step[1]

    state, wanted = torch.zeros(2, 3).double(), []
    for step in zip(matrices, added, strict=True):
        state = combine(state, step)
        wanted.append(state)
    found = affine_scan(matrices, added)
    assert len(found) == steps
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_a_thousand_steps_in_single_precision() -> None:
    torch.manual_seed(4)
    rnn, x = nn.RNN(2, 8), torch.randn(1000, 1, 2)
    found = chain_gradients(rnn, x, loss)
    # The same computation in double precision, to what single precision holds of a sum of 1,000.
    wide = chain_gradients(rnn.double(), x.double(), loss, "sequential")
    for name, one in wide.gradients.items():
        torch.testing.assert_close(found.gradients[name].double(), one, rtol=1e-3, atol=1e-4)


def test_refusals() -> None:
    x = torch.zeros(3, 1, 2)
    with pytest.raises(ValueError, match=r"a chain is an nn\.RNN, not LSTM"):
        chain_gradients(nn.LSTM(2, 3), x, loss)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is no chain"):
        chain_gradients(nn.RNN(2, 3, 2), x, loss)
    with pytest.raises(ValueError, match=r"x has shape \(3, 1, 2\)"):
        chain_gradients(nn.RNN(5, 3), x, loss)
    with pytest.raises(ValueError, match="both must be of the same"):
        chain_gradients(nn.RNN(2, 3), x.double(), loss)
    with pytest.raises(ValueError, match="unknown backward pass"):
        chain_gradients(nn.RNN(2, 3), x, loss, "parallel")
    with pytest.raises(ValueError, match="at_once is 0"):
        chain_gradients(nn.RNN(2, 3), x, loss, at_once=0)
    with pytest.raises(ValueError, match="the loss is nan"):
        chain_gradients(nn.RNN(2, 3), x * torch.nan, loss)
