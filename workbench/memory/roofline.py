"""Seconds of a plan's operators on this machine: arithmetic, memory moved, and a call each.

A roofline of three numbers, fitted to three kernels of PyTorch: a convolution, an addition of
arrays too large for a cache, and one of single numbers. An operator takes as long as the slower of
its arithmetic and its traffic (Williams et al. 2009), and what it costs to call.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.memory.dataflow import Dataflow


class Roofline(NamedTuple):
    """FLOPs and bytes a second, and seconds that a call costs."""

    flops_per_s: float
    bytes_per_s: float
    call_s: float

    def step_s(self, flow: Dataflow) -> NDArray[np.float64]:
        """Seconds of each step: (steps,)."""
        flops = np.array([step.flops for step in flow.steps], float)
        moved = np.array(
            [flow.sizes[[*step.reads, *step.makes]].sum() for step in flow.steps], float
        )
        slower = np.maximum(flops / self.flops_per_s, moved / self.bytes_per_s)
        return np.asarray(slower + self.call_s)

    def seconds(self, flow: Dataflow) -> float:
        """Seconds of all steps, one after the other."""
        return float(self.step_s(flow).sum())


@cache
def this_machine() -> Roofline:
    """Fit the roofline of this machine, once a process; half a second."""
    import torch

    with torch.no_grad():
        image, weight = torch.randn(8, 64, 32, 32), torch.randn(64, 64, 3, 3)
        flops = 2 * image.numel() * weight[:, 0].numel()
        arithmetic_s = _median_s(lambda: torch.conv2d(image, weight, padding=1))
        large = torch.zeros(2, 2**22)
        moving_s = _median_s(lambda: torch.add(large[0], 1, out=large[1]))
        small = torch.zeros(2, 1)
        call_s = _median_s(lambda: torch.add(small[0], 1, out=small[1]), 200)
    return Roofline(flops / arithmetic_s, large.nbytes / moving_s, call_s)


def _median_s(run: Callable[[], object], repeats: int = 15) -> float:
    def seconds() -> float:
        began_s = time.perf_counter()
        run()
        return time.perf_counter() - began_s

    seconds()
    return statistics.median(seconds() for _ in range(repeats))
