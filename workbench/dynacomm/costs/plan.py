"""Plans: where the transmissions of an iteration are cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from workbench.utils.checks import UserError, check_kind, listed

DIRECTIONS = ("forward_cuts", "backward_cuts")


@dataclass(frozen=True)
class Plan:
    """Where the transmissions of one iteration are cut (the decision sets of Eqs. 9-12).

    Parameters
    ----------
    forward_cuts, backward_cuts
        Sorted layer numbers l in 1..L-1; l is a cut between layers l and l+1. No cut at all is
        one transmission of the whole model. Other numbers, or another order, are a ValueError.
    """

    forward_cuts: tuple[int, ...] = ()
    backward_cuts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in DIRECTIONS:
            numbers = listed(name, getattr(self, name), "give layer numbers, such as (1, 3)")
            try:
                cuts = tuple(map(int, numbers))
            except (TypeError, ValueError, OverflowError):  # text, not finite
                cuts = ()
            if cuts != numbers:
                raise UserError(f"{name} {numbers} are layer numbers; they must be whole")
            if any(low >= high for low, high in pairwise((0, *cuts))):
                raise UserError(
                    f"{name} {cuts} must be increasing layer numbers from 1 on; "
                    "l cuts between layers l and l+1"
                )
            object.__setattr__(self, name, cuts)

    def check(self, layers: int) -> None:
        """Refuse cuts that a model of `layers` layers does not have."""
        for name in DIRECTIONS:
            cuts = getattr(self, name)
            if cuts and cuts[-1] >= layers:
                raise UserError(
                    f"{name} has a cut behind layer {cuts[-1]}, "
                    f"but a model of {layers} layers is cut behind 1 to {layers - 1}"
                )


def check_plan(plan: object) -> Plan:
    """Refuse anything but a `Plan`."""
    return check_kind("plan", plan, Plan, "a Plan, such as PLANNERS['dynacomm'](costs) makes")


def runs(cuts: Sequence[int], layers: int) -> list[tuple[int, int]]:
    """First and last layer of each segment that `cuts` make, layer 1 first."""
    return [(low + 1, high) for low, high in pairwise((0, *cuts, layers))]
