"""A gradient and the links to the peers, from which a hook chooses what to send."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from workbench.dlion.part import Part, Values
from workbench.utils.checks import UserError

if TYPE_CHECKING:
    from workbench.runtime import Transfer

LATEST = 5
"""Latest transfers on a link over which its bandwidth is averaged.

Deviation: how DLion's network resource monitor measures is not stated (Hong & Chandra 2021,
Sec. 4.1).
"""


@dataclass(frozen=True, eq=False)
class Gradient:
    """A node's gradient of an iteration.

    To have `weights` up to date, all gradients that have arrived are added first, for which most
    systems need not wait; so they are looked up once, and only if asked for.
    """

    values: Values  # flat, mean over the batch; read-only
    variables: tuple[slice, ...]  # one for each weight variable
    step: float  # factor of a value before it is subtracted from a weight
    iteration: int  # from 1
    look_up_weights: Callable[[], Values]

    @cached_property
    def weights(self) -> Values:
        """The node's weights before it applies the gradient, flat; read-only."""
        return self.look_up_weights()

    @cached_property
    def whole(self) -> Part:
        """The whole gradient."""
        return Part.whole(self.values, self.variables)

    def part(self, mask: NDArray[np.bool_], values: Values | None = None) -> Part:
        """Values that a flat mask selects; of `values` in place of the gradient, if given."""
        if getattr(mask, "dtype", None) != np.bool_ or mask.shape != self.values.shape:
            raise UserError(
                f"mask is {getattr(mask, 'dtype', type(mask).__name__)} of shape "
                f"{np.shape(mask)}; give a boolean for each of the {len(self.values):,} values of "
                "the gradient"
            )
        chosen = self.values if values is None else np.asarray(values, self.values.dtype)
        if chosen.shape != self.values.shape:
            raise UserError(
                f"values are of shape {chosen.shape}; give as many as the gradient has, "
                f"{len(self.values):,}"
            )
        return Part.selected(chosen, mask, self.variables)


@dataclass(frozen=True, eq=False)
class Links:
    """Links from a node to its alive peers."""

    node: int  # itself
    bandwidth_bps: Mapping[int, float | None]  # by peer, of the latest transfers; None before any
    iteration_s: float  # seconds to compute an iteration, without waiting

    @property
    def peers(self) -> tuple[int, ...]:
        """Alive peers, ascending."""
        return tuple(self.bandwidth_bps)

    def budget_bytes(self, peer: int) -> float | None:
        """Bytes that the link carries while an iteration computes; None if it was not used yet."""
        bandwidth_bps = self.bandwidth_bps[peer]
        return None if bandwidth_bps is None else bandwidth_bps * self.iteration_s / 8


class Monitor:
    """Measures the bandwidth of the links from a node: bytes over seconds of its latest transfers.

    `transfers` is what `Context.watch` returned; read transfers are taken out of it.
    """

    def __init__(self, node: int, transfers: list[Transfer]) -> None:
        self._node, self._transfers = node, transfers
        self._latest: defaultdict[int, deque[tuple[float, float]]] = defaultdict(
            partial(deque, maxlen=LATEST)
        )

    def bandwidth_bps(self, peers: Iterable[int]) -> dict[int, float | None]:
        """Bits per second on the link to each peer; None where nothing was sent yet."""
        for transfer in self._transfers:
            seconds = transfer.end_s - transfer.start_s
            if transfer.source == self._node and transfer.size_bytes and seconds > 0:
                self._latest[transfer.target].append((transfer.size_bytes, seconds))
        self._transfers.clear()
        return {peer: self._mean_bps(peer) for peer in peers}

    def _mean_bps(self, peer: int) -> float | None:
        latest = self._latest.get(peer)
        if not latest:
            return None
        return 8 * sum(size for size, _ in latest) / sum(seconds for _, seconds in latest)


Parts = Mapping[int, Part]
"""Part for each peer; under the node's own number what it applies itself, by default all."""

PartialGradients = Callable[[Gradient, Links], Parts]
"""Chooses which parts of a gradient go to which peer."""


class ErrorFeedback:
    """Sum of all values of gradients that were not sent yet; `values` is None before the first."""

    def __init__(self) -> None:
        self.values: Values | None = None

    def plus(self, added: Values) -> Values:
        """Add values, and return the sum."""
        self.values = added.copy() if self.values is None else self.values + added
        return self.values

    def take(self, gradient: Gradient, mask: NDArray[np.bool_]) -> Part:
        """Take out the values that a mask selects, to send them."""
        assert self.values is not None
        part = gradient.part(mask, self.values)
        self.values = np.where(mask, 0, self.values)
        return part


@dataclass(frozen=True)
class Accumulated:
    """Send all peers what a rule selects of all that was not sent yet; the rest adds up."""

    rule: Callable[[Gradient], NDArray[np.bool_]]
    left: ErrorFeedback = field(default_factory=ErrorFeedback, compare=False, repr=False)

    def __call__(self, gradient: Gradient, links: Links) -> Parts:
        """Add the gradient, and send the values that the rule selects."""
        total = replace(gradient, values=self.left.plus(gradient.values))
        return dict.fromkeys(links.peers, self.left.take(gradient, self.rule(total)))
