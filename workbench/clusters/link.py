"""A link between two nodes and what a transfer over it takes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from numbers import Real

from workbench.clusters.schedule import LEAST, MOST, MOST_S, OverTime, Schedule, capacity
from workbench.utils.checks import (
    UserError,
    between,
    check_fields,
    check_number,
    check_range,
    listed,
)


@dataclass(frozen=True, eq=False)
class SharedCapacity:
    """Bits per second that links share: of a wireless channel, a switch, a line to a provider.

    The links name the same value, each in its `Link.shared`.

    Parameters
    ----------
    bandwidth_bps
        A number, or over time as pairs of (start_s, value) or a `Schedule`.
    """

    bandwidth_bps: OverTime

    def __post_init__(self) -> None:
        object.__setattr__(self, "bandwidth_bps", capacity("bandwidth_bps", self.bandwidth_bps))

    @property
    def bandwidth(self) -> Schedule:
        """Bits per second over time."""
        return Schedule.of(self.bandwidth_bps)


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

    bandwidth_bps: OverTime
    overhead_s: float = field(default=0.0, metadata=between(0, MOST_S))
    tensor_s: float = field(default=0.0, metadata=between(0, MOST_S))
    split_bytes: float = field(default=0, metadata=between(0, math.inf))
    whole_share: float = field(default=1.0, metadata=between(LEAST, 1))
    latency_s: float = field(default=0.0, metadata=between(0, MOST_S))
    shared: tuple[SharedCapacity, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        rate: float | Schedule
        if not isinstance(self.bandwidth_bps, Real):
            rate = capacity("bandwidth_bps", self.bandwidth_bps)
        elif (rate := check_number("bandwidth_bps", self.bandwidth_bps)) != math.inf:
            check_range("bandwidth_bps", self.bandwidth_bps, LEAST, MOST, ", or infinite")
        object.__setattr__(self, "bandwidth_bps", rate)
        shared = listed("shared", self.shared, "give several, such as (SharedCapacity(1e8),)")
        for channel in shared:
            if not isinstance(channel, SharedCapacity):
                raise UserError(f"shared has {channel!r}; give a SharedCapacity")
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
