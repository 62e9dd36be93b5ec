"""A convolution that adds and clips while it writes: what fusions put in the place of several."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_NOTHING_MORE = (None, None, [], None)


def convolve(
    image: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    added: Tensor | None = None,
    relu: bool = False,
) -> Tensor:
    """Return a convolution, plus `added` if given, clipped at zero if asked."""
    if not fits(image, weight):
        found = torch.nn.functional.conv2d(image, weight, bias, stride, padding, dilation, groups)
        found = found if added is None else found + added
        return found.relu_() if relu else found
    last = "relu" if relu else None
    form = (padding, stride, dilation, groups)
    if added is None:
        plain = torch.ops.mkldnn._convolution_pointwise.default
        return plain(image, weight, bias, *form, last or "none", [], None)  # type: ignore[no-any-return]
    adding = torch.ops.mkldnn._convolution_pointwise.binary
    return adding(image, added, weight, bias, *form, "add", None, last, [], None)  # type: ignore[no-any-return]


def convolve_into(
    result: Tensor,
    image: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    added: Tensor | None = None,
    relu: bool = False,
) -> None:
    """As `convolve`, written into `result`, which may lie where `added` does."""
    if not fits(image, weight):
        result.copy_(
            convolve(image, weight, bias, stride, padding, dilation, groups, added, relu)
        )
        return
    if added is None:
        result.zero_()
    elif added.data_ptr() != result.data_ptr():
        result.copy_(added)
    onto = torch.ops.mkldnn._convolution_pointwise_
    last = "relu" if relu else None
    onto(result, image, weight, bias, padding, stride, dilation, groups, "add", None, last, [], None)


def fits(image: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN's convolution, which can add and clip, can do it."""
    return (
        torch.backends.mkldnn.is_available()
        and image.dtype == weight.dtype == torch.float32
        and image.dim() == weight.dim() == 4
        and image.device.type == "cpu"
    )


def folded_weight(weight: Tensor, scale: Tensor | None, variance: Tensor, eps: float) -> Tensor:
    """Weight of a convolution that does the batch normalisation after it, too."""
    return weight * _factor(scale, variance, eps).reshape(-1, *[1] * (weight.dim() - 1))


def folded_bias(
    bias: Tensor | None,
    scale: Tensor | None,
    shift: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    eps: float,
) -> Tensor:
    """Bias of such a convolution."""
    found = ((0 if bias is None else bias) - mean) * _factor(scale, variance, eps)
    return found if shift is None else found + shift


def _factor(scale: Tensor | None, variance: Tensor, eps: float) -> Tensor:
    factor = torch.rsqrt(variance + eps)
    return factor if scale is None else factor * scale
