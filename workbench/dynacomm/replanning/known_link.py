"""A link whose future bandwidth is known: when a transmission ends, and when it must start."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from workbench.clusters import Link, Schedule


@dataclass(frozen=True)
class KnownLink:
    """One direction of a link over time."""

    bandwidth_bps: Schedule
    overhead_s: float  # before the bytes of each transmission flow

    @classmethod
    def of(cls, link: Link) -> KnownLink:
        """One direction of `link`, without what tensors weigh on it, which is the job's."""
        return cls(Schedule.of(link.bandwidth_bps), link.overhead_s)

    @cached_property
    def _served_bits(self) -> list[float]:
        """Bits carried from 0 to the start of each piece."""
        starts_s, values = self.bandwidth_bps.starts_s, self.bandwidth_bps.values
        pieces = zip(pairwise(starts_s), values, strict=False)
        return list(accumulate(((b - a) * value for (a, b), value in pieces), initial=0.0))

    def served(self, at_s: float) -> float:
        """Bits carried from 0 to a time; before 0 at the first bandwidth, so negative."""
        starts_s, values = self.bandwidth_bps.starts_s, self.bandwidth_bps.values
        piece = max(0, bisect_right(starts_s, at_s) - 1)
        return self._served_bits[piece] + (at_s - starts_s[piece]) * values[piece]

    def end_s(self, start_s: float, bits: float) -> float:
        """When a transmission ends that starts at `start_s`."""
        flows_s = start_s + self.overhead_s
        if bits <= 0:
            return flows_s
        return flows_s + self.bandwidth_bps.seconds_for(bits, flows_s)

    def start_s(self, end_s: float, bits: float) -> float:
        """Latest start of a transmission that ends by `end_s`; minus infinity: none."""
        if bits <= 0:
            return end_s - self.overhead_s
        upto = self.served(end_s) - bits
        if upto < 0:
            return float("-inf")
        piece = bisect_right(self._served_bits, upto) - 1
        value = self.bandwidth_bps.values[piece]
        flows_s = self.bandwidth_bps.starts_s[piece] + (upto - self._served_bits[piece]) / value
        return min(flows_s, end_s) - self.overhead_s
