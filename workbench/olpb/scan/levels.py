"""Levels of what a gradient passes through, and groups of several levels (OLPB, Sec. IV, Alg. 1).

An operator is one level above the highest that it reads from. With layers as units, as in BPPSA,
only an operator that multiplies with a matrix is: activations, poolings and normalisation are on
the level before, and what precedes all matrices is on the first. Groups stand in a line, whatever
the branches: a value that a later group reads is alive at every boundary in between, and its
gradient passes through as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.checks import check_whole
from workbench.names import check_name
from workbench.olpb.scan.tape import Tape

UNITS = ("operator", "layer")


@dataclass(frozen=True)
class Group:
    """Calls of a tape, by number, and the values alive at its end that carry a gradient."""

    calls: tuple[int, ...]
    boundary: tuple[int, ...]


def levels(tape: Tape, unit: str = "operator") -> tuple[int, ...]:
    """Level of each call, from 1: the longest path to it. Raises ValueError: unknown unit."""
    check_name("unit", unit, UNITS)
    found: list[int] = []
    for call, sources in zip(tape.calls, tape.sources, strict=True):
        below = max((found[tape.makers[value]] for value in sources), default=0)
        starts = unit == "operator" or call.operator.weighted
        found.append(below + starts)
    return tuple(max(one, 1) for one in found)


def groups(tape: Tape, unit: str = "operator", level: int = 1) -> tuple[Group, ...]:
    """Groups of so many levels each, from the input to the loss.

    Raises ValueError: unknown unit, or a level below 1.
    """
    check_whole("level", level, 1)
    of_calls = [(one - 1) // level for one in levels(tape, unit)]
    last_reads: dict[int, int] = {tape.graph.outputs[0].value: max(of_calls) + 1}
    for group, sources in zip(of_calls, tape.sources, strict=True):
        for value in sources:
            last_reads[value] = max(last_reads.get(value, 0), group)
    return tuple(
        Group(
            tuple(at for at, of_call in enumerate(of_calls) if of_call == group),
            tuple(
                value
                for value, maker in tape.makers.items()
                if of_calls[maker] <= group < last_reads.get(value, 0)
            ),
        )
        for group in range(max(of_calls) + 1)
    )
