"""Recordings of a model's storages: their sizes, and when they are alive.

`recorder` makes them, `memory` counts them. Those of the zoo are stored, since making them takes
seconds, and PyTorch.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from workbench.utils.files import DATA

STORED = DATA / "graphs" / "stages.zip"
"""Written by `scripts/trace_zoo.py`."""

INPUTS = 0
"""Layer of the model's inputs; the loss is the layer after the last."""


@dataclass(frozen=True, eq=False)
class Recording:
    """Storages of a pass of the whole model, and the operators between which they are alive.

    Attributes
    ----------
    sizes
        Bytes of each storage, shape (storages,).
    layers
        Layer of each storage's maker, shape (storages,).
    born, freed
        Number of the operator that makes a storage, and of the first one that runs without it,
        shape (storages,).
    operator_layers
        Layer of each operator, shape (operators,).
    backward
        Number of the first operator of the loss, which begins the backward pass.
    crossing
        Storages that cross the cut behind each layer, from the inputs to the outputs.
    gradients
        Storages of `crossing` that have a gradient.
    tensors
        Bytes of the trained parameters, and of the other tensors of the module, that each layer
        uses, by name.
    """

    sizes: NDArray[np.float64]
    layers: NDArray[np.int64]
    born: NDArray[np.int64]
    freed: NDArray[np.int64]
    operator_layers: NDArray[np.int64]
    backward: int
    crossing: tuple[tuple[int, ...], ...]
    gradients: tuple[tuple[int, ...], ...]
    tensors: tuple[tuple[Mapping[str, int], Mapping[str, int]], ...]


def stored_recordings(model: str) -> tuple[Recording, Recording] | None:
    """Recordings of a model of the zoo with few and with many samples; None if it has none."""
    if model not in _archive().NameToInfo:
        return None
    of_model = json.loads(_archive().read(model))
    of_model |= {name: np.array(of_model[name]) for name in _ARRAYS}
    of_model |= {name: tuple(map(tuple, of_model[name])) for name in ("crossing", "gradients")}
    of_model["tensors"] = tuple(map(tuple, of_model["tensors"]))
    many = np.array(of_model.pop("sizes of many"), float)
    few = Recording(**{**of_model, "sizes": of_model["sizes"].astype(float)})
    return few, replace(few, sizes=many)


def members(models: Mapping[str, tuple[Recording, Recording]]) -> Iterator[tuple[str, bytes]]:
    """Recordings to store, by the names of their models."""
    for model, (few, many) in models.items():
        of_model = {**vars(few), **{name: getattr(few, name).tolist() for name in _ARRAYS}}
        for name, sizes in (("sizes", few.sizes), ("sizes of many", many.sizes)):
            of_model[name] = [int(size) for size in sizes]
        yield model, json.dumps(of_model, separators=(",", ":")).encode()


_ARRAYS = ("sizes", "layers", "born", "freed", "operator_layers")


@cache
def _archive() -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(STORED.read_bytes()))
