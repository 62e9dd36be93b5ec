"""A trace as Chrome trace events, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from workbench.runtime.sublanes import nanoseconds, sublanes

if TYPE_CHECKING:
    import polars as pl


def chrome_trace(frame: pl.DataFrame) -> str:
    """Write the spans of a trace as JSON: a process per node, a thread per lane.

    Complete events ("ph": "X") of Google's Trace Event Format, in microseconds to three decimals.
    Viewers expect that events of one thread do not overlap: such lanes get several threads.
    """
    rows, order = sublanes(frame)
    nodes = {
        node: 1 + place for place, node in enumerate(frame["node"].unique(maintain_order=True))
    }
    threads = {row: 1 + place for place, row in enumerate(order)}
    events: list[dict[str, Any]] = []
    for row, (node, lane, label, start_s, end_s, size_bytes) in zip(
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
    named = [_name("process", node, process, 0) for node, process in nodes.items()]
    named += [
        _name("thread", lane, nodes[node], thread) for (node, lane), thread in threads.items()
    ]
    return json.dumps({"traceEvents": named + events, "displayTimeUnit": "ms"})


def _name(what: str, name: str, process: int, thread: int) -> dict[str, Any]:
    """Metadata event that names a row; its ids set the row's position."""
    return {
        "name": f"{what}_name",
        "ph": "M",
        "pid": process,
        "tid": thread,
        "args": {"name": name},
    }
