"""A model's layers on the nodes of a cluster, as pipelines and sharded trainings have them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.clusters import Link
from workbench.profiles import Tied
from workbench.utils.checks import (
    UserError,
    check_fields,
    check_kind,
    check_layers,
    check_range,
    check_whole,
    listed,
)

FloatArray = NDArray[np.float64]


def shaped(*axes: str, optional: bool = False, most: float = math.inf) -> Mapping[str, Any]:
    """Rule of an array with these axes, ``"nodes"`` before ``"layers"``; it is kept read-only.

    `LayersOnNodes` checks their lengths. `most` limits the numbers of an array without layers.
    """

    def check(name: str, values: Any) -> FloatArray | None:
        if optional and values is None:
            return None
        if axes == ("layers",):
            return check_layers(name, values)
        rows = listed(name, values, "give a row a node" if len(axes) > 1 else "give a size a node")
        if axes == ("nodes",):
            array = np.array([check_range(name, size, 0, most) for size in rows])
        else:
            by_node = [check_layers(name, row) for row in rows]
            if len(lengths := {len(row) for row in by_node}) != 1:
                raise UserError(
                    f"{name} has rows of {sorted(lengths)} layers; give a row a node, all of as "
                    "many layers"
                )
            array = np.array(by_node)
        array.setflags(write=False)
        return array

    return {"check": check, "axes": axes}


def _links(name: str, links: Any) -> Mapping[tuple[int, int], Link]:
    if not isinstance(links, Mapping):
        raise TypeError(f"{name} is {links!r}; give a mapping, such as {{(0, 1): Link(1e9)}}")
    for ends, link in links.items():
        check_kind(f"{name} of {ends}", link, Link, "a clusters.Link")
    return links


def _tied(name: str, weights: Any) -> tuple[Tied, ...]:
    checked = []
    for weight in listed(name, weights, "give (Tied(size_bytes, layers),)"):
        if not (isinstance(weight, tuple) and len(weight) == 2):
            raise UserError(f"{name} has {weight!r}; give Tied(size_bytes, layers)")
        layers = listed(f"{name} layers", weight[1], "give all that use the weight, such as (1, 4)")
        if not layers:
            raise UserError(f"{name} has a weight of no layer; give all that use it")
        checked.append(
            Tied(
                check_whole("size of a tied weight", weight[0], 0),
                tuple(check_whole(f"{name} layer", layer, 1) for layer in layers),
            )
        )
    return tuple(checked)


# N = node, L = layer
@dataclass(frozen=True, eq=False, kw_only=True)
class LayersOnNodes:
    """A model and a cluster: seconds of each layer on each node, and links.

    Parameters
    ----------
    forward_s, backward_s, update_s
        Seconds of each layer on each node, shape (N, L).
    param_bytes
        Trained parameters of each layer, shape (L,). A tied weight counts at its first layer.
    links
        Links by source and target, each direction its own.
    tied
        Weights that several layers use.
    memory_bytes
        Memory that each node has, shape (N,); by default without limit.
    """

    forward_s: FloatArray = field(metadata=shaped("nodes", "layers"))
    backward_s: FloatArray = field(metadata=shaped("nodes", "layers"))
    update_s: FloatArray = field(metadata=shaped("nodes", "layers"))
    param_bytes: FloatArray = field(metadata=shaped("layers"))
    links: Mapping[tuple[int, int], Link] = field(metadata={"check": _links})
    tied: tuple[Tied, ...] = field(default=(), metadata={"check": _tied})
    memory_bytes: FloatArray | None = field(default=None, metadata=shaped("nodes", optional=True))

    def __post_init__(self) -> None:
        check_fields(self)
        for entry in fields(self):
            array = getattr(self, entry.name)
            if "axes" in entry.metadata and array is not None:
                shape = tuple(getattr(self, axis) for axis in entry.metadata["axes"])
                if array.shape != shape:
                    raise UserError(
                        f"{entry.name} has shape {array.shape}; with {self.nodes} nodes and "
                        f"{self.layers} layers, as forward_s has, give {shape}"
                    )
        pairs = set(permutations(range(self.places), 2))
        for ends in self.links:
            if ends not in pairs:
                raise UserError(
                    f"links has {ends!r}; give pairs of nodes, from 0 to {self.places - 1}"
                )
        for size_bytes, layers in self.tied:
            if max(layers) > self.layers:
                raise UserError(f"tied has layers {layers}; layers are 1 to {self.layers}")
            if size_bytes > (counted_bytes := self.param_bytes[min(layers) - 1]):
                raise UserError(
                    f"param_bytes of layer {min(layers)} are {counted_bytes:g}; the tied weight of "
                    f"{size_bytes} bytes counts there"
                )

    @property
    def nodes(self) -> int:
        """Number of nodes that train, N."""
        return len(self.forward_s)

    @property
    def places(self) -> int:
        """Number of nodes, with those that train nothing."""
        return self.nodes

    @property
    def layers(self) -> int:
        """Number of layers, L."""
        return len(self.forward_s[0])

    @property
    def limits_bytes(self) -> FloatArray:
        """Memory of each node, (N,); infinite where there is no limit."""
        return np.full(self.nodes, math.inf) if self.memory_bytes is None else self.memory_bytes
