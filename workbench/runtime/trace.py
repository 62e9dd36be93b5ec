"""What ran where and when: the common result of prediction, simulation and measurement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from workbench import atomic
from workbench.errors import UserError
from workbench.runtime.chrome import chrome_trace

if TYPE_CHECKING:
    import altair as alt

SCHEMA = {
    "node": pl.String,
    "lane": pl.String,
    "label": pl.String,
    "start_s": pl.Float64,
    "end_s": pl.Float64,
    "bytes": pl.Int64,
}


class Span(NamedTuple):
    """One interval on a lane of a node, in seconds."""

    node: str
    lane: str
    label: str
    start_s: float
    end_s: float
    bytes: int = 0


@dataclass(frozen=True)
class Trace:
    """Spans in the order in which they were recorded.

    `frame` has a row for each: ``node, lane, label, start_s, end_s, bytes``; times in seconds.
    """

    frame: pl.DataFrame

    def __post_init__(self) -> None:
        if dict(self.frame.schema) != SCHEMA:
            raise UserError(f"a trace has the columns {SCHEMA}, not {dict(self.frame.schema)}")
        backwards = self.frame.filter(~(pl.col("start_s") <= pl.col("end_s")))
        if len(backwards):
            raise UserError(f"span ends before it starts: {backwards.row(0, named=True)}")

    @classmethod
    def of(cls, spans: Iterable[Span]) -> Trace:
        """Make a trace of spans."""
        return cls(pl.DataFrame(list(spans), schema=SCHEMA, orient="row"))

    @property
    def end_s(self) -> float:
        """When the last span ends, in seconds; 0 for an empty trace."""
        end_s = self.frame["end_s"].max()
        return float(end_s) if isinstance(end_s, float) else 0.0

    def save(self, path: Path | str) -> None:
        """Write the trace to a parquet file, in a folder that is there."""
        _check_folder(path)
        atomic.write_parquet(Path(path), self.frame)

    @classmethod
    def load(cls, path: Path | str) -> Trace:
        """Read a trace that `save` wrote."""
        return cls(pl.read_parquet(path))

    def gantt(
        self,
        *,
        colour: str = "lane",
        order: Sequence[str] = (),
        title: str | None = None,
        end_s: float | None = None,
        column: str = "double",
    ) -> alt.LayerChart:
        """Draw a row for every lane of every node, a bar for every span.

        Options as of `workbench.runtime.gantt.gantt`.
        """
        from workbench.runtime.gantt import gantt

        return gantt(
            self.frame, colour=colour, order=order, title=title, end_s=end_s, column=column
        )

    def to_chrome(self, path: Path | str) -> None:
        """Write the trace as JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open."""
        _check_folder(path)
        atomic.write_text(Path(path), chrome_trace(self.frame))


def _check_folder(path: Path | str) -> None:
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder} to write {Path(path).name} to")
