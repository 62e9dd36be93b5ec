"""A table with a row per layer of one model, which can be compared and kept in a file."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, ClassVar, Self

import polars as pl

from workbench import atomic
from workbench.errors import UserError


class LayerTable:
    """What tables of layers have in common; a base of frozen dataclasses.

    `SCHEMA` holds the columns of `table`, ``layer`` first and numbers of at least 0 behind it,
    `KIND` what it is called. All other fields describe it.
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
        data = io.BytesIO()
        about = json.dumps({"kind": self.KIND, **self._about()})
        self.table.write_parquet(data, metadata={"workbench": about})
        atomic.write_bytes(Path(path), data.getvalue())

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what `save` wrote; a `ValueError` where the file holds something else."""
        about = json.loads(pl.read_parquet_metadata(Path(path)).get("workbench", "{}"))
        found = about.pop("kind", "another program's table")
        if found != cls.KIND:
            raise UserError(f"{path} holds not {cls.KIND} but {found}")
        return cls(table=pl.read_parquet(Path(path)), **about)  # type: ignore[call-arg]

    def _about(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "table"}
