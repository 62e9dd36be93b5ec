"""A convolution that adds and clips: what fusions put in the place of several operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Form(NamedTuple):
    """How a convolution steps over its image."""

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    groups: int


def convolve(
    image: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    form: Form,
    *,
    added: Tensor | None = None,
    relu: bool = False,
) -> Tensor:
    """Return a convolution, plus `added` if given, clipped at zero if asked."""
    result = torch.nn.functional.conv2d(image, weight, bias, *form)
    result = result if added is None else result + added
    return result.relu_() if relu else result


class Norm(NamedTuple):
    """A batch normalisation in inference; scale and shift are None where it has none."""

    scale: Tensor | None
    shift: Tensor | None
    mean: Tensor
    variance: Tensor
    eps: float

    @property
    def factor(self) -> Tensor:
        """What a channel is multiplied by."""
        factor = torch.rsqrt(self.variance + self.eps)
        return factor if self.scale is None else factor * self.scale


def folded_weight(weight: Tensor, norm: Norm) -> Tensor:
    """Weight of a convolution that does the normalisation after it, too."""
    return weight * norm.factor.reshape(-1, *[1] * (weight.dim() - 1))


def folded_bias(bias: Tensor | None, norm: Norm) -> Tensor:
    """Bias of such a convolution."""
    found = ((0 if bias is None else bias) - norm.mean) * norm.factor
    return found if norm.shift is None else found + norm.shift
