"""Max N: the largest gradients of each weight variable (Hong & Chandra 2021, Sec. 3.3).

A value is selected if it is within N % of the variable's largest: ``|g| >= (1 - N/100) max|g|``.

Deviation: the text says "greater than or equal to N % of the maximum", its examples the opposite
("N = 1: within 1 % of the maximum; N = 100: all"); the examples are followed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from workbench.dlion.gradient import ErrorFeedback, Gradient, Links, Parts
from workbench.dlion.part import Part, Values, encoded_bytes
from workbench.utils.checks import UserError, check_number

STEPS = 10_000
"""N goes in hundredths of a percent."""

LEAST_N = 0.85
"""Sec. 5.1.4: for every link, whatever it carries."""


def _check_n(n: object) -> float:
    number = check_number("N", n)
    if not 0 <= number <= 100:
        raise UserError(f"N is {number:g}; it is a percentage, from 0 to 100")
    return number


def max_n(gradient: Values, n: float) -> NDArray[np.bool_]:
    """Select the values of one weight variable that are within `n` percent of its largest.

    Returns a boolean array of the gradient's shape, by the ranks of which a training selects.
    """
    values = np.asarray(gradient)
    if values.dtype.kind not in "iuf":
        raise UserError(f"gradient is an array of {values.dtype}; give real numbers")
    selected = ranks(values.ravel()) >= least_rank(_check_n(n))
    return selected.reshape(values.shape)


def ranks(values: Values) -> NDArray[np.int16]:
    """Rank of each value of a flat weight variable: its magnitude over the largest, in `STEPS`.

    Where the largest is 0 or no finite number, all have the highest.
    """
    magnitudes = np.abs(values, dtype=np.result_type(values, np.float32))
    largest = magnitudes.max(initial=0)
    if not 0 < largest < np.inf:  # nothing is larger than the rest
        return np.full(values.shape, STEPS, np.int16)
    magnitudes /= largest
    magnitudes *= np.nextafter(magnitudes.dtype.type(STEPS), np.inf)  # no rank is rounded down
    return np.minimum(magnitudes, STEPS, out=magnitudes).astype(np.int16)


def least_rank(n: float) -> int:
    """The least rank that N selects, ``STEPS * (1 - N/100)``."""
    return STEPS - round(n * STEPS / 100)


class Ranks:
    """Max N of a gradient for every N at once: one pass, whatever the number of links."""

    def __init__(self, gradient: Gradient) -> None:
        self._gradient = gradient
        self._parts: dict[int, Part] = {}

    @cached_property
    def _ranks(self) -> NDArray[np.int16]:
        gradient = self._gradient
        each = np.empty(len(gradient.values), np.int16)
        for variable in gradient.variables:
            each[variable] = ranks(gradient.values[variable])
        return each

    @cached_property
    def bytes_by_step(self) -> NDArray[np.float64]:
        """Bytes that each N comes to, in hundredths: (`STEPS` + 1,); they never fall."""
        total = np.zeros(STEPS + 1)
        for variable in self._gradient.variables:
            counts = np.bincount(self._ranks[variable], minlength=STEPS + 1)[::-1].cumsum()
            size = variable.stop - variable.start
            total += encoded_bytes(counts, size, self._gradient.values.itemsize)
        return total

    def largest_n(self, budget_bytes: float | None, least_n: float = LEAST_N) -> float:
        """The largest N whose values fit a budget; never below `least_n`, which None gives."""
        if budget_bytes is None:
            return least_n
        if budget_bytes >= self._gradient.values.nbytes:
            return 100.0
        step = int(np.searchsorted(self.bytes_by_step[:STEPS], budget_bytes, side="right")) - 1
        return max(least_n, 100 * step / STEPS)

    def selected(self, n: float) -> NDArray[np.bool_]:
        """Mask of the values that N selects, flat."""
        return self._ranks >= least_rank(n)

    def part(self, n: float) -> Part:
        """The values that N selects."""
        gradient, least = self._gradient, least_rank(n)
        if least not in self._parts:
            selected = gradient.whole if least <= 0 else gradient.part(self.selected(n))
            self._parts[least] = selected
        return self._parts[least]


def per_link(gradient: Gradient, links: Links) -> Parts:
    """Send each peer the largest N that its link carries while an iteration computes (Sec. 3.3).

    Deviation: what a link carries before it was used is not stated; it is sent the least N.
    """
    ranks = Ranks(gradient)
    return {peer: ranks.part(ranks.largest_n(links.budget_bytes(peer))) for peer in links.peers}


class PerLinkAddedUp:
    """`per_link` with error feedback: what a peer was not sent adds up until it is.

    The paper does not say whether it does.
    """

    def __init__(self) -> None:
        self.left = defaultdict[int, ErrorFeedback](ErrorFeedback)

    def __call__(self, gradient: Gradient, links: Links) -> Parts:
        """Add the gradient to what each peer lacks, and send it the largest N of that."""
        parts = {}
        for peer in links.peers:
            left = self.left[peer]
            ranks = Ranks(replace(gradient, values=left.plus(gradient.values)))
            n = ranks.largest_n(links.budget_bytes(peer))
            parts[peer] = left.take(gradient, ranks.selected(n))
        return parts


@dataclass(frozen=True)
class MaxN:
    """Max N: send the values within N % of each variable's largest, by the same N on all links.

    What is not sent is forgotten; `Accumulated(MaxN(n).selected)` adds it up until it is sent.
    """

    n: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", _check_n(self.n))

    def selected(self, gradient: Gradient) -> NDArray[np.bool_]:
        """Mask of the values that are sent, flat."""
        return Ranks(gradient).selected(self.n)

    def __call__(self, gradient: Gradient, links: Links) -> Parts:
        """Send all peers the same part."""
        return dict.fromkeys(links.peers, Ranks(gradient).part(self.n))
