"""Plans: where the transmissions of an iteration are cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from workbench.checks import check_kind, check_whole, listed
from workbench.errors import UserError


@dataclass(frozen=True)
class Plan:
    """Where the transmissions of one iteration are cut (the decision sets of Eqs. 9-12).

    Parameters
    ----------
    forward_cuts, backward_cuts
        Sorted layer numbers l in 1..L-1; l is a cut between layers l and l+1. No cut at all is
        one transmission of the whole model.

    Raises
    ------
    ValueError
        Cuts that are no whole numbers from 1 on, or not increasing.
    """

    forward_cuts: tuple[int, ...] = ()
    backward_cuts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("forward_cuts", "backward_cuts"):
            numbers = listed(name, getattr(self, name), "give layer numbers, such as (1, 3)")
            try:
                cuts = tuple(map(int, numbers))
            except (TypeError, ValueError, OverflowError):  # text, not finite
                cuts = ()
            if cuts != numbers:
                raise UserError(f"{name} {numbers} are layer numbers; they must be whole")
            if any(cut < 1 for cut in cuts) or any(a >= b for a, b in pairwise(cuts)):
                raise UserError(
                    f"{name} {cuts} must be increasing layer numbers from 1 on; "
                    "l cuts between layers l and l+1"
                )
            object.__setattr__(self, name, cuts)

    def check(self, layers: int) -> None:
        """Refuse cuts that a model of `layers` layers does not have."""
        for name in ("forward_cuts", "backward_cuts"):
            cuts = getattr(self, name)
            if cuts and cuts[-1] >= layers:
                raise UserError(
                    f"{name} has a cut behind layer {cuts[-1]}, "
                    f"but a model of {layers} layers is cut behind 1 to {layers - 1}"
                )

    def segments(self, layers: int) -> pl.DataFrame:
        """Table of the transmissions in the order in which they go out.

        A row per transmission: ``direction`` (pull or push), ``transmission`` (from 1),
        ``first_layer``, ``last_layer`` (both included, layer 1 first).
        """
        layers = check_whole("layers", layers, 1)
        self.check(layers)
        pulls = list(runs(self.forward_cuts, layers))
        pushes = list(runs(self.backward_cuts, layers))[::-1]
        return pl.DataFrame(
            [
                (direction, number, first, last)
                for direction, segments in (("pull", pulls), ("push", pushes))
                for number, (first, last) in enumerate(segments, start=1)
            ],
            schema=["direction", "transmission", "first_layer", "last_layer"],
            orient="row",
        )


def check_plan(plan: object) -> Plan:
    """Refuse what is no `Plan`."""
    return check_kind("plan", plan, Plan, "a Plan, such as PLANNERS['dynacomm'](costs) makes")


def runs(cuts: Sequence[int], layers: int) -> list[tuple[int, int]]:
    """First and last layer of each segment that `cuts` make, layer 1 first."""
    return [(a + 1, b) for a, b in pairwise((0, *cuts, layers))]
