"""Processes beside a training: they load what they should, and leave nothing behind."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import psutil
import pytest

from tests.long import usually
from workbench.edgegossip.prediction import co_runners as module
from workbench.edgegossip.prediction.co_runners import (
    RECORD_BYTES,
    REST,
    SPLIT_BYTES,
    WORD_BYTES,
    WORKLOADS,
    Devices,
    co_runners,
    devices,
)
from workbench.edgegossip.prediction.host_counters import host_counters
from workbench.edgegossip.prediction.profiling_runs import SCHEMA, profiling_runs
from workbench.reproduction.sweep import ExperimentInterrupted
from workbench.runtime import progress
from workbench.utils.files import ROOT

MANY_BYTES = 10**12


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end_s, what
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@dataclass
class Recorded:
    """Devices that keep what goes through them."""

    text: bytes = module._text()
    records: bytes = np.random.default_rng(0).bytes(SPLIT_BYTES + RECORD_BYTES)
    written: list[bytes] = field(default_factory=list)
    exchanged: list[bytes] = field(default_factory=list)

    def read_text(self, size_bytes: int) -> bytes:
        return self.text[:size_bytes]

    def read_records(self, size_bytes: int) -> bytes:
        return self.records[:size_bytes]

    def write_and_read(self, data: bytes) -> None:
        self.written.append(data)

    def exchange(self, data: bytes) -> None:
        self.exchanged.append(data)


class TestSplits:
    @pytest.mark.parametrize("size", [1, 1000, SPLIT_BYTES])
    def test_words_are_counted(self, size: int) -> None:
        own = Recorded()
        module.count_words(size, cast(Devices, own))
        (sent,) = own.exchanged
        words, counts = sent[: len(sent) // 2], sent[len(sent) // 2 :]
        found = np.frombuffer(words, f"S{WORD_BYTES}"), np.frombuffer(counts, np.int64)
        firsts = range(0, size, WORD_BYTES)
        text = [own.text[first : first + WORD_BYTES].rstrip(b"\0") for first in firsts]
        assert dict(zip(*map(np.ndarray.tolist, found), strict=True)) == Counter(text)

    @pytest.mark.parametrize("size", [1, 1000, SPLIT_BYTES])
    def test_records_are_sorted_and_pass_disk_and_network(self, size: int) -> None:
        own = Recorded()
        module.sort_records(size, cast(Devices, own))
        (written,) = own.written
        assert own.exchanged == [written]
        assert size <= len(written) < size + RECORD_BYTES
        firsts = range(0, len(written), RECORD_BYTES)
        records = [written[first : first + RECORD_BYTES] for first in firsts]
        assert records == sorted(own.records[first : first + RECORD_BYTES] for first in firsts)

    def test_data_of_any_size_passes_the_devices(self, monkeypatch: pytest.MonkeyPatch) -> None:
        forced: list[int] = []
        monkeypatch.setattr(os, "fsync", forced.append)
        with devices() as own:
            for size in (1, 3 * SPLIT_BYTES + 1):
                own.write_and_read(bytes(size))
                own.exchange(bytes(size))
            assert forced == [own.input.fileno(), *2 * [own.output.fileno()]]

    def test_a_split_of_input_is_on_the_disk(self) -> None:
        with devices() as own:
            assert own.read_text(SPLIT_BYTES) == module._text()
            records = own.read_records(SPLIT_BYTES + RECORD_BYTES)
            assert SPLIT_BYTES <= len(records) < SPLIT_BYTES + RECORD_BYTES
            assert own.read_records(RECORD_BYTES) == records[:RECORD_BYTES]


@pytest.fixture(scope="class")
def others() -> Iterator[module.CoRunners]:
    with co_runners(1) as running:
        yield running


class TestCoRunners:
    @pytest.mark.parametrize("workload", usually(["sort"], WORKLOADS))
    def test_jobs_use_cores_and_network_until_they_rest(
        self, workload: str, others: module.CoRunners
    ) -> None:
        read = host_counters([others.processes[0].pid or 0])
        before = read()
        others.run(workload, SPLIT_BYTES)
        wait_until(lambda: read().own_busy_s > before.own_busy_s + 0.5, "no job runs")
        others.run(REST, 0)
        time.sleep(0.3)  # what has begun ends
        resting = read()
        assert resting.network_bytes > before.network_bytes + 10_000
        time.sleep(0.3)
        assert read().own_busy_s - resting.own_busy_s < 0.1

    def test_a_job_waits_for_its_turn_and_ends_for_another(self, others: module.CoRunners) -> None:
        read = host_counters([others.processes[0].pid or 0])
        others.run("wordcount", MANY_BYTES)
        others.run("wordcount", 8, 1000.0)  # at once, then for a long time not again
        time.sleep(0.5)
        before = read().own_busy_s
        time.sleep(0.5)
        assert read().own_busy_s - before < 0.1

    def test_one_that_has_ended_is_reported(self) -> None:
        with co_runners(1) as others:
            others.processes[0].kill()
            others.processes[0].join()
            with pytest.raises(RuntimeError, match="a co-runner ended with status -9"):
                others.run("sort", 1)

    @pytest.mark.parametrize(
        "stop", usually([signal.SIGKILL], [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    )
    def test_whatever_ends_the_parent_nothing_is_left(
        self, stop: signal.Signals, tmp_path: Path
    ) -> None:
        code = (
            "import time\n"
            "from workbench.edgegossip.prediction.co_runners import co_runners\n"
            "if __name__ == '__main__':\n"
            "    with co_runners(2) as others:\n"
            f"        others.run('sort', {MANY_BYTES})\n"
            "        print(*[process.pid for process in others.processes], flush=True)\n"
            "        time.sleep(100)\n"
        )
        script = tmp_path / "script.py"
        script.write_text(code)
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen([sys.executable, script], env=environment, **pipes) as parent:
            assert parent.stdout is not None
            pids = list(map(int, parent.stdout.readline().split()))
            assert len(pids) == 2
            assert all(map(alive, pids))
            parent.send_signal(stop)
            parent.wait(60)
        wait_until(lambda: not any(map(alive, pids)), "a process is left")

    @pytest.mark.parametrize(
        ("workload", "size_bytes", "every_s", "message"),
        [
            ("grep", 1, 0.0, "wordcount"),
            ("sort", 1.5, 0.0, "size_"),
            ("sort", 1, math.inf, "every"),
        ],
    )
    def test_refused(self, workload: str, size_bytes: Any, every_s: float, message: str) -> None:
        context = multiprocessing.get_context("spawn")
        others = module.CoRunners([], context.Array("d", 3))
        with pytest.raises(ValueError, match=message):
            others.run(workload, size_bytes, every_s)
        with pytest.raises(ValueError, match="processes is 0"), co_runners(0):
            pass


class TestProfilingRuns:
    def test_a_row_for_each_point_and_repetition(self) -> None:
        frame = profiling_runs([100_000], ("sort",), seconds_per_point=0.3, repeats=2, every_s=0.05)
        assert frame.schema == pl.Schema(SCHEMA)
        assert frame["order"].to_list() == [0, 1, 2, 3]
        for repeat in (0, 1):
            points = frame.filter(repeat=repeat).select("workload", "size_bytes").rows()
            assert sorted(points) == [("none", 0), ("sort", 100_000)]
        assert set(frame["source"]) == {"measured"}
        beside = frame.filter(workload="sort")
        # Twenty times a second, each byte is sent and received once.
        assert (beside["network_bytes_per_s"] > 100_000).all()
        assert frame["core"].is_between(0, 1).all()
        assert (frame["window_s"] >= 0.3).all()
        seconds = frame.select("seconds_per_sample", "sample_s", "report_s")
        assert (seconds > 0).min_horizontal().all()

    def test_an_interrupt_keeps_what_was_measured(self, monkeypatch: pytest.MonkeyPatch) -> None:
        begin = progress.Steps.__call__

        def until_third(steps: progress.Steps, what: str) -> None:
            begin(steps, what)
            if steps.step == 3:
                raise KeyboardInterrupt

        monkeypatch.setattr(progress.Steps, "__call__", until_third)
        others = {child.pid for child in multiprocessing.active_children()}
        with pytest.raises(ExperimentInterrupted) as stopped:
            profiling_runs([1000], ("sort",), seconds_per_point=0.1, repeats=2)
        assert stopped.value.frame.schema == pl.Schema(SCHEMA)
        assert stopped.value.frame["order"].to_list() == [0, 1]
        assert {child.pid for child in multiprocessing.active_children()} <= others

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("sizes", [0]),
            ("seconds_per_point", 0.01),
            ("every_s", math.nan),
            ("repeats", 0),
            ("workloads", ["grep"]),
        ],
    )
    def test_refused(self, name: str, value: object) -> None:
        runs: dict[str, Any] = {"sizes": [1000]}
        with pytest.raises(ValueError, match=name[:4]):
            profiling_runs(**runs | {name: value})
