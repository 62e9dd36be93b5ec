"""Tables of a model's layers, and what each layer costs, whoever runs it: bytes and FLOPs."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from itertools import starmap
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.utils import files
from workbench.utils.checks import UserError, check_whole

InputShape = tuple[int, ...] | tuple[tuple[int, ...], ...]

SCHEMA = {
    "layer": pl.String,
    "param_bytes": pl.Int64,
    "param_tensors": pl.Int64,
    "output_bytes": pl.Int64,
    "forward_flops": pl.Int64,
    "backward_flops": pl.Int64,
}


class Tied(NamedTuple):
    """One weight that several layers use, such as GPT-2's embedding and head; layers from 1."""

    size_bytes: int
    layers: tuple[int, ...]


class LayerTable:
    """A table with a row per layer of one model, compared and kept in a file.

    A base of frozen dataclasses: `SCHEMA` holds the columns of `table`, ``layer`` first and numbers
    of at least 0 behind it, `KIND` what it is called. All other fields describe it.
    """

    SCHEMA: ClassVar[dict[str, Any]]
    KIND: ClassVar[str]

    name: str
    table: pl.DataFrame

    def __post_init__(self) -> None:
        table = self.table
        if dict(table.schema) != self.SCHEMA:
            raise UserError(f"{self.KIND} has the columns {self.SCHEMA}, not {dict(table.schema)}")
        if not len(table):
            raise UserError("a table of layers has at least one row")
        repeated = table.filter(pl.col("layer").is_duplicated())
        if len(repeated):
            raise UserError(f"layer names are unique, but {repeated['layer'][0]!r} appears twice")
        for column in table.columns[1:]:
            number = pl.col(column).cast(pl.Float64)
            wrong = table.filter(~((number >= 0) & number.is_finite()).fill_null(False))
            if len(wrong):
                layer, value = wrong["layer"][0], wrong[column][0]
                raise UserError(
                    f"{column} of layer {layer!r} is {value}, not a number of at least 0"
                )

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers, first layer first."""
        return tuple(self.table["layer"])

    def __len__(self) -> int:
        return len(self.table)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LayerTable)
            and (type(self), self._about()) == (type(other), other._about())
            and self.table.equals(other.table)
        )

    def __hash__(self) -> int:
        return hash((self.name, self.layers))

    def save(self, path: Path | str) -> None:
        """Write the table to a parquet file in one step; what describes it, into its metadata."""
        files.write_parquet(Path(path), self.table, kind=self.KIND, **self._about())

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what `save` wrote; raises UserError if the file holds something else."""
        table, about = files.read_parquet(path)
        kind = about.pop("kind", "another program's table")
        if kind != cls.KIND:
            raise UserError(f"{path} holds not {cls.KIND} but {kind}")
        try:
            return cls(table=table, **about)  # type: ignore[call-arg]
        except TypeError:
            raise UserError(f"{path} holds {cls.KIND} of another version") from None

    def _about(self) -> dict[str, Any]:
        names = (each.name for each in fields(self))  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names if name != "table"}


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
    sample_bytes
        Of one sample's inputs. Left out, four for each value.
    frozen_bytes
        Bytes of each layer's frozen parameters, which are held, but neither updated nor sent.
    unfrozen_backward_flops
        Backward FLOPs of each layer if nothing were frozen. Both are empty where nothing is.
    tied
        Trained weights that several layers use. Their bytes are in ``param_bytes`` once.
    """

    SCHEMA = SCHEMA
    KIND = "a model profile"

    name: str
    input_shape: InputShape
    table: pl.DataFrame
    tensor_bytes: tuple[tuple[int, ...], ...] = ()
    sample_bytes: int = 0
    frozen_bytes: tuple[int, ...] = ()
    unfrozen_backward_flops: tuple[int, ...] = ()
    tied: tuple[Tied, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        of_layers = ("frozen_bytes", "unfrozen_backward_flops")
        for name in ("input_shape", "tensor_bytes", "tied", *of_layers):  # lists, out of a file
            object.__setattr__(self, name, _tuples(getattr(self, name)))
        for name in of_layers:
            if len(getattr(self, name)) not in (0, len(self)):
                raise UserError(
                    f"{name} has {len(getattr(self, name))} numbers for {len(self)} layers; give "
                    "one each, or none"
                )
        object.__setattr__(self, "tied", tuple(Tied(*each) for each in self.tied))
        for weight in self.tied:
            check_whole("bytes of a tied weight", weight.size_bytes, 0)
            layers = {check_whole("layer of a tied weight", each, 1) for each in weight.layers}
            if len(layers) < 2 or max(layers) > len(self):
                raise UserError(
                    f"tied has layers {weight.layers}; give two or more of 1 to {len(self)}"
                )
        sizes = list(self.table.select("param_bytes", "param_tensors").iter_rows())
        if not self.sample_bytes:
            object.__setattr__(self, "sample_bytes", 4 * _values(self.input_shape))
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


def _values(shape: InputShape) -> int:
    """Numbers in one sample; of a model of several inputs, in all of them."""
    if any(isinstance(part, tuple) for part in shape):
        return sum(_values(part) for part in shape if isinstance(part, tuple))
    return math.prod(shape)  # type: ignore[arg-type]


def _tuples(given: Any) -> Any:
    return tuple(map(_tuples, given)) if isinstance(given, list | tuple) else given
