from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.runtime import busy
from workbench.runtime import Span, Trace


@pytest.fixture(scope="module")
def trace() -> Trace:
    run = busy.run()
    assert run.trace is not None
    return run.trace


def test_of_a_run_is_in_the_order_of_the_starts(trace: Trace) -> None:
    assert trace.frame["start_s"].is_sorted()
    assert trace.frame["bytes"].dtype == pl.Int64


def test_parquet_in_and_out(trace: Trace, tmp_path: Path) -> None:
    trace.save(tmp_path / "trace.parquet")
    assert Trace.load(tmp_path / "trace.parquet").frame.equals(trace.frame)


def test_draws_as_a_gantt_chart(trace: Trace) -> None:
    assert "node3 · to node0" in json.dumps(trace.gantt().to_dict(), ensure_ascii=False)
    given: dict[str, Any] = {
        "colour": "node",
        "title": "all",
        "end_s": trace.end_s + 1,
    }
    for name, value in given.items():
        assert trace.gantt(**{name: value}).to_dict() != trace.gantt().to_dict()


class TestChrome:
    def test_by_hand(self, tmp_path: Path) -> None:
        path = tmp_path / "trace.json"
        Trace.of(
            [Span("a", "compute", "f", 0.0, 1.5), Span("b", "to a", "", 1.5, 2.0, 800)]
        ).to_chrome(path)
        assert json.loads(path.read_text())["traceEvents"] == [
            {"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": "a"}},
            {"name": "process_name", "ph": "M", "pid": 2, "tid": 0, "args": {"name": "b"}},
            {"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "compute"}},
            {"name": "thread_name", "ph": "M", "pid": 2, "tid": 2, "args": {"name": "to a"}},
            {"name": "f", "cat": "compute", "ph": "X", "ts": 0, "dur": 1.5e6, "pid": 1, "tid": 1},
            {
                "name": "to a",
                "cat": "to a",
                "ph": "X",
                "ts": 1.5e6,
                "dur": 0.5e6,
                "pid": 2,
                "tid": 2,
                "args": {"bytes": 800},
            },
        ]

    def test_holds_every_span(self, trace: Trace, tmp_path: Path) -> None:
        trace.to_chrome(tmp_path / "trace.json")
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        spans = [event for event in events if event["ph"] == "X"]
        assert len(spans) == len(trace.frame)
        rows = {event["tid"] for event in events if event["name"] == "thread_name"}
        assert {event["tid"] for event in spans} == rows
        assert sum(event.get("args", {}).get("bytes", 0) for event in spans) == sum(
            trace.frame["bytes"]
        )


def test_no_folder_is_made_for_a_trace(tmp_path: Path) -> None:
    trace = Trace.of([Span("a", "compute", "", 0, 1)])
    for write in (trace.save, trace.to_chrome):
        with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere to write t to"):
            write(tmp_path / "nowhere" / "t")
    assert not list(tmp_path.iterdir())
