"""Seconds per layer of one model on one machine at one batch size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from workbench.profiles.model_profile import ModelProfile, check_layers, load_frame, save_frame

SCHEMA = {
    "layer": pl.String,
    "forward_s": pl.Float64,
    "backward_s": pl.Float64,
    "update_s": pl.Float64,
    "forward_iqr_s": pl.Float64,
    "backward_iqr_s": pl.Float64,
    "update_iqr_s": pl.Float64,
}

KIND = "a table of layer times"


@dataclass(frozen=True, eq=False)
class LayerTimes:
    """How long each layer computes for one batch, measured or derived.

    Attributes
    ----------
    name
        The model's name.
    batch_size
        Samples in the batch.
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
    """

    name: str
    batch_size: int
    device: str
    table: pl.DataFrame
    iteration_s: float | None = None
    iteration_iqr_s: float | None = None

    def __post_init__(self) -> None:
        check_batch_size(self.batch_size)
        if dict(self.table.schema) != SCHEMA:
            raise ValueError(
                f"layer times have the columns {SCHEMA}, not {dict(self.table.schema)}"
            )
        check_layers(self.table)
        if self.iteration_s is not None and not 0 < self.iteration_s < math.inf:
            raise ValueError(f"iteration_s is {self.iteration_s}, not a positive number of seconds")

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers, first layer first."""
        return tuple(self.table["layer"])

    @property
    def forward_s(self) -> float:
        """Seconds of all layers' forward passes."""
        return float(self.table["forward_s"].sum())

    @property
    def backward_s(self) -> float:
        """Seconds of all layers' backward passes."""
        return float(self.table["backward_s"].sum())

    @property
    def update_s(self) -> float:
        """Seconds of all layers' updates."""
        return float(self.table["update_s"].sum())

    @property
    def layers_over_iteration(self) -> float | None:
        """Sum of the layers' forward and backward over the whole iteration; 1 is perfect."""
        if self.iteration_s is None:
            return None
        return (self.forward_s + self.backward_s) / self.iteration_s

    def __len__(self) -> int:
        return len(self.table)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LayerTimes)
            and self._about() == other._about()
            and self.table.equals(other.table)
        )

    def __hash__(self) -> int:
        return hash((self.name, self.batch_size, self.device, self.layers))

    @classmethod
    def from_flops(
        cls,
        profile: ModelProfile,
        *,
        flops_per_s: float,
        batch_size: int,
        backward_over_forward: float | None = None,
    ) -> LayerTimes:
        """Times of a machine that is not at hand: seconds proportional to FLOPs.

        Parameters
        ----------
        profile
            The model.
        flops_per_s
            What the machine sustains.
        batch_size
            Samples in the batch.
        backward_over_forward
            Seconds backward over seconds forward, the same for every layer; None takes the
            backward FLOPs as they are counted.

        Notes
        -----
        The update takes two FLOPs a parameter of four bytes.
        """
        check_batch_size(batch_size)
        for what, number in (
            ("flops_per_s", flops_per_s),
            ("backward_over_forward", backward_over_forward),
        ):
            if number is not None and not 0 < number < math.inf:
                raise ValueError(f"{what} is {number}, not a positive number")
        forward_s = pl.col("forward_flops") * (batch_size / flops_per_s)
        backward_s = (
            pl.col("backward_flops") * (batch_size / flops_per_s)
            if backward_over_forward is None
            else forward_s * backward_over_forward
        )
        table = profile.table.select(
            "layer",
            forward_s=forward_s,
            backward_s=backward_s,
            update_s=pl.col("param_bytes") / 4 * 2 / flops_per_s,
            forward_iqr_s=0.0,
            backward_iqr_s=0.0,
            update_iqr_s=0.0,
        )
        return cls(profile.name, batch_size, "analytic", table)

    def save(self, path: Path | str) -> None:
        """Write the times to a parquet file; all but the table goes into its metadata."""
        save_frame(path, self.table, self._about(), KIND)

    @classmethod
    def load(cls, path: Path | str) -> LayerTimes:
        """Read times that `save` wrote.

        Raises
        ------
        ValueError
            The parquet file holds something else.
        """
        table, about = load_frame(path, KIND)
        return cls(table=table, **about)  # type: ignore[arg-type]

    def _about(self) -> dict[str, object]:
        return {
            "name": self.name,
            "batch_size": self.batch_size,
            "device": self.device,
            "iteration_s": self.iteration_s,
            "iteration_iqr_s": self.iteration_iqr_s,
        }


def check_batch_size(batch_size: object) -> None:
    """Refuse a batch size that is not a positive whole number."""
    if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
        raise ValueError(f"batch_size is {batch_size!r}, not a whole number of at least 1")
