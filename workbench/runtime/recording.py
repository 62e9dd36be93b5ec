"""The trace of a simulation."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import polars as pl

from workbench.clusters import Cluster
from workbench.runtime.faults import Crash, Fault, LinkDown, Lossy, Restart, SlowDown
from workbench.runtime.trace import SCHEMA, Trace

Row = tuple[str, str, str, float, float, int]


def trace_of(rows: Sequence[Row], cluster: Cluster, faults: Sequence[Fault], end_s: float) -> Trace:
    """Make a trace of what ended until `end_s`, faults included, in the order of the starts."""
    noted = [*rows, *_fault_rows(cluster, faults, end_s)]
    columns = zip(*noted, strict=True) if noted else ([] for _ in SCHEMA)
    frame = pl.DataFrame(
        [
            pl.Series(name, list(column), dtype=dtype)
            for (name, dtype), column in zip(SCHEMA.items(), columns, strict=True)
        ]
    )
    return Trace(frame.sort("start_s", maintain_order=True))


def _fault_rows(cluster: Cluster, faults: Sequence[Fault], end_s: float) -> list[Row]:
    def row(node: int | str, label: str, from_s: float, to_s: float) -> Row:
        return (cluster.names[cluster.index(node)], "fault", label, from_s, min(to_s, end_s), 0)

    back_s: dict[int, list[float]] = {}
    for fault in faults:
        if isinstance(fault, Restart):
            back_s.setdefault(cluster.index(fault.node), []).append(fault.at_s)
    for times in back_s.values():
        times.sort()
    rows = []
    for fault in faults:
        if isinstance(fault, Crash):
            times = back_s.get(cluster.index(fault.node), [])
            place = bisect_left(times, fault.at_s)
            up_s = times[place] if place < len(times) else end_s
            rows.append(row(fault.node, "down", fault.at_s, up_s))
        elif isinstance(fault, SlowDown):
            label = f"{fault.factor:g} times slower"
            rows.append(row(fault.node, label, fault.from_s, fault.to_s))
        elif isinstance(fault, LinkDown | Lossy):
            what = "down" if isinstance(fault, LinkDown) else "lossy"
            label = f"link to {cluster.names[cluster.index(fault.target)]} {what}"
            rows.append(row(fault.source, label, fault.from_s, fault.to_s))
    return [one for one in rows if one[3] <= one[4]]
