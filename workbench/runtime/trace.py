"""What ran where and when: the common result of prediction, simulation and measurement."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from workbench.utils import files
from workbench.utils.checks import UserError

if TYPE_CHECKING:
    import altair as alt
    import polars as pl  # not by each process of a measured run, which would start later


Kind = Literal["work", "transfer", "wait", "fault"]
"""What a node does in a span."""

Row = tuple[str, str, str, float, float, int, Kind]
"""Fields of a `Span`, as a plain tuple, which is quicker to make."""


class Span(NamedTuple):
    """One interval on a lane of a node, in seconds."""

    node: str
    lane: str
    label: str
    start_s: float
    end_s: float
    bytes: int = 0
    kind: Kind = "work"


@dataclass(frozen=True)
class Trace:
    """Spans in the order in which they were recorded.

    `frame` has a row for each: ``node, lane, label, start_s, end_s, bytes, kind``; times in
    seconds, kinds as in `Kind`.
    """

    frame: pl.DataFrame

    def __post_init__(self) -> None:
        if self.frame.schema != (schema := _schema()):
            raise UserError(f"a trace has the columns {schema}, not {self.frame.schema}")
        backwards = ~(self.frame["start_s"] <= self.frame["end_s"])
        if backwards.any():
            first = self.frame.filter(backwards).row(0, named=True)
            raise UserError(f"span ends before it starts: {first}")

    @classmethod
    def of(cls, spans: Iterable[Row]) -> Trace:
        """Make a trace of spans, or of plain tuples like them."""
        import polars as pl

        rows, schema = list(spans), _schema()
        columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
        return cls(
            pl.DataFrame(
                [
                    pl.Series(name, column, dtype=dtype)
                    for (name, dtype), column in zip(schema.items(), columns, strict=True)
                ]
            )
        )

    @property
    def end_s(self) -> float:
        """When the last span ends, in seconds; 0 for an empty trace."""
        end_s = self.frame["end_s"].max()
        return float(end_s) if isinstance(end_s, float) else 0.0

    def save(self, path: Path | str) -> None:
        """Write the trace to a parquet file."""
        files.write_parquet(Path(path), self.frame)

    @classmethod
    def load(cls, path: Path | str) -> Trace:
        """Read a trace that `save` wrote."""
        return cls(files.read_parquet(path)[0])

    def gantt(
        self,
        *,
        colour: str = "lane",
        order: Sequence[str] = (),
        title: str | None = None,
        end_s: float | None = None,
    ) -> alt.LayerChart:
        """Draw a row for every lane of every node, as `workbench.runtime.gantt.gantt` says."""
        from workbench.runtime.gantt import gantt

        return gantt(self.frame, colour=colour, order=order, title=title, end_s=end_s)

    def to_chrome(self, path: Path | str) -> None:
        """Write the trace as JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open."""
        files.write_text(Path(path), chrome_trace(self.frame))


def _schema() -> pl.Schema:
    import polars as pl

    types = (pl.String, pl.String, pl.String, pl.Float64, pl.Float64, pl.Int64, pl.String)
    return pl.Schema(zip(Span._fields, types, strict=True))


def chrome_trace(frame: pl.DataFrame) -> str:
    """Write the spans of a trace as JSON: a process per node, a thread per lane.

    Complete events ("ph": "X") of Google's Trace Event Format, in microseconds to three decimals.
    Viewers expect that events of one thread do not overlap: such lanes get several threads.
    """
    from workbench.runtime.gantt import nanoseconds, sublanes

    rows, order = sublanes(frame)
    nodes = {
        node: 1 + place for place, node in enumerate(frame["node"].unique(maintain_order=True))
    }
    threads = {row: 1 + place for place, row in enumerate(order)}

    def name(what: str, named: str, process: int, thread: int) -> dict[str, Any]:
        """Metadata event that names a row; its ids set the row's position."""
        ids = {"pid": process, "tid": thread}
        return {"name": f"{what}_name", "ph": "M", **ids, "args": {"name": named}}

    events = [name("process", node, process, 0) for node, process in nodes.items()]
    events += [name("thread", row[1], nodes[row[0]], thread) for row, thread in threads.items()]
    for row, (node, lane, label, start_s, end_s, size_bytes, _) in zip(
        rows, frame.iter_rows(), strict=True
    ):
        start_ns, end_ns = nanoseconds(start_s), nanoseconds(end_s)
        event: dict[str, Any] = {
            "name": label or lane,
            "cat": lane,
            "ph": "X",
            "ts": start_ns / 1e3,
            "dur": (end_ns - start_ns) / 1e3,
            "pid": nodes[node],
            "tid": threads[row],
        }
        if size_bytes:
            event["args"] = {"bytes": size_bytes}
        events.append(event)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
