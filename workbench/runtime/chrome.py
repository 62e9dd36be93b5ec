"""A trace as Chrome trace events, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl


def chrome_trace(frame: pl.DataFrame) -> str:
    """Write the spans of a trace as JSON: a process per node, a thread per lane.

    Complete events ("ph": "X") in microseconds, after Google's Trace Event Format; rows keep
    the order in which nodes and lanes first appear.
    """
    nodes: dict[str, int] = {}
    lanes: dict[tuple[str, str], int] = {}
    events: list[dict[str, Any]] = []
    for node, lane, label, start_s, end_s, size_bytes in frame.iter_rows():
        process = nodes.setdefault(node, len(nodes) + 1)
        thread = lanes.setdefault((node, lane), len(lanes) + 1)
        event: dict[str, Any] = {
            "name": label or lane,
            "cat": lane,
            "ph": "X",
            "ts": start_s * 1e6,
            "dur": (end_s - start_s) * 1e6,
            "pid": process,
            "tid": thread,
        }
        if size_bytes:
            event["args"] = {"bytes": size_bytes}
        events.append(event)
    named = [_name("process", node, process, 0) for node, process in nodes.items()]
    named += [_name("thread", lane, nodes[node], thread) for (node, lane), thread in lanes.items()]
    return json.dumps({"traceEvents": named + events, "displayTimeUnit": "ms"})


def _name(what: str, name: str, process: int, thread: int) -> dict[str, Any]:
    """Metadata: what Perfetto calls a row, and (by its ids) where it stands."""
    return {
        "name": f"{what}_name",
        "ph": "M",
        "pid": process,
        "tid": thread,
        "args": {"name": name},
    }
