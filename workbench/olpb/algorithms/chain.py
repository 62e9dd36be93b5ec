"""The long chain of a recurrent network: a scan in logarithmic depth by batched matrix products.

A step's transposed Jacobian is dense and small: J_t^T = U^T diag(s_t), with s_t the slope of the
activation at step t. Steps with a loss of their own add to the gradient, so an element of the scan
is an affine map, g -> A g + a. Neighbours are paired until one is left, and states are filled in
on the way back (Blelloch's two sweeps). Up to T - 1 matrix products of 2 H^3 FLOPs a sample are
made on the way up, where sequential back-propagation makes T products with a vector, of 2 H^2: H
times the work for 2 log T steps instead of T. That pays where a step is too small to keep a
processor busy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from workbench.checks import check_whole
from workbench.errors import UserError
from workbench.names import choose

AT_ONCE_BYTES = 4 << 20
"""Of the matrices of steps that are scanned at once by default: about what a cache holds."""

Backward = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Gradients at all steps, last one first, from U, slopes and what losses add, in that order.

Axes: step, sample, hidden unit.
"""


@dataclass(frozen=True, eq=False)
class ChainGradients:
    """Gradients by the module's names of its parameters, and the loss."""

    gradients: dict[str, Tensor]
    loss: float


def chain_gradients(
    rnn: nn.RNN,
    x: Tensor,
    loss: Callable[[Tensor], Tensor],
    backward: str = "scan",
    at_once: int | None = None,
) -> ChainGradients:
    """Gradients of a vanilla recurrent network in its own precision.

    Parameters
    ----------
    rnn
        Of one layer and direction, with tanh or relu.
    x
        Of shape (steps, samples, inputs).
    loss
        Of the hidden states, of shape (steps, samples, hidden units).
    backward
        A name in `BACKWARD`.
    at_once
        Steps that are scanned at once; stretches of so many follow one another. By default as many
        as have matrices of `AT_ONCE_BYTES`.

    Raises
    ------
    ValueError
        Another kind of network, an input that does not fit, or an unknown name.
    """
    run = choose("backward pass", backward, BACKWARD)
    _check(rnn, x)
    if at_once is None:
        matrices_bytes = x.shape[1] * rnn.hidden_size**2 * x.element_size()
        at_once = max(AT_ONCE_BYTES // max(matrices_bytes, 1), 64)
    at_once = check_whole("at_once", at_once, 1)
    weight = rnn.weight_hh_l0
    assert isinstance(weight, Tensor)
    with torch.no_grad():
        states, _ = rnn(x)
    leaf = states.detach().requires_grad_()
    with torch.enable_grad():
        value = loss(leaf)
    if not torch.isfinite(value).all():
        raise UserError(f"the loss is {value.item():g}; gradients of it are no numbers")
    (added,) = torch.autograd.grad(value, leaf)
    with torch.no_grad():
        slopes = 1 - states.square() if rnn.nonlinearity == "tanh" else (states > 0).to(x.dtype)
        found, after = [], torch.zeros_like(states[:1])
        after_slopes = torch.zeros_like(states[:1])
        for end in range(len(x), 0, -at_once):
            part = slice(max(end - at_once, 0), end)
            above = torch.cat([slopes[part][1:], after_slopes]).flip(0)
            direct = added[part].flip(0)
            direct[0] += (after[0] * above[0]) @ weight
            found.append(run(weight, above, direct).flip(0))
            after, after_slopes = found[-1][:1], slopes[part][:1]
        deltas = torch.cat(found[::-1]) * slopes
        before = torch.cat([torch.zeros_like(states[:1]), states[:-1]])
        of_biases = deltas.sum((0, 1))
        gradients = {
            "weight_ih_l0": torch.tensordot(deltas, x, ([0, 1], [0, 1])),
            "weight_hh_l0": torch.tensordot(deltas, before, ([0, 1], [0, 1])),
            "bias_ih_l0": of_biases,
            "bias_hh_l0": of_biases.clone(),
        }
    named = {name for name, _ in rnn.named_parameters()}
    return ChainGradients({k: one for k, one in gradients.items() if k in named}, value.item())


def affine_scan(matrices: Tensor, added: Tensor) -> Tensor:
    """States g_k = A_k g_(k-1) + a_k from g_0 = a_0, in logarithmic depth.

    Axes of the matrices: step, sample, hidden unit twice; the first step's is not read.
    """
    if len(added) < 2:
        return added
    pairs = len(added) // 2 * 2
    seconds = matrices[1:pairs:2]
    joined = affine_scan(
        _product(seconds, matrices[:pairs:2]), _applied(seconds, added[:pairs:2]) + added[1:pairs:2]
    )
    found = torch.empty_like(added)
    found[0], found[1:pairs:2] = added[0], joined
    firsts = matrices[2::2]
    found[2::2] = _applied(firsts, joined[: len(firsts)]) + added[2::2]
    return found


def _applied(matrices: Tensor, vectors: Tensor) -> Tensor:
    return _product(matrices, vectors.unsqueeze(-1)).squeeze(-1)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """On a CPU by NumPy, which multiplies many small matrices several times faster than PyTorch."""
    if left.device.type != "cpu":
        return left @ right
    return torch.from_numpy(np.matmul(left.numpy(), right.numpy()))


def _scan(weight: Tensor, slopes: Tensor, added: Tensor) -> Tensor:
    return affine_scan(weight.T * slopes.unsqueeze(-2), added)


def _sequential(weight: Tensor, slopes: Tensor, added: Tensor) -> Tensor:
    """Step by step, each as one product of a batch of vectors with a matrix."""
    found = torch.empty_like(added)
    gradient = found[0] = added[0]
    for step in range(1, len(added)):
        gradient = torch.addmm(added[step], gradient * slopes[step], weight, out=found[step])
    return found


BACKWARD: Mapping[str, Backward] = {"scan": _scan, "sequential": _sequential}
"""By name: in logarithmic depth, or one step after the other."""


def _check(rnn: nn.RNN, x: Tensor) -> None:
    if not isinstance(rnn, nn.RNN) or rnn.mode not in ("RNN_TANH", "RNN_RELU"):
        raise UserError(f"a chain is an nn.RNN, not {type(rnn).__name__}")
    if rnn.num_layers != 1 or rnn.bidirectional or rnn.batch_first:
        raise UserError(f"{rnn} is no chain: give one of one layer and direction, steps first")
    if x.dim() != 3 or x.shape[2] != rnn.input_size or not len(x):
        raise UserError(
            f"x has shape {tuple(x.shape)}; it must be (steps, samples, {rnn.input_size})"
        )
    weight = rnn.weight_hh_l0
    if weight.dtype not in (torch.float32, torch.float64) or x.dtype != weight.dtype:
        raise UserError(
            f"x is of {x.dtype} and the network of {weight.dtype}; both must be of the same, "
            "float32 or float64"
        )
