"""What each layer of a model costs, whoever runs it: bytes and FLOPs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import starmap
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.errors import UserError
from workbench.profiles.layer_table import LayerTable

InputShape = tuple[int, ...] | tuple[tuple[int, ...], ...]

SCHEMA = {
    "layer": pl.String,
    "param_bytes": pl.Int64,
    "param_tensors": pl.Int64,
    "output_bytes": pl.Int64,
    "forward_flops": pl.Int64,
    "backward_flops": pl.Int64,
}


@dataclass(frozen=True, eq=False)
class ModelProfile(LayerTable):
    """The chain of layers that a model is, and what each costs.

    Attributes
    ----------
    input_shape
        Of one sample, without the batch; a tuple of shapes for a model of several inputs.
    table
        A row per layer, first layer first:

        ``layer``
            Name, unique: the first module of the layer that bears weights, ``+2`` if two more
            compute beside it.
        ``param_bytes``, ``param_tensors``
            What is pulled and pushed for the layer: frozen parameters are not. A tied weight
            counts at its first use.
        ``output_bytes``
            Bytes per sample of all activations that cross the cut after the layer: computed up
            to it, needed beyond it. For the last layer, the model's outputs.
        ``forward_flops``, ``backward_flops``
            FLOPs per sample, two per multiply-add.
    tensor_bytes
        Size of every parameter tensor, layer by layer, for links on which a few large tensors
        travel otherwise than many small ones. Left out, a layer's bytes are shared out evenly.
    frozen_bytes
        Bytes of each layer's frozen parameters, which are held, but neither updated nor sent.
    unfrozen_backward_flops
        Backward FLOPs of each layer if nothing were frozen. Both are empty where nothing is.
    """

    SCHEMA = SCHEMA
    KIND = "a model profile"

    name: str
    input_shape: InputShape
    table: pl.DataFrame
    tensor_bytes: tuple[tuple[int, ...], ...] = ()
    frozen_bytes: tuple[int, ...] = ()
    unfrozen_backward_flops: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        of_layers = ("frozen_bytes", "unfrozen_backward_flops")
        for name in ("input_shape", "tensor_bytes", *of_layers):  # lists, out of a file
            object.__setattr__(self, name, _tuples(getattr(self, name)))
        for name in of_layers:
            if len(getattr(self, name)) not in (0, len(self)):
                raise UserError(
                    f"{name} has {len(getattr(self, name))} numbers for {len(self)} layers; give "
                    "one each, or none"
                )
        sizes = list(self.table.select("param_bytes", "param_tensors").iter_rows())
        if not self.tensor_bytes:
            object.__setattr__(self, "tensor_bytes", tuple(starmap(_shared_evenly, sizes)))
        elif [(sum(layer), len(layer)) for layer in self.tensor_bytes] != sizes:
            raise UserError("tensor_bytes do not add up to the table's param_bytes and _tensors")

    @property
    def backward_share(self) -> NDArray[np.float64]:
        """Part of each layer's backward FLOPs that is left by what is frozen, (N,)."""
        left = self.table["backward_flops"].to_numpy()
        whole = np.array(self.unfrozen_backward_flops or left)
        # A gradient may pass a layer without a FLOP that counts, from the first trained one on.
        share = (self.table["param_bytes"].to_numpy().cumsum() > 0).astype(np.float64)
        np.divide(left, whole, out=share, where=whole > 0)
        return share

    @property
    def param_bytes(self) -> int:
        """Bytes of all parameters that are trained."""
        return int(self.table["param_bytes"].sum())

    @property
    def param_tensors(self) -> int:
        """Number of all parameter tensors that are trained."""
        return int(self.table["param_tensors"].sum())

    @property
    def output_bytes(self) -> int:
        """Bytes per sample that the model gives out: the last layer's."""
        return int(self.table["output_bytes"][-1])

    @property
    def forward_flops(self) -> int:
        """Forward FLOPs per sample of all layers."""
        return int(self.table["forward_flops"].sum())

    @property
    def backward_flops(self) -> int:
        """Backward FLOPs per sample of all layers."""
        return int(self.table["backward_flops"].sum())


def _shared_evenly(size: int, tensors: int) -> tuple[int, ...]:
    each, more = divmod(size, max(tensors, 1))
    return tuple(each + (number < more) for number in range(tensors))


def _tuples(given: Any) -> Any:
    return tuple(map(_tuples, given)) if isinstance(given, list | tuple) else given
