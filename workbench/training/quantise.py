"""Features in a few bits: what JALAD sends between edge and cloud.

Li et al., "JALAD: Joint Accuracy- and Latency-Aware Deep Structure Decoupling for Edge-Cloud
Execution", 2018, as HierTrain's baseline has it (Liu et al. 2020, VI-C, c = 8 bits).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from workbench.utils.checks import UserError

if TYPE_CHECKING:
    from torch import Tensor

BITS = range(1, 17)


class Quantised(NamedTuple):
    """A tensor as its receiver sees it, of at most 2^c different values, and its size in transit.

    The size is c bits a value, rounded up to whole bytes, plus the smallest and the largest value.
    """

    values: Tensor
    size_bytes: int


def quantise(tensor: Tensor, bits: int) -> Quantised:
    """Round every value to the nearest of 2^c levels, evenly from the smallest to the largest.

    No value moves by more than half a step, ``(max - min) / (2^c - 1) / 2``, but for the last
    rounding to the tensor's dtype; smallest and largest stay what they are, so that quantising
    again changes nothing. Back-propagation goes straight through, as if nothing were rounded.

    Deviation: JALAD then codes the levels by Huffman's method; here, as in HierTrain's model of
    it, a value takes c bits.

    `bits` is c, from 1 to 16; the tensor has at least one value, in floating point, all finite.
    """
    import torch

    if isinstance(bits, bool) or bits not in BITS:
        raise UserError(f"bits is {bits!r}; a value takes 1 to 16 bits")
    if not tensor.is_floating_point() or not tensor.numel():
        raise UserError(
            f"{tensor.dtype} of shape {tuple(tensor.shape)} cannot be quantised; give at least "
            "one value in floating point"
        )
    exact = tensor.detach().double()
    low, high = exact.min(), exact.max()
    range_ = float(high - low)
    if not math.isfinite(range_):
        raise UserError(
            f"values from {float(low)} to {float(high)} cannot be quantised; they and their range "
            "must be finite"
        )
    steps = 2**bits - 1
    step = range_ / steps
    size_bytes = math.ceil(tensor.numel() * bits / 8) + 2 * tensor.element_size()
    if step == 0:  # one value only, which every level is
        return Quantised(tensor, size_bytes)
    levels = ((exact - low) / step).round()
    rounded = torch.where(levels >= steps, high, low + levels * step).to(tensor.dtype)
    # The difference is zero and its gradient one.
    return Quantised(rounded + (tensor - tensor.detach()), size_bytes)
