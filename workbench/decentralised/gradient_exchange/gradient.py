"""A gradient and the links to the peers, as that sees them which chooses what to send."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from workbench.decentralised.gradient_exchange.part import Part, Values
from workbench.errors import UserError


@dataclass(frozen=True, eq=False)
class Gradient:
    """What a node has computed in an iteration.

    Attributes
    ----------
    values
        The gradient, flat, mean over the batch; read-only.
    variables
        Slice of each weight variable.
    step
        What a value of it is multiplied by, and then subtracted from a weight.
    iteration
        From 1.
    look_up_weights
        What `weights` calls, once and only if asked: to have them up to date, all gradients that
        have arrived are added first, which most systems need not wait for.
    """

    values: Values
    variables: tuple[slice, ...]
    step: float
    iteration: int
    look_up_weights: Callable[[], Values]

    @cached_property
    def weights(self) -> Values:
        """The node's weights before it applies the gradient, flat; read-only."""
        return self.look_up_weights()

    @cached_property
    def whole(self) -> Part:
        """All of it."""
        return Part.whole(self.values, self.variables)

    def part(self, mask: NDArray[np.bool_], values: Values | None = None) -> Part:
        """Those values that a flat mask selects; of `values` in place of the gradient's, if given.

        Raises ValueError: a mask that is no boolean array of the gradient's length; other values.
        """
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
    """Links from a node to its peers.

    Attributes
    ----------
    node
        The node itself.
    bandwidth_bps
        By peer that is there, what the node's latest transfers to it reached; None before any.
    iteration_s
        Seconds that an iteration takes to compute, waiting not counted.
    """

    node: int
    bandwidth_bps: Mapping[int, float | None]
    iteration_s: float

    @property
    def peers(self) -> tuple[int, ...]:
        """Peers that are there, ascending."""
        return tuple(self.bandwidth_bps)

    def budget_bytes(self, peer: int) -> float | None:
        """Bytes that the link carries while an iteration computes; None if it was not used yet."""
        bandwidth_bps = self.bandwidth_bps[peer]
        return None if bandwidth_bps is None else bandwidth_bps * self.iteration_s / 8


Parts = Mapping[int, Part]
"""What goes to which peer; under the node's own number what it applies itself, by default all."""

PartialGradients = Callable[[Gradient, Links], Parts]
"""Chooses which parts of a gradient go to which peer."""


class Leftover:
    """Sum of all values of gradients that were not sent; `values` is None before the first."""

    def __init__(self) -> None:
        self.values: Values | None = None

    def plus(self, added: Values) -> Values:
        """Add values, and return the sum."""
        self.values = added.copy() if self.values is None else self.values + added
        return self.values

    def take(self, gradient: Gradient, mask: NDArray[np.bool_]) -> Part:
        """Send what a mask selects; nothing is left of that."""
        assert self.values is not None
        part = gradient.part(mask, self.values)
        self.values = np.where(mask, 0, self.values)
        return part
