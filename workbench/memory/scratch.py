"""What a kernel allocates while it runs, beside the places that its results are written to.

Of PyTorch 2.13 on a CPU with AVX2, as its allocator counts; at most, except for a few bytes.
oneDNN lays images out with channels in blocks of eight, so a convolution holds copies of what it
reads and makes; what cannot write in place makes its results a second time.
"""

from __future__ import annotations

import math

import torch

from workbench.graphs.graph import Operator, View
from workbench.graphs.optimiser.convolutions import convolve
from workbench.memory.kernels import is_writing

_aten = torch.ops.aten
_BLOCK = 8
_NUMBERS = 512
"""Bytes of a few numbers that almost any kernel holds: a bias, statistics."""
_REORDERS = 32 * 1024
"""And of small tensors that a convolution lays out in another way."""
_FEW_PIXELS = 16
"""Of an output, below which oneDNN keeps more copies of a weight's gradient."""
_SMALL = 20480
"""Numbers of an image for which PyTorch does not take oneDNN's convolution, if it is alone."""

_TILES = 16 * 1024
"""And of the tile that attention is computed by."""
_DENSE = (
    _aten.native_layer_norm,
    _aten.native_layer_norm_backward,
    _aten._scaled_dot_product_flash_attention_for_cpu,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward,
)
"""Kernels that copy what they read, unless it is contiguous."""


def scratch_bytes(operator: Operator) -> int:
    """Most bytes that an operator's kernel allocates."""
    return _of_images(operator) + (_REORDERS if "conv" in operator.name else _NUMBERS)


def _of_images(operator: Operator) -> int:
    function = operator.function
    packet = getattr(function, "_overloadpacket", None)
    reads, made = operator.reads, sum(map(_bytes, operator.results))
    if function is convolve or packet is _aten.convolution:
        image, weight, result = reads[0], reads[1], operator.results[0]
        size = _blocked(result) + max(_bytes(result), _blocked(image)) + _blocked_weight(weight)
        if packet is _aten.convolution and operator.arguments[0][6]:  # transposed
            size += _blocked(result)
        return max(size, made + _patches(image, weight, result))
    if packet is _aten.convolution_backward:
        return _convolution_backward(operator)
    if packet is _aten.native_batch_norm_backward:
        return made + _bytes(reads[0])
    if packet is _aten.native_batch_norm:
        held = sum(map(_bytes, reads[1:]))
        return held if _is_dense(reads[0]) else held + made
    copied = 0
    if operator.name.startswith("as_strided"):
        copied = sum(map(_bytes, reads))
    elif packet is _aten.mkldnn_rnn_layer:
        copied = 2 * sum(map(_bytes, reads))
    elif packet in _DENSE:
        copied = sum(_bytes(read) for read in reads if not _is_dense(read)) + _TILES
    elif is_writing(function):
        return 0
    return made + copied


def _convolution_backward(operator: Operator) -> int:
    """Gradients of image, weight and bias; of the first layer not that of the image."""
    output, image, weight = operator.reads[:3]
    made = sum(map(_bytes, operator.results))
    of_image = bool(operator.arguments[0][-1][0])
    before, after = _blocked(image), _blocked(output)
    weights = _blocked_weight(weight) + _bytes(weight)
    if math.prod(output.shape[2:]) < _FEW_PIXELS:
        weights += 3 * _bytes(weight)
    size = max(before, after) + weights + (2 * before if of_image else after)
    return max(size, made + _patches(image, weight, output))


def _patches(image: View, weight: View, result: View) -> int:
    """Bytes of the columns of a matrix by which PyTorch convolves one small image."""
    if image.shape[0] > 1 or math.prod(image.shape) > _SMALL or max(weight.shape[2:]) > 3:
        return 0
    return math.prod(weight.shape[1:]) * math.prod(result.shape[2:]) * _itemsize(image)


def _blocked(image: View) -> int:
    """Bytes of an image in oneDNN's layout."""
    count, channels, *sides = image.shape
    return count * _whole_blocks(channels) * math.prod(sides) * _itemsize(image)


def _blocked_weight(weight: View) -> int:
    out, into, *sides = weight.shape
    return _whole_blocks(out) * _whole_blocks(into) * math.prod(sides) * _itemsize(weight)


def _whole_blocks(channels: int) -> int:
    return math.ceil(channels / _BLOCK) * _BLOCK


def _bytes(view: View) -> int:
    return math.prod(view.shape) * _itemsize(view)


def _itemsize(view: View) -> int:
    dtype: torch.dtype = getattr(torch, view.dtype)
    return dtype.itemsize


def _is_dense(view: View) -> bool:
    """Whether it is contiguous, in the order of its axes."""
    strides = [math.prod(view.shape[axis + 1 :]) for axis in range(len(view.shape))]
    return list(view.strides) == strides
