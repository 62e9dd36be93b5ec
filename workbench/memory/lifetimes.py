"""Lifetimes of buffers in an order, and buffers that overwrite others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.memory.dataflow import Dataflow


@dataclass(frozen=True, eq=False)
class Lifetimes:
    """First and last step of each buffer, by place in the order; last exclusive: (buffers,)."""

    flow: Dataflow
    order: tuple[int, ...]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    places: NDArray[np.int64]  # numbers, the same for buffers that overwrite each other

    @cached_property
    def items(self) -> pl.DataFrame:
        """Buffers to pack, a row for each place: ``lower``, ``upper`` and ``size``."""
        frame = pl.DataFrame(
            {"place": self.places, "lower": self.first, "upper": self.last, "size": self.sizes}
        )
        grouped = frame.group_by("place").agg(
            pl.col("lower").min(), pl.col("upper").max(), pl.col("size").max()
        )
        return grouped.sort("place").drop("place")

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Bytes of each buffer."""
        return self.flow.sizes

    @cached_property
    def alive_bytes(self) -> NDArray[np.int64]:
        """Bytes alive in each step: (steps,)."""
        change = np.zeros(len(self.order) + 1, np.int64)
        np.add.at(change, self.first, self.sizes)
        np.add.at(change, self.last, -self.sizes)
        return change.cumsum()[:-1]

    @property
    def bound_bytes(self) -> int:
        """Most bytes alive at once: no plan of this order with these rights needs less."""
        return int(self.alive_bytes.max(initial=0))


def lifetimes(flow: Dataflow, order: Sequence[int], *, overwriting: bool = True) -> Lifetimes:
    """Lifetimes in an order; a result takes the place of the largest operand that it may."""
    place = np.empty(len(flow.steps), np.int64)
    place[list(order)] = np.arange(len(order))
    first = place[flow.maker]
    last = np.array(
        [max((place[reader] for reader in readers), default=first[at]) + 1
         for at, readers in enumerate(flow.readers)],
        np.int64,
    )  # fmt: skip
    last[sorted(flow.kept)] = len(order)
    places = np.arange(len(flow.sizes))
    if overwriting:
        for at, step in enumerate(order):
            current = flow.steps[step]
            if len(current.makes) != 1:
                continue
            size = flow.sizes[current.makes[0]]
            for buffer in current.overwrites:  # the first that is used here for the last time
                ends = last[buffer] == at + 1 and buffer not in flow.kept
                if ends and flow.sizes[buffer] == size:
                    last[buffer] = at
                    places[current.makes[0]] = places[buffer]
                    break
    _, places = np.unique(places, return_inverse=True)
    return Lifetimes(flow, tuple(order), first, last, places)


def plain_bytes(flow: Dataflow) -> int:
    """Most bytes alive as the module runs: in traced order, nothing overwritten."""
    return lifetimes(flow, range(len(flow.steps)), overwriting=False).bound_bytes
