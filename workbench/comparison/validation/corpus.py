"""A corpus: a table of times that others measured, and how the workbench predicts a row."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.utils.checks import UserError
from workbench.utils.files import DATA, read_text

Values = NDArray[np.float64]
Constants = Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A corpus.

    Attributes
    ----------
    title, source
        What was measured; where the numbers stand and how the table is made of them.
    file, columns
        The table, and the type of each of its columns that is needed.
    key
        Columns whose hash makes a row one to fit on: one in ten.
    measured, most_s
        Column of what is predicted, in seconds, and a bound on it that tells seconds from
        milliseconds. It is computed where `columns` has it in milliseconds.
    groups
        Column of the sets by which errors are shown.
    constants
        Constant -> (guess, lowest, highest), all above 0; `fit` finds their values. A name with a
        ``{}`` stands for one constant of each value of `by`.
    by
        Makes the values of ``{}`` from a table.
    predict
        Seconds of each row by the constants.
    naive
        Seconds of each row without a cost model: computing alone.
    alike, near
        Columns in which the nearest row that constants are fitted on is equal, and those by
        whose logarithms it is near.
    given
        Selects rows that a predictor may use: not predicted.
    prepare
        Adds what predictions need: a row's computing, from the rows given, or from `tables`. It may
        give rows the role ``apart``: they are listed, and count in no mean.
    tables
        Further files in the same folder, which `prepare` is given as frames.
    without
        Part of the model -> values of constants at which the part does nothing.
    role
        Each row's role, where the hash of its key does not decide that.
    fit
        Fits the constants, where the general fit does not.
    goal
        Mean error that is aimed at.
    kind
        Kind of prediction whose intervals its rows count for: one of `intervals.KINDS`, or "".
    """

    title: str
    source: str
    file: str
    columns: Mapping[str, pl.DataType | type[pl.DataType]]
    key: Sequence[str]
    measured: str
    most_s: float
    groups: str
    constants: Mapping[str, tuple[float, float, float]]
    predict: Callable[[pl.DataFrame, Constants], Values]
    naive: Callable[[pl.DataFrame], Values]
    alike: Sequence[str]
    near: Sequence[str]
    goal: float
    by: Callable[[pl.DataFrame], Sequence[str]] = lambda table: ()
    given: pl.Expr = field(default_factory=lambda: pl.lit(value=False))
    prepare: Callable[..., pl.DataFrame] = lambda table: table
    tables: Sequence[str] = ()
    without: Mapping[str, Constants] = field(default_factory=dict)
    role: pl.Expr | None = None
    fit: Callable[[pl.DataFrame], dict[str, float]] | None = None
    kind: str = ""

    def read(self, folder: Path) -> pl.DataFrame:
        """Read the table, with the role and the half of each row, and prepare it.

        Raises UserError: the file is missing, or another; a column is missing;
        a value is out of range; a role is not what its key says.
        """
        path = folder / self.file
        if not path.is_file() and (DATA / "measured" / self.file).is_file():
            path = DATA / "measured" / self.file
        if not path.is_file():
            raise UserError(f"{path}: there is no such file. {self.source}")
        try:
            texts = pl.read_csv(io.StringIO(read_text(path)), infer_schema=False)
        except pl.exceptions.PolarsError as error:
            raise UserError(f"{path} is not a table in CSV: {error}") from None
        for name in self.columns:
            if name not in texts.columns:
                has = ", ".join(texts.columns)
                raise UserError(f"{path} lacks the column {name}; it has {has}. {self.source}")
        try:
            table = texts.with_columns(
                pl.col(name).cast(kind) if kind != pl.Boolean else pl.col(name) == "true"
                for name, kind in self.columns.items()
            )
        except pl.exceptions.PolarsError as error:
            raise UserError(f"{path}: {error}; numbers have a point and no unit") from None
        milliseconds = self.measured.removesuffix("_s") + "_ms"
        if milliseconds in self.columns:
            table = table.with_columns((pl.col(milliseconds) / 1000).alias(self.measured))
        wrong = (~pl.col(self.measured).is_between(1e-9, self.most_s)).fill_null(value=True)
        numbered = table.with_row_index("line", 2).filter(wrong)
        for number, value in numbered.select("line", self.measured).iter_rows():
            raise UserError(
                f"{path}, line {number}: {self.measured} is {value}; it is in seconds, above 0 and "
                f"at most {self.most_s:g}"
            )
        others = [_read(folder / name, self.source) for name in self.tables]
        keys = texts.select(pl.concat_str(pl.col(self.key).fill_null(""), separator=","))
        numbers = [hashed(key) for (key,) in keys.iter_rows()]
        table = table.with_columns(
            role=self._roles(texts, table, numbers, path),
            half=pl.Series([number // 10 % 2 for number in numbers], dtype=pl.Int64),
        )
        return self.prepare(table, *others)

    def _roles(
        self, texts: pl.DataFrame, table: pl.DataFrame, numbers: Sequence[int], path: Path
    ) -> pl.Series:
        if self.role is not None:
            return table.with_columns(role=self.role)["role"]
        roles = table.select(
            pl.when(self.given)
            .then(pl.lit("given"))
            .when(pl.Series([number % 10 == 0 for number in numbers]))
            .then(pl.lit("fit"))
            .otherwise(pl.lit("predict"))
            .alias("role")
        )["role"]
        if "role" in texts.columns:
            for number, (stated, role) in enumerate(zip(texts["role"], roles, strict=True), 2):
                if stated != role:
                    raise UserError(
                        f"{path}, line {number}: the role is {stated!r}, but by its key "
                        f"({', '.join(self.key)}) it is {role!r}"
                    )
        return roles


def _read(path: Path, source: str) -> pl.DataFrame:
    if not path.is_file():
        raise UserError(f"{path}: there is no such file. {source}")
    return pl.read_csv(path)


def hashed(key: str) -> int:
    """SHA-256 of a key as a number: by its last digit 0, constants are fitted on the row.

    By the digit before, even or odd, the row is in one half or the other.
    """
    return int(hashlib.sha256(key.encode()).hexdigest(), 16)
