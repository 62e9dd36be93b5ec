"""Traces: in and out of files, and rows of their own for spans that overlap on a lane."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles.runtime import most_at_once
from tests.runtime import busy
from workbench.runtime import Span, Trace
from workbench.runtime.trace import chrome_trace

NANOSECONDS = st.integers(0, 40) | st.integers(0, 10**12)


@st.composite
def traces(draw: st.DrawFn) -> list[Span]:
    spans = []
    for number in range(draw(st.integers(0, 30))):
        node, lane = draw(st.sampled_from("ab")), draw(st.sampled_from(["x", "x 2", "y"]))
        start_ns = draw(NANOSECONDS)
        length_ns = draw(st.just(0) | st.integers(1, 20) | NANOSECONDS)
        span = Span(node, lane, str(number), start_ns / 1e9, (start_ns + length_ns) / 1e9, number)
        spans.append(span)
    return spans


@settings(deadline=None)
@given(traces())
def test_threads_hold_every_span_once_and_no_two_at_a_time(spans: list[Span]) -> None:
    events = json.loads(chrome_trace(Trace.of(spans).frame))["traceEvents"]
    names = {event["tid"]: event for event in events if event["name"] == "thread_name"}
    threads: dict[int, list[tuple[int, int]]] = {thread: [] for thread in names}
    found = []
    for event in events:
        if event["ph"] != "X":
            continue
        start_ns = round(event["ts"] * 1e3)
        end_ns = start_ns + round(event["dur"] * 1e3)
        for other_start_ns, other_end_ns in threads[event["tid"]]:
            assert start_ns >= other_end_ns or other_start_ns >= end_ns
        threads[event["tid"]].append((start_ns, end_ns))
        assert names[event["tid"]]["pid"] == event["pid"]
        found.append((event["cat"], event["name"], start_ns, end_ns))
    assert found == [
        (span.lane, span.label, round(span.start_s * 1e9), round(span.end_s * 1e9))
        for span in spans
    ]
    assert len({(event["pid"], event["args"]["name"]) for event in names.values()}) == len(names)
    lanes: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for span in spans:
        times = round(span.start_s * 1e9), round(span.end_s * 1e9)
        lanes.setdefault((span.node, span.lane), []).append(times)
    assert len(names) == sum(map(most_at_once, lanes.values()))


def chart(spans: list[Span]) -> tuple[list[str], list[dict[str, Any]]]:
    """Rows of the Gantt chart, and its bars."""
    spec = Trace.of(spans).gantt().to_dict()
    rows: list[str] = spec["layer"][0]["encoding"]["y"]["scale"]["domain"]
    bars: list[dict[str, Any]] = next(iter(spec["datasets"].values()), [])
    return rows, bars


@settings(max_examples=30, deadline=None)
@given(traces())
def test_the_chart_has_the_same_rows(spans: list[Span]) -> None:
    events = json.loads(chrome_trace(Trace.of(spans).frame))["traceEvents"]
    threads = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    rows, bars = chart(spans)
    assert [row.split(" · ")[-1] for row in rows] == threads
    assert [bar["label"] for bar in bars] == [span.label for span in spans]
    row_of = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    placed = [row_of[event["tid"]] for event in events if event["ph"] == "X"]
    assert [bar["row"].split(" · ")[-1] for bar in bars] == placed


def rows_of(*spans: tuple[float, float]) -> list[str]:
    """Row of each span of one lane."""
    _, bars = chart([Span("node", "cpu", str(n), *times) for n, times in enumerate(spans)])
    return [bar["row"] for bar in bars]


def test_rows_by_hand() -> None:
    assert rows_of((0, 2), (1, 3), (2, 4), (3, 5)) == ["cpu", "cpu 2", "cpu", "cpu 2"]
    assert rows_of((1, 3), (0, 2)) == ["cpu 2", "cpu"]
    assert rows_of((0, 1), (0, 2), (3, 4)) == ["cpu", "cpu 2", "cpu"]
    assert rows_of((0, 2), (1, 1), (1, 1), (1, 2)) == ["cpu", "cpu 2", "cpu 2", "cpu 2"]
    assert rows_of((0, 0), (0, 1), (1, 1), (1, 2)) == ["cpu"] * 4
    assert rows_of((0, 0.1 + 0.2), (0.3, 0.4)) == ["cpu", "cpu"]  # which rounding lets overlap


def test_a_row_bears_no_other_lanes_name() -> None:
    spans = [Span("a", lane, "", 0, 1) for lane in ("x", "x", "x 2", "x 2")]
    assert chart(spans)[0] == ["x", "x 3", "x 2", "x 2 2"]


def test_a_trace_of_a_run_is_in_the_order_of_its_starts_and_can_be_saved(tmp_path: Path) -> None:
    trace = busy.run().trace
    assert trace is not None
    assert trace.frame["start_s"].is_sorted()
    assert trace.frame["bytes"].dtype == pl.Int64
    trace.save(tmp_path / "trace.parquet")
    assert Trace.load(tmp_path / "trace.parquet").frame.equals(trace.frame)


def test_events_of_chrome_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    spans = [Span("a", "compute", "f", 0.0, 1.5), Span("b", "to a", "", 1.5, 2.0, 800)]
    Trace.of(spans).to_chrome(path)
    sent = {"name": "to a", "cat": "to a", "ph": "X", "ts": 1.5e6, "dur": 0.5e6}
    assert json.loads(path.read_text())["traceEvents"] == [
        {"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": "a"}},
        {"name": "process_name", "ph": "M", "pid": 2, "tid": 0, "args": {"name": "b"}},
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "compute"}},
        {"name": "thread_name", "ph": "M", "pid": 2, "tid": 2, "args": {"name": "to a"}},
        {"name": "f", "cat": "compute", "ph": "X", "ts": 0, "dur": 1.5e6, "pid": 1, "tid": 1},
        {**sent, "pid": 2, "tid": 2, "args": {"bytes": 800}},
    ]
