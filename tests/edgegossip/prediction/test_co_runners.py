"""Processes beside a training: they load what they should, and leave nothing behind."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import psutil
import pytest

from tests.edgegossip.prediction.stand_in import learn_nothing
from tests.refusals import refusals
from workbench.edgegossip.prediction import co_runners as module
from workbench.edgegossip.prediction.co_runners import (
    RECORD_BYTES,
    SPLIT_BYTES,
    WORD_BYTES,
    WORKLOADS,
    CoRunners,
    Devices,
    co_runners,
    devices,
)
from workbench.edgegossip.prediction.host_counters import host_counters
from workbench.edgegossip.prediction.monitor import Monitor, read_reports
from workbench.edgegossip.prediction.profiling_runs import SCHEMA, profiling_runs
from workbench.reproduction.sweep import ExperimentInterrupted
from workbench.runtime import progress
from workbench.utils.files import ROOT

SIZES = [1, 1000, SPLIT_BYTES]
MANY_BYTES = 10**12


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end_s, what
        time.sleep(0.02)


def children() -> set[int]:
    return {one.pid for one in psutil.Process().children(recursive=True)}


def alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait_until_gone(pids: set[int]) -> None:
    wait_until(lambda: not any(map(alive, pids)), "a process is left")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go; PyTorch makes a folder of its own there."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def left_in(folder: Path) -> list[Path]:
    return list(folder.glob("workbench-*"))


@dataclass
class Recorded:
    """Devices that keep what goes through them."""

    written: list[bytes] = field(default_factory=list)
    exchanged: list[bytes] = field(default_factory=list)

    def write_and_read(self, data: bytes) -> None:
        self.written.append(data)

    def exchange(self, data: bytes) -> None:
        self.exchanged.append(data)


class TestSplits:
    @pytest.mark.parametrize("size", SIZES)
    def test_words_are_counted(self, size: int) -> None:
        own = Recorded()
        module.count_words(size, cast(Devices, own))
        (sent,) = own.exchanged
        words, counts = sent[: len(sent) // 2], sent[len(sent) // 2 :]
        found = np.frombuffer(words, f"S{WORD_BYTES}"), np.frombuffer(counts, np.int64)
        text = module._text()[: -(-size // WORD_BYTES)].tolist()
        assert dict(zip(*map(np.ndarray.tolist, found), strict=True)) == Counter(text)

    @pytest.mark.parametrize("size", SIZES)
    def test_records_are_sorted_and_pass_disk_and_network(self, size: int) -> None:
        own = Recorded()
        module.sort_records(size, cast(Devices, own))
        (written,) = own.written
        assert own.exchanged == [written]
        assert size <= len(written) < size + RECORD_BYTES
        firsts = range(0, len(written), RECORD_BYTES)
        records = [written[first : first + RECORD_BYTES] for first in firsts]
        assert records == sorted(records)

    def test_data_of_any_size_passes_the_devices(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        forced: list[int] = []
        monkeypatch.setattr(os, "fsync", forced.append)
        with devices(tmp_path) as own:
            for size in (1, 3 * SPLIT_BYTES + 1):
                own.write_and_read(bytes(size))
                own.exchange(bytes(size))
            assert forced == 2 * [own.file.fileno()]
        assert list(tmp_path.iterdir()) == []


@dataclass
class Seen:
    """What a monitor that takes nothing off saw, and what the processes say of themselves."""

    busy_s: float
    network_bytes: float
    disk_bytes: float
    own_busy_s: float
    own_disk_bytes: float
    jobs: int


def watched(folder: Path, workload: str, size_bytes: int) -> Seen:
    """Run jobs in a process for half a second of a core."""
    reports = folder / "reports.jsonl"
    with co_runners(1) as others:
        others.rest()  # it has started
        read_own = host_counters([others.processes[0].pid])
        with Monitor("here", reports, source=host_counters(()), interval_s=0.02) as monitor:
            wait_until(lambda: len(monitor.sample_s) > 0, "no reading")
            before = read_own()
            others.run(workload, size_bytes)
            wait_until(lambda: read_own().own_busy_s > before.own_busy_s + 0.5, "no job runs")
            (jobs,) = others.rest()
            after, readings = read_own(), len(monitor.sample_s)
            wait_until(lambda: len(monitor.sample_s) > readings + 1, "no reading")
    (row,) = read_reports(reports).to_dicts()
    seconds = row["window_s"]
    return Seen(
        row["core"] * seconds * (os.cpu_count() or 1),
        row["network_bytes_per_s"] * seconds,
        row["disk_bytes_per_s"] * seconds,
        after.own_busy_s - before.own_busy_s,
        after.own_disk_bytes - before.own_disk_bytes,
        jobs,
    )


class TestLoad:
    @pytest.mark.parametrize("workload", WORKLOADS)
    def test_cores_and_network_are_seen(self, workload: str, tmp_path: Path) -> None:
        seen = watched(tmp_path, workload, 50_000)
        assert seen.jobs > 0
        assert seen.busy_s > seen.own_busy_s - 0.1  # good to a few ticks
        sent_bytes = 50_000 if workload == "sort" else 16 * 1000
        assert seen.network_bytes > 0.99 * 2 * seen.jobs * sent_bytes  # sent and received

    def test_the_disk_is_seen(self, tmp_path: Path) -> None:
        read = host_counters(())
        before = read()
        with devices(tempfile.gettempdir()) as own:
            own.write_and_read(bytes(SPLIT_BYTES))
        if read().disk_bytes < before.disk_bytes + SPLIT_BYTES:
            pytest.skip("no counters of the disk with the temporary files")
        seen = watched(tmp_path, "sort", 2 * SPLIT_BYTES)
        assert seen.jobs > 0
        for disk_bytes in (seen.disk_bytes, seen.own_disk_bytes):
            assert disk_bytes > 0.99 * 2 * SPLIT_BYTES * seen.jobs

    def test_nothing_is_used_at_rest(self) -> None:
        with co_runners(2) as others:
            others.run("sort", 1000)
            others.rest()
            read = host_counters([process.pid for process in others.processes])
            before = read()
            time.sleep(0.3)
            after = read()
        assert after.own_busy_s - before.own_busy_s < 0.1
        assert after.own_disk_bytes == before.own_disk_bytes


class TestCoRunners:
    def test_a_command_ends_the_job_before(self) -> None:
        with co_runners(2) as others:
            assert others.run("sort", MANY_BYTES) == [0, 0]
            assert others.run("wordcount", 1000) == [0, 0]
            time.sleep(0.1)
            assert min(others.rest()) > 0
            assert others.rest() == [0, 0]

    def test_each_job_has_its_turn(self, tmp_path: Path) -> None:
        requests, sender = os.pipe()
        at_s, sizes = [], []

        def split(size_bytes: int, own: Any) -> None:
            at_s.append(time.monotonic())
            sizes.append(size_bytes)
            if len(sizes) == 8:
                os.write(sender, b"another")

        start_s = time.monotonic()
        size_bytes = SPLIT_BYTES + 10
        assert module._repeat(split, size_bytes, 0.05, cast(Devices, None), requests) == 3
        os.close(requests)
        os.close(sender)
        assert sizes == 4 * [SPLIT_BYTES, 10]
        for job in range(4):
            assert at_s[2 * job] >= start_s + 0.05 * job - 0.01

    def test_why_one_ended_is_in_the_error(self) -> None:
        with co_runners(1) as others:
            others.processes[0].ask("nonsense 1 1")
            with pytest.raises(RuntimeError, match=r"co_runners.serve .* status 1: .*nonsense"):
                others.rest()

    def test_an_error_leaves_nothing(self, folder: Path) -> None:
        def fail() -> None:
            with co_runners(2) as others:
                others.run("sort", MANY_BYTES)
                pids.update(process.pid for process in others.processes)
                assert left_in(folder)
                raise ZeroDivisionError

        pids = set[int]()
        with pytest.raises(ZeroDivisionError):
            fail()
        assert len(pids) == 2
        assert not any(map(alive, pids))
        assert left_in(folder) == []

    @pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    def test_whatever_ends_the_parent_nothing_is_left(
        self, stop: signal.Signals, folder: Path
    ) -> None:
        code = (
            "import sys, time\n"
            "from workbench.edgegossip.prediction.co_runners import co_runners\n"
            "with co_runners(2) as others:\n"
            f"    others.run('sort', {MANY_BYTES})\n"
            "    (others.folder / 'file').touch()\n"
            "    print(*(process.pid for process in others.processes), flush=True)\n"
            "    time.sleep(100)"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as parent:
            assert parent.stdout is not None
            pids = set(map(int, parent.stdout.readline().split()))
            assert left_in(folder)
            parent.send_signal(stop)
            assert parent.wait(30) != 0
        assert len(pids) == 2
        wait_until_gone(pids)
        assert left_in(folder) == []


class TestProfilingRuns:
    def test_a_row_for_each_point_and_repetition(self, folder: Path) -> None:
        before = children()
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
        assert (
            (frame.select("seconds_per_sample", "sample_s", "report_s") > 0).min_horizontal().all()
        )
        assert children() == before
        assert left_in(folder) == []

    def test_an_interrupt_keeps_what_was_measured(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before, begin = children(), progress.Steps.__call__

        def until_third(steps: progress.Steps, what: str) -> None:
            begin(steps, what)
            if steps.step == 3:
                raise KeyboardInterrupt

        monkeypatch.setattr(progress.Steps, "__call__", until_third)
        monkeypatch.setattr(sys.modules[profiling_runs.__module__], "train_lenet", learn_nothing)
        with pytest.raises(ExperimentInterrupted) as stopped:
            profiling_runs([1000], ("sort",), seconds_per_point=0.1, repeats=2)
        assert stopped.value.frame.schema == pl.Schema(SCHEMA)
        assert stopped.value.frame["order"].to_list() == [0, 1]
        assert children() == before
        assert left_in(folder) == []

    def test_a_kill_leaves_nothing(self, folder: Path) -> None:
        code = (
            "from tests.edgegossip.prediction.stand_in import learn_nothing\n"
            "from workbench.edgegossip.prediction import profiling_runs as module\n"
            "module.train_lenet = learn_nothing\n"
            f"module.profiling_runs([{MANY_BYTES}], ('sort',), seconds_per_point=100)"
        )
        parent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL, cwd=ROOT)
        below: set[int] = set()

        def started() -> bool:
            with contextlib.suppress(psutil.NoSuchProcess):
                below.update(one.pid for one in psutil.Process(parent.pid).children(recursive=True))
            return len(below) > (os.cpu_count() or 1)  # the training starts last

        try:
            wait_until(started, "no training began")
            assert left_in(folder)
        finally:
            parent.kill()
            parent.wait()
        wait_until_gone(below)
        assert left_in(folder) == []


def test_at_least_one_process_runs() -> None:
    with pytest.raises(ValueError, match="processes is 0"), co_runners(0):
        pass


test_run_refused = refusals(
    CoRunners([cast(Any, SimpleNamespace(send=str, receive=int))], Path()).run,
    {"workload": "sort", "size_bytes": 1},
    {
        "workload": {"wordcount": ["grep"]},
        "size_bytes": {"size_bytes is": [1.5]},
        "every_s": {"every_s is": [math.inf]},
    },
)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sizes": [0]}, "a size is 0"),
        ({"sizes": [1.5]}, "a size is 1.5"),
        ({"seconds_per_point": 0.01}, "seconds_per_point is 0.01"),
        ({"every_s": math.nan}, "every_s is nan"),
        ({"repeats": 0}, "repeats is 0"),
        ({"workloads": ["grep"]}, "wordcount"),
    ],
)
def test_profiling_runs_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        profiling_runs(**({"sizes": [1000]} | changed))
