"""Which server holds how much of which layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from workbench.checks import check_whole, listed
from workbench.dynacomm.costs.iteration import FloatArray
from workbench.errors import UserError


@dataclass(frozen=True, eq=False)
class Shards:
    """A model's layers shared out over servers."""

    share: FloatArray  # of each layer by server, (S, L); every column sums to 1
    # first element of each layer in the flat vector, and the end; () without learning
    starts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        try:
            share = np.asarray(self.share, dtype=np.float64)
        except (TypeError, ValueError):
            share = np.empty(0)
        if share.ndim != 2 or not share.size:
            raise UserError(
                f"share is {self.share!r}; give a table of shares, a row for each server and a "
                "column for each layer"
            )
        object.__setattr__(self, "share", share)
        starts = listed("starts", self.starts, "give the first element of each layer, and the end")
        starts = tuple(check_whole("a start of a layer", one, 0) for one in starts)
        if any(low > high for low, high in pairwise(starts)):
            raise UserError(f"starts {starts} go back; each layer begins where the last one ends")
        object.__setattr__(self, "starts", starts)
        empty = np.flatnonzero(~self.share.any(axis=1))
        if empty.size:
            raise UserError(
                f"server {empty[0]} of {self.servers} would hold no layer of {self.layers}; "
                "use fewer servers"
            )
        if not np.allclose(self.share.sum(axis=0), 1) or (self.share < 0).any():
            raise UserError("every layer must be shared out whole, in shares from 0 to 1")
        if self.starts and len(self.starts) != self.layers + 1:
            raise UserError(f"starts has {len(self.starts)} bounds for {self.layers} layers")

    @property
    def servers(self) -> int:
        """Number of servers, S."""
        return len(self.share)

    @property
    def layers(self) -> int:
        """Number of layers, L."""
        return int(self.share.shape[1])

    @cached_property
    def _held(self) -> list[list[int]]:
        """Of how many of the layers 1..l a server holds something: [server][l]."""
        counts = np.cumsum(self.share > 0, axis=1)
        return [[0, *row] for row in counts.tolist()]

    def held(self, server: int, first: int, last: int) -> int:
        """Of how many of the layers `first` to `last` a server holds something."""
        return self._held[server][last] - self._held[server][first - 1]

    @cached_property
    def _parts(self) -> list[list[slice]]:
        """Part of the flat vector that a server holds of a layer: [server][layer - 1]."""
        sizes = np.diff(self.starts)
        shared = np.vstack([np.zeros(self.layers), self.share.cumsum(axis=0)])
        bounds = np.rint(shared * sizes).astype(int) + np.array(self.starts[:-1])
        return [
            [slice(low, high) for low, high in zip(*pair, strict=True)]
            for pair in pairwise(bounds.tolist())
        ]

    def slices(self, server: int, first: int, last: int) -> list[slice]:
        """Parts of the flat vector that a server holds of some layers; adjacent ones are merged."""
        found: list[slice] = []
        for part in self._parts[server][first - 1 : last]:
            if found and found[-1].stop == part.start:
                found[-1] = slice(found[-1].start, part.stop)
            elif part.stop > part.start:
                found.append(part)
        return found


def split_evenly(layers: int, servers: int, starts: Sequence[int] = ()) -> Shards:
    """Every server holds an equal part of every layer, as large tensors are in MXNet."""
    layers, servers = check_whole("layers", layers, 1), check_whole("servers", servers, 1)
    return Shards(np.full((servers, layers), 1 / servers), starts)  # type: ignore[arg-type]
