"""A convolution that adds and clips while it writes: what fusions put in the place of several."""

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
    if not fits(image, weight):
        result = torch.nn.functional.conv2d(image, weight, bias, *form)
        result = result if added is None else result + added
        return result.relu_() if relu else result
    pointwise, last = torch.ops.mkldnn._convolution_pointwise, "relu" if relu else None
    way = (form.padding, form.stride, form.dilation, form.groups)
    if added is None:
        plain: Tensor = pointwise.default(image, weight, bias, *way, last or "none", [], None)
        return plain
    summed: Tensor = pointwise.binary(image, added, weight, bias, *way, "add", None, last, [], None)
    return summed


def convolve_into(
    result: Tensor,
    image: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    form: Form,
    *,
    added: Tensor | None = None,
    relu: bool = False,
) -> None:
    """As `convolve`, written into `result`, which may lie where `added` does."""
    if not fits(image, weight):
        result.copy_(convolve(image, weight, bias, form, added=added, relu=relu))
        return
    if added is None:
        result.zero_()
    elif added.data_ptr() != result.data_ptr():
        result.copy_(added)
    way = (form.padding, form.stride, form.dilation, form.groups)
    onto, last = torch.ops.mkldnn._convolution_pointwise_, "relu" if relu else None
    onto(result, image, weight, bias, *way, "add", None, last, [], None)


def fits(image: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN's convolution, which can add and clip, can do it."""
    return (
        torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and image.dtype == weight.dtype == torch.float32
        and image.dim() == weight.dim() == 4
        and image.device.type == "cpu"
    )


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
