"""What each layer of a model costs, whoever runs it: bytes and FLOPs."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path

import polars as pl

from workbench import atomic

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
class ModelProfile:
    """The chain of layers that a model is, and what each costs.

    Attributes
    ----------
    name
        The model's name.
    input_shape
        Of one sample, without the batch; a tuple of shapes for a model of several inputs.
    table
        A row per layer, first layer first:

        ``layer``
            Name, unique: the first module of the layer that bears weights, ``+2`` if two more
            compute beside it.
        ``param_bytes``, ``param_tensors``
            What is pulled and pushed for the layer. A tied weight counts at its first use.
        ``output_bytes``
            Bytes per sample of all activations that cross the cut after the layer: computed up
            to it, needed beyond it. For the last layer, the model's outputs.
        ``forward_flops``, ``backward_flops``
            FLOPs per sample, two per multiply-add.
    tensor_bytes
        Size of every parameter tensor, layer by layer, for links on which a few large tensors
        travel otherwise than many small ones. Left out, a layer's bytes are shared out evenly.
    """

    name: str
    input_shape: InputShape
    table: pl.DataFrame
    tensor_bytes: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if dict(self.table.schema) != SCHEMA:
            raise ValueError(
                f"a model profile has the columns {SCHEMA}, not {dict(self.table.schema)}"
            )
        check_layers(self.table)
        sizes = list(self.table.select("param_bytes", "param_tensors").iter_rows())
        if not self.tensor_bytes:
            object.__setattr__(self, "tensor_bytes", tuple(starmap(_shared_evenly, sizes)))
        elif [(sum(layer), len(layer)) for layer in self.tensor_bytes] != sizes:
            raise ValueError("tensor_bytes do not add up to the table's param_bytes and _tensors")

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers, first layer first."""
        return tuple(self.table["layer"])

    @property
    def param_bytes(self) -> int:
        """Bytes of all parameters."""
        return int(self.table["param_bytes"].sum())

    @property
    def param_tensors(self) -> int:
        """Number of all parameter tensors."""
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

    def __len__(self) -> int:
        return len(self.table)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ModelProfile)
            and (self.name, self.input_shape) == (other.name, other.input_shape)
            and self.tensor_bytes == other.tensor_bytes
            and self.table.equals(other.table)
        )

    def __hash__(self) -> int:
        return hash((self.name, self.input_shape, self.layers))

    def save(self, path: Path | str) -> None:
        """Write the profile to a parquet file; name and input shape go into its metadata."""
        about = {"name": self.name, "input_shape": self.input_shape}
        save_frame(path, self.table, about | {"tensor_bytes": self.tensor_bytes}, KIND)

    @classmethod
    def load(cls, path: Path | str) -> ModelProfile:
        """Read a profile that `save` wrote.

        Raises
        ------
        ValueError
            The parquet file holds something else.
        """
        table, about = load_frame(path, KIND)
        name, input_shape, sizes = (about[key] for key in ("name", "input_shape", "tensor_bytes"))
        return cls(str(name), _tuples(input_shape), table, _tuples(sizes))  # type: ignore[arg-type]


KIND = "a model profile"


def check_layers(table: pl.DataFrame) -> None:
    """Refuse a table of layers that is empty, repeats a name or holds a hole or a negative."""
    if not len(table):
        raise ValueError("a table of layers has at least one row")
    repeated = table.filter(pl.col("layer").is_duplicated())
    if len(repeated):
        raise ValueError(f"layer names are unique, but {repeated['layer'][0]!r} appears twice")
    for column in table.columns[1:]:
        number = pl.col(column).cast(pl.Float64)
        wrong = table.filter(~((number >= 0) & number.is_finite()).fill_null(False))
        if len(wrong):
            layer, value = wrong["layer"][0], wrong[column][0]
            raise ValueError(f"{column} of layer {layer!r} is {value}, not a number of at least 0")


def save_frame(
    path: Path | str, frame: pl.DataFrame, about: Mapping[str, object], kind: str
) -> None:
    """Write a frame as parquet in one step, with what describes it in the file's metadata."""
    data = io.BytesIO()
    frame.write_parquet(data, metadata={"workbench": json.dumps({"kind": kind, **about})})
    atomic.write_bytes(Path(path), data.getvalue())


def load_frame(path: Path | str, kind: str) -> tuple[pl.DataFrame, dict[str, object]]:
    """Read what `save_frame` wrote, refusing a file of another kind."""
    about = json.loads(pl.read_parquet_metadata(Path(path)).get("workbench", "{}"))
    found = about.pop("kind", "another program's table")
    if found != kind:
        raise ValueError(f"{path} holds not {kind} but {found}")
    return pl.read_parquet(Path(path)), about


def _shared_evenly(size: int, tensors: int) -> tuple[int, ...]:
    each, more = divmod(size, max(tensors, 1))
    return tuple(each + (number < more) for number in range(tensors))


def _tuples(shape: object) -> InputShape:
    assert isinstance(shape, list)
    return tuple(tuple(part) if isinstance(part, list) else part for part in shape)
