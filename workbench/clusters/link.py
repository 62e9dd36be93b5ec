"""A link between two nodes and what a transfer over it takes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real

from workbench.clusters.schedule import LEAST, MOST, MOST_S, Schedule, capacity
from workbench.utils.checks import UserError, check_number, check_range, listed


@dataclass(frozen=True, eq=False)
class SharedCapacity:
    """Bits per second that links share: of a wireless channel, a switch, a line to a provider.

    The links name the same value, each in its `Link.shared`.

    Parameters
    ----------
    bandwidth_bps
        A number, or over time as pairs of (start_s, value) or a `Schedule`.
    """

    bandwidth_bps: float | Schedule | Sequence[tuple[float, float]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "bandwidth_bps", capacity("bandwidth_bps", self.bandwidth_bps))

    @property
    def bandwidth(self) -> Schedule:
        """Bits per second over time."""
        return self.bandwidth_bps  # type: ignore[return-value]  # as it has become


@dataclass(frozen=True)
class Link:
    """One direction of a connection to a node, or to a group of servers that share a model.

    Parameters
    ----------
    bandwidth_bps
        Bits per second that a transfer gets: a number, or over time as pairs of
        (start_s, value) or a `Schedule`; pairs are kept as a `Schedule`.
    overhead_s
        Seconds that every transmission costs whatever its size: round trip, set-up, calls.
    tensor_s
        Seconds that every tensor costs on top of its bytes: look-up by key, serialisation.
    split_bytes
        Tensors of at least this size are split over all servers of a group and get the whole
        bandwidth; a smaller one is on one server and gets `whole_share` of it. MXNet's
        key-value store splits from a million elements on, 4,000,000 bytes.
    whole_share
        Up to 1; 1, as by default, makes all tensors equal.
    latency_s
        Seconds from the end of a transfer to its delivery; the link is free again meanwhile.
    shared
        What its transfers share with those of other links, max-min fairly.
    """

    bandwidth_bps: float | Schedule | Sequence[tuple[float, float]]
    overhead_s: float = 0.0
    tensor_s: float = 0.0
    split_bytes: int = 0
    whole_share: float = 1.0
    latency_s: float = 0.0
    shared: tuple[SharedCapacity, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.bandwidth_bps, Real):
            over_time = capacity("bandwidth_bps", self.bandwidth_bps)
            object.__setattr__(self, "bandwidth_bps", over_time)
        elif self.bandwidth_bps != math.inf:
            check_range("bandwidth_bps", self.bandwidth_bps, LEAST, MOST, ", or infinite")
        for name in ("overhead_s", "tensor_s", "latency_s"):
            check_range(name, getattr(self, name), 0, MOST_S)
        if not check_number("split_bytes", self.split_bytes) >= 0:
            raise UserError(f"split_bytes is {self.split_bytes}; it must be at least 0")
        check_range("whole_share", self.whole_share, LEAST, 1)
        for name in ("bandwidth_bps", "overhead_s", "tensor_s", "whole_share", "latency_s"):
            number = getattr(self, name)
            if type(number) not in (int, float, Schedule):  # single precision would spread
                object.__setattr__(self, name, float(number))
        shared = listed("shared", self.shared, "give several, such as (SharedCapacity(1e8),)")
        for each in shared:
            if not isinstance(each, SharedCapacity):
                raise UserError(f"shared has {each!r}; give a SharedCapacity")
        object.__setattr__(self, "shared", tuple(dict.fromkeys(shared)))

    @property
    def bandwidth(self) -> float | Schedule:
        """Bits per second: a number, or a schedule where it changes."""
        return self.bandwidth_bps  # type: ignore[return-value]  # pairs have become a schedule

    def transfer_s(self, tensor_bytes: Iterable[float], start_s: float = 0.0) -> float:
        """Seconds to carry tensors of these sizes in one transmission, without its overhead.

        Where the bandwidth changes over time, the transmission starts at `start_s`; `tensor_s` of
        each tensor passes before the bytes do.
        """
        sizes = listed("tensor_bytes", tensor_bytes, "give the size of each, such as (4e6, 4e3)")
        bits = self.weighted_bytes(sizes) * 8
        if not (min(sizes, default=0) >= 0 and bits < math.inf and 0 <= start_s < math.inf):
            raise UserError(
                f"tensors of {sizes} bytes from {start_s} s on; sizes and the time are finite and "
                "not negative"
            )
        tensors_s = len(sizes) * self.tensor_s
        bandwidth = self.bandwidth
        if isinstance(bandwidth, Schedule):
            return tensors_s + bandwidth.seconds_for(bits, start_s + tensors_s)
        return bits / bandwidth + tensors_s

    def weighted_bytes(self, tensor_bytes: Iterable[float]) -> float:
        """Bytes that would take as long at the full bandwidth as these tensors take."""
        if self.whole_share == 1:
            return sum(tensor_bytes)
        split_bytes, share = self.split_bytes, self.whole_share
        return sum([size if size >= split_bytes else size / share for size in tensor_bytes])

    def __str__(self) -> str:
        rate = self.bandwidth
        if isinstance(rate, Schedule):
            shown = rate.describe("Mbit/s", 1e-6)
        else:
            shown = f"{rate / 1e6:g} Mbit/s"
        latency = f", {self.latency_s * 1e3:g} ms latency" if self.latency_s else ""
        return f"{shown}, {self.overhead_s * 1e3:g} ms a transmission{latency}"
