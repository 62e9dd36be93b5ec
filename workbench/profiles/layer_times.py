"""Seconds per layer of one model on one machine at one batch size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from workbench.profiles.model_profile import LayerTable, ModelProfile
from workbench.utils.checks import UserError, check_number, check_range, check_whole

SCHEMA = {
    "layer": pl.String,
    "forward_s": pl.Float64,
    "backward_s": pl.Float64,
    "update_s": pl.Float64,
    "forward_iqr_s": pl.Float64,
    "backward_iqr_s": pl.Float64,
    "update_iqr_s": pl.Float64,
}


MOST_OVERHEAD_S = 1e6


def work_s(flops_s: Any, moved_bytes: Any, *, bytes_per_s: float, overhead_s: Any) -> Any:
    """Seconds of work: its FLOPs, which take `flops_s`, then the bytes that it moves, its overhead.

    Numbers, arrays or polars expressions. Deviation: a roofline takes the longer of FLOPs and bytes
    (Williams et al. 2009); layers of phones that others measured are met better by the sum.
    """
    return flops_s + moved_bytes / bytes_per_s + overhead_s


@dataclass(frozen=True, eq=False)
class LayerTimes(LayerTable):
    """Seconds that each layer computes for one batch, measured or derived.

    Attributes
    ----------
    device
        Where it was measured (``"cpu"``, ``"cuda"``), or ``"analytic"``.
    table
        A row per layer, first layer first: ``layer``; ``forward_s``, ``backward_s`` and
        ``update_s`` (plain SGD step on the layer's parameters), medians in seconds for the whole
        batch; ``forward_iqr_s``, ``backward_iqr_s``, ``update_iqr_s``, their interquartile
        ranges over the repeats.
    iteration_s, iteration_iqr_s
        Forward and backward of the whole model, measured without looking at layers; None where
        nothing was measured.
    kernels
        What PyTorch computed with, such as ``"AVX512, 2 threads"``, or the GPU's name; empty where
        nothing was measured.
    """

    SCHEMA = SCHEMA
    KIND = "a table of layer times"

    name: str
    batch_size: int
    device: str
    table: pl.DataFrame
    iteration_s: float | None = None
    iteration_iqr_s: float | None = None
    kernels: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", check_whole("batch_size", self.batch_size, 1))
        super().__post_init__()
        if self.device != "analytic" and not self.forward_s + self.backward_s:
            raise UserError("all layers take 0 s, which no machine does: measure the times again")
        if self.iteration_s is not None and not 0 < self.iteration_s < math.inf:
            raise UserError(f"iteration_s is {self.iteration_s}, not a positive number of seconds")

    @cached_property
    def forward_s(self) -> float:
        """Seconds of all layers' forward passes."""
        return float(self.table["forward_s"].sum())

    @cached_property
    def backward_s(self) -> float:
        """Seconds of all layers' backward passes."""
        return float(self.table["backward_s"].sum())

    @cached_property
    def update_s(self) -> float:
        """Seconds of all layers' updates."""
        return float(self.table["update_s"].sum())

    @property
    def layers_over_iteration(self) -> float | None:
        """Sum of the layers' forward and backward over the whole iteration; 1 is perfect."""
        if self.iteration_s is None:
            return None
        return (self.forward_s + self.backward_s) / self.iteration_s

    @classmethod
    def from_flops(
        cls,
        profile: ModelProfile,
        *,
        flops_per_s: float,
        batch_size: int,
        backward_over_forward: float | None = None,
        bytes_per_s: float = math.inf,
        overhead_s: float = 0.0,
    ) -> LayerTimes:
        """Times of a machine that is not at hand, by `work_s`; by default proportional to FLOPs.

        Forward, a layer reads its parameters and its input, and writes its output; backward it
        moves twice as much in two passes, as it has two gradients; below the first trained layer
        there is no backward pass. The update takes two FLOPs a
        parameter of four bytes, which it reads, as it reads the gradient, and writes.

        Parameters
        ----------
        backward_over_forward
            Seconds backward over seconds forward, the same for every layer in which nothing is
            frozen, of others less by their FLOPs; None takes the backward FLOPs as they are
            counted.
        bytes_per_s, overhead_s
            What the machine's memory sustains; what each pass over a layer costs beside that.
        """
        batch_size = check_whole("batch_size", batch_size, 1)
        for what, number in (
            ("flops_per_s", flops_per_s),
            ("backward_over_forward", backward_over_forward),
            ("bytes_per_s", None if bytes_per_s == math.inf else bytes_per_s),
        ):
            if number is None and what != "flops_per_s":
                continue
            if not 0 < check_number(what, number) < math.inf:
                raise UserError(f"{what} is {number}, not a positive number")
        check_range("overhead_s", overhead_s, 0, MOST_OVERHEAD_S)
        forward_s = pl.col("forward_flops") * (batch_size / flops_per_s)
        backward_s = (
            pl.col("backward_flops") * (batch_size / flops_per_s)
            if backward_over_forward is None
            else forward_s * pl.Series(profile.backward_share) * backward_over_forward
        )
        before = pl.col("output_bytes").shift(1, fill_value=profile.sample_bytes)
        parameters = pl.col("param_bytes")
        moved = parameters + batch_size * (before + pl.col("output_bytes"))

        def seconds(flops_s: pl.Expr, moved_bytes: pl.Expr, passes: int) -> pl.Expr:
            whole: pl.Expr = work_s(
                flops_s, moved_bytes, bytes_per_s=bytes_per_s, overhead_s=passes * overhead_s
            )
            return whole

        trained = np.flatnonzero(profile.table["param_bytes"].to_numpy())
        has_backward = pl.int_range(pl.len()) >= (trained[0] if len(trained) else 0)
        table = profile.table.select(
            "layer",
            forward_s=seconds(forward_s, moved, 1),
            backward_s=has_backward * seconds(backward_s, 2 * moved, 2),
            update_s=seconds(parameters / 4 * 2 / flops_per_s, 3 * parameters, 1),
            forward_iqr_s=0.0,
            backward_iqr_s=0.0,
            update_iqr_s=0.0,
        )
        return cls(profile.name, batch_size, "analytic", table)
