"""A link between two nodes and what a transfer over it takes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """One direction of a connection to a node, or to a group of servers that share a model.

    Parameters
    ----------
    bandwidth_bps
        Bits per second that a transfer gets.
    overhead_s
        Seconds that every transmission costs whatever its size: round trip, set-up, calls.
    tensor_s
        Seconds that every tensor costs on top of its bytes: look-up by key, serialisation.
    split_bytes
        Tensors of at least this size are split over all servers of a group and get the whole
        bandwidth; a smaller one lies on one server and gets `whole_share` of it. MXNet's
        key-value store splits from a million elements on, 4,000,000 bytes.
    whole_share
        In (0, 1]; 1, as by default, makes all tensors equal.

    Raises
    ------
    ValueError
        A bandwidth or share out of range, or a time that is negative or not finite.
    """

    bandwidth_bps: float
    overhead_s: float = 0.0
    tensor_s: float = 0.0
    split_bytes: int = 0
    whole_share: float = 1.0

    def __post_init__(self) -> None:
        if not self.bandwidth_bps > 0:
            raise ValueError(
                f"bandwidth_bps is {self.bandwidth_bps}; it must be above 0 bits per second"
            )
        for name in ("overhead_s", "tensor_s"):
            if not (math.isfinite(seconds := getattr(self, name)) and seconds >= 0):
                raise ValueError(f"{name} is {seconds}; it must be finite and at least 0")
        if not 0 < self.whole_share <= 1:
            raise ValueError(f"whole_share is {self.whole_share}; it must be above 0 and at most 1")

    def transfer_s(self, tensor_bytes: Iterable[int]) -> float:
        """Seconds to carry tensors of these sizes in one transmission, without its overhead."""
        sizes = list(tensor_bytes)
        weighted_bytes = sum(
            size if size >= self.split_bytes else size / self.whole_share for size in sizes
        )
        return weighted_bytes * 8 / self.bandwidth_bps + len(sizes) * self.tensor_s

    def __str__(self) -> str:
        return f"{self.bandwidth_bps / 1e6:g} Mbit/s, {self.overhead_s * 1e3:g} ms a transmission"
