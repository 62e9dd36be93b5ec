"""Transfer seconds as a line over bytes, fitted by least squares."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from workbench.errors import UserError

ONE_SIZE = 0.01
"""Sizes that differ by less, as a share of the largest, cannot separate overhead and bandwidth."""


@dataclass(frozen=True)
class Rate:
    """Seconds of a transfer in one direction: a line over its bytes.

    `tensor_s`, what each tensor adds, is taken as known: a few transfers cannot separate it from
    bytes, which rise with tensors.
    """

    overhead_s: float
    bandwidth_bps: float  # infinite where bytes take no time
    tensor_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("overhead_s", "tensor_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UserError(
                    f"{name} is {getattr(self, name)}; it must be finite and at least 0"
                )
        if not self.bandwidth_bps > 0:
            raise UserError(f"bandwidth_bps is {self.bandwidth_bps}; it must be above 0")

    def transfer_s(self, size_bytes: float) -> float:
        """Seconds of one transmission, its overhead included, its tensors not."""
        return self.overhead_s + size_bytes * 8 / self.bandwidth_bps


@dataclass(frozen=True)
class Moments:
    """Sums of least squares over some transfers; two add up to those of both.

    `bytes_bytes` and `bytes_s` are sums of squared deviations of the sizes, and of their products
    with those of the seconds.
    """

    count: int = 0
    mean_bytes: float = 0.0
    mean_s: float = 0.0
    bytes_bytes: float = 0.0
    bytes_s: float = 0.0
    least_bytes: float = math.inf
    most_bytes: float = 0.0

    def __add__(self, other: Moments) -> Moments:
        if not self.count or not other.count:
            return self if self.count else other
        count = self.count + other.count
        by_bytes, by_s = other.mean_bytes - self.mean_bytes, other.mean_s - self.mean_s
        share = other.count / count
        return Moments(
            count,
            self.mean_bytes + by_bytes * share,
            self.mean_s + by_s * share,
            self.bytes_bytes + other.bytes_bytes + by_bytes**2 * self.count * share,
            self.bytes_s + other.bytes_s + by_bytes * by_s * self.count * share,
            min(self.least_bytes, other.least_bytes),
            max(self.most_bytes, other.most_bytes),
        )


NO_TRANSFERS = Moments()


def moments(transfers: Iterable[tuple[float, float]]) -> Moments:
    """Moments of (bytes, seconds) pairs."""
    return sum(
        (
            Moments(1, size_bytes, seconds, least_bytes=size_bytes, most_bytes=size_bytes)
            for size_bytes, seconds in transfers
        ),
        NO_TRANSFERS,
    )


def fit(seen: Moments, last: Rate) -> Rate:
    """Least squares, as far as the transfers decide it.

    If all have one size (`ONE_SIZE`), the overhead is kept and the bandwidth fitted; if they took
    less than that overhead, both change alike. An overhead below 0, as a bandwidth that changed
    between transfers may suggest, becomes 0; a falling line is treated as one size. Without
    transfers that took time nothing changes. `seen` excludes the time of tensors.
    """
    if not seen.count or seen.mean_bytes <= 0 or seen.mean_s <= 0:
        return last
    if seen.most_bytes - seen.least_bytes > ONE_SIZE * seen.most_bytes and seen.bytes_s > 0:
        slope = seen.bytes_s / seen.bytes_bytes
        overhead_s = seen.mean_s - slope * seen.mean_bytes
        if overhead_s >= 0:
            return Rate(overhead_s, 8 / slope, last.tensor_s)
        return _through(seen, 0.0, last)
    return _through(seen, last.overhead_s, last)


def _through(seen: Moments, overhead_s: float, last: Rate) -> Rate:
    """Least squares for the bandwidth alone."""
    squares = seen.bytes_bytes + seen.count * seen.mean_bytes**2
    products = seen.bytes_s + seen.count * seen.mean_bytes * (seen.mean_s - overhead_s)
    if products <= 0:
        factor = seen.mean_s / last.transfer_s(seen.mean_bytes)
        return Rate(last.overhead_s * factor, last.bandwidth_bps / factor, last.tensor_s)
    return Rate(overhead_s, 8 * squares / products, last.tensor_s)
