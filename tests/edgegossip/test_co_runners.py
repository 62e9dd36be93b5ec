"""Jobs beside the training: that they do their work, and leave nothing behind."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import polars as pl
import psutil
import pytest

from workbench.edgegossip import co_runners, profiling_runs
from workbench.edgegossip.co_runners import PIECE_BYTES, RECORD_BYTES, sort, word_count
from workbench.edgegossip.helper_process import helper
from workbench.edgegossip.profiling_runs import SCHEMA
from workbench.names import UnknownNameError


class TestJobs:
    @pytest.mark.parametrize("size", [1, 1000, 2 * PIECE_BYTES + 5])
    def test_words_are_counted(self, size: int, tmp_path: Path) -> None:
        *_, counts = word_count(size, tmp_path)
        expected: Counter[bytes] = Counter()
        text = co_runners._text()
        while size > 0:
            for word in text[:size].split():
                expected[word] += 1
            size -= len(text)
        assert counts == expected
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("size", [1, 12 * RECORD_BYTES, 2 * PIECE_BYTES + 5])
    def test_records_are_sorted(self, size: int, tmp_path: Path) -> None:
        merged, count = b"", max(1, size // RECORD_BYTES)
        for dealt in sort(size, tmp_path):
            if dealt >= 2 * count * RECORD_BYTES:
                merged = next(tmp_path.glob("*-merged")).read_bytes()
        records = [merged[at : at + RECORD_BYTES] for at in range(0, len(merged), RECORD_BYTES)]
        assert records == sorted(records)
        assert len(set(records)) == count
        assert list(tmp_path.iterdir()) == []

    def test_a_job_that_is_left_clears_its_files(self, tmp_path: Path) -> None:
        job = sort(3 * PIECE_BYTES, tmp_path)
        next(job)
        assert list(tmp_path.iterdir())
        job.close()  # type: ignore[attr-defined]
        assert list(tmp_path.iterdir()) == []

    def test_not_more_files_than_a_process_may_open(self, tmp_path: Path) -> None:
        most = 0
        for _ in sort(co_runners.MOST_RUNS * 2 * PIECE_BYTES, tmp_path):
            most = max(most, len(list(tmp_path.iterdir())))
            if most > co_runners.MOST_RUNS // 2:
                break
        assert most > co_runners.MOST_RUNS // 2


def children() -> set[int]:
    return {one.pid for one in psutil.Process().children(recursive=True)}


def wait_until_gone(pids: set[int]) -> None:
    end_s = time.monotonic() + 30
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < end_s, "a process is left"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go; PyTorch makes a folder of its own there."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


class TestHelper:
    def test_a_command_ends_the_job_before(self, tmp_path: Path) -> None:
        with helper("workbench.edgegossip.co_runners", str(tmp_path)) as worker:
            assert worker.ask(b"sort 1000000000 1\n") == "begun"
            end_s = time.monotonic() + 30
            while not list(tmp_path.iterdir()):
                assert time.monotonic() < end_s, "no file was written"
                time.sleep(0.01)
            assert worker.ask(b"none 0 0\n") == "begun"
            assert list(tmp_path.iterdir()) == []
        assert not alive(worker.pid)

    def test_why_it_ended_is_told(self, tmp_path: Path) -> None:
        with helper("workbench.edgegossip.co_runners", str(tmp_path)) as worker:
            worker.ask(b"none 0 0\n")
            worker.tell(b"nonsense 1 1\n")
            worker.answer()
            with pytest.raises(RuntimeError, match=r"co_runners .* status 1: KeyError: 'nonsense'"):
                worker.answer()

    def test_it_ends_when_its_master_is_gone(self, tmp_path: Path) -> None:
        with helper("workbench.edgegossip.co_runners", str(tmp_path)) as worker:
            worker.ask(b"sort 1000000000 1\n")
            assert worker.process.stdin is not None
            worker.process.stdin.close()  # as when the process at its other end is killed
            assert worker.process.wait(30) == 0
            worker.process.stdin = None
        assert list(tmp_path.iterdir()) == []


class TestProfilingRuns:
    def test_a_row_for_each_point_and_repetition(self, folder: Path) -> None:
        before = children()
        frame = profiling_runs.profiling_runs(
            [100_000], ("sort",), seconds_per_point=0.3, repeats=2, every_s=0.05
        )
        assert frame.schema == pl.Schema(SCHEMA)
        assert frame["order"].to_list() == [0, 1, 2, 3]
        for repeat in (0, 1):
            points = frame.filter(repeat=repeat).select("workload", "size_bytes").rows()
            assert sorted(points) == [("none", 0), ("sort", 100_000)]
        assert set(frame["source"]) == {"measured"}
        assert frame["core"].is_between(0, 1).all()
        assert (frame["window_s"] >= 0.3).all()
        assert (
            (frame.select("seconds_per_sample", "sample_s", "report_s") > 0).min_horizontal().all()
        )
        assert children() == before
        assert list(folder.glob("workbench-*")) == []

    def test_a_failure_leaves_nothing(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        before, seen = children(), set[int]()

        def broken(*given: object) -> None:
            seen.update(children() - before)
            raise OSError("no counters")

        monkeypatch.setattr(profiling_runs, "between", broken)
        with pytest.raises(OSError, match="no counters"):
            profiling_runs.profiling_runs([10**9], ("sort",), seconds_per_point=0.2, repeats=1)
        assert len(seen) >= 3  # it had begun
        assert not any(map(alive, seen))
        assert list(folder.glob("workbench-*")) == []

    def test_an_interrupt_leaves_nothing(self, folder: Path) -> None:
        code = (
            "from workbench.edgegossip.profiling_runs import profiling_runs\n"
            "profiling_runs([10**9], ('sort',), seconds_per_point=100)"
        )
        master = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
        try:
            below = wait_for_runs(master.pid, folder)
            master.send_signal(signal.SIGINT)
            assert master.wait(30) != 0
        finally:
            master.kill()
            master.wait()
        assert len(below) >= 3
        wait_until_gone(below)
        assert list(folder.glob("workbench-*")) == []

    def test_a_kill_leaves_no_process(self, folder: Path) -> None:
        code = (
            "from workbench.edgegossip.profiling_runs import profiling_runs\n"
            "profiling_runs([10**9], ('sort',), seconds_per_point=100)"
        )
        master = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
        try:
            below = wait_for_runs(master.pid, folder)
        finally:
            master.kill()
            master.wait()
        wait_until_gone(below)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"sizes": [0]}, "sizes has 0"),
            ({"sizes": [1.5]}, "sizes has 1.5"),
            ({"sizes": [10**18]}, "choose smaller sizes"),
            ({"seconds_per_point": 0.01}, "seconds_per_point is 0.01"),
            ({"every_s": float("nan")}, "every_s is nan"),
            ({"repeats": 0}, "repeats is 0"),
        ],
    )
    def test_refused(self, given: dict[str, object], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            profiling_runs.profiling_runs(**({"sizes": [1000]} | given))  # type: ignore[arg-type]

    def test_unknown_workload(self) -> None:
        with pytest.raises(UnknownNameError, match="wordcount"):
            profiling_runs.profiling_runs([1000], ("grep",))


def wait_for_runs(master: int, folder: Path) -> set[int]:
    """Processes below `master`, once its jobs write files."""
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        time.sleep(0.05)
        with contextlib.suppress(FileNotFoundError, psutil.NoSuchProcess):
            if [file for file in folder.glob("workbench-*/*") if "sqlite" not in file.name]:
                return {one.pid for one in psutil.Process(master).children(recursive=True)}
    raise AssertionError("no job began")
