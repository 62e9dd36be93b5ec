"""A link between two nodes and what a transfer over it takes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from workbench.clusters.schedule import Schedule


@dataclass(frozen=True)
class Link:
    """One direction of a connection to a node, or to a group of servers that share a model.

    Parameters
    ----------
    bandwidth_bps
        Bits per second that a transfer gets: a number, or a `Schedule` over time.
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
    latency_s
        Seconds from the end of a transfer to its delivery; the link is free again meanwhile.

    Raises
    ------
    ValueError
        A bandwidth or share out of range, or a time that is negative or not finite.
    """

    bandwidth_bps: float | Schedule
    overhead_s: float = 0.0
    tensor_s: float = 0.0
    split_bytes: int = 0
    whole_share: float = 1.0
    latency_s: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.bandwidth_bps, Schedule) and not self.bandwidth_bps > 0:
            raise ValueError(
                f"bandwidth_bps is {self.bandwidth_bps}; it must be above 0 bits per second"
            )
        for name in ("overhead_s", "tensor_s", "latency_s"):
            if not (math.isfinite(seconds := getattr(self, name)) and seconds >= 0):
                raise ValueError(f"{name} is {seconds}; it must be finite and at least 0")
        if not 0 < self.whole_share <= 1:
            raise ValueError(f"whole_share is {self.whole_share}; it must be above 0 and at most 1")

    def transfer_s(self, tensor_bytes: Iterable[float], start_s: float = 0.0) -> float:
        """Seconds to carry tensors of these sizes in one transmission, without its overhead.

        Where the bandwidth changes over time, the transmission starts at `start_s`; what each
        tensor costs on top passes before the bytes do.
        """
        sizes = list(tensor_bytes)
        bits, tensors_s = self.weighted_bytes(sizes) * 8, len(sizes) * self.tensor_s
        if isinstance(self.bandwidth_bps, Schedule):
            return tensors_s + self.bandwidth_bps.seconds_for(bits, start_s + tensors_s)
        return bits / self.bandwidth_bps + tensors_s

    def weighted_bytes(self, tensor_bytes: Iterable[float]) -> float:
        """Bytes that would take as long at the full bandwidth as these tensors take."""
        return sum(
            size if size >= self.split_bytes else size / self.whole_share for size in tensor_bytes
        )

    def __str__(self) -> str:
        rate = self.bandwidth_bps
        if isinstance(rate, Schedule):
            shown = rate.describe("Mbit/s", 1e-6)
        else:
            shown = f"{rate / 1e6:g} Mbit/s"
        latency = f", {self.latency_s * 1e3:g} ms latency" if self.latency_s else ""
        return f"{shown}, {self.overhead_s * 1e3:g} ms a transmission{latency}"
