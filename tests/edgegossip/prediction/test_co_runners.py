"""Workers beside the training: that they do as they are told, and leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import psutil
import pytest

from workbench.edgegossip.prediction import co_runners
from workbench.edgegossip.prediction.helper_process import Helper, helper
from workbench.edgegossip.prediction.map_reduce import WORKLOADS, Steps, Task
from workbench.edgegossip.prediction.profiling_runs import SCHEMA, profiling_runs
from workbench.edgegossip.prediction.shuffle import Peers
from workbench.interrupted import ExperimentInterrupted
from workbench.names import UnknownNameError
from workbench.runtime import progress


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


@contextlib.contextmanager
def workers(count: int, folder: Path) -> Iterator[list[Helper]]:
    """Workers that have met."""
    with contextlib.ExitStack() as ending:
        module = "workbench.edgegossip.prediction.co_runners"
        found = [ending.enter_context(helper(module, str(folder))) for _ in range(count)]
        ports = " ".join(worker.answer() for worker in found)
        for worker in found:
            worker.tell(f"{ports}\n".encode())
        yield found


def ask(all_of_them: list[Helper], line: bytes) -> list[str]:
    for worker in all_of_them:
        worker.tell(line)
    return [worker.answer() for worker in all_of_them]


def wait_for_files(folder: Path, name: str) -> None:
    end_s = time.monotonic() + 30
    while not list(folder.glob(f"*/{name}")):
        assert time.monotonic() < end_s, f"no file {name} was written"
        time.sleep(0.01)


class TestWorkers:
    def test_a_command_ends_the_job_before(self, tmp_path: Path) -> None:
        with workers(2, tmp_path) as both:
            assert ask(both, b"sort 1000000000 1\n") == ["begun", "begun"]
            wait_for_files(tmp_path, "spilled")
            assert ask(both, b"none 0 0\n") == ["begun", "begun"]
            assert list(tmp_path.iterdir()) == []
        assert not any(alive(worker.pid) for worker in both)

    @pytest.mark.parametrize("workload", WORKLOADS)
    def test_jobs_come_one_after_the_other(self, workload: str, tmp_path: Path) -> None:
        with workers(2, tmp_path) as both:
            ask(both, f"{workload} 200000 0.01\n".encode())
            seen: set[Path] = set()
            end_s = time.monotonic() + 60
            while len(seen) < 8:  # four jobs of each
                assert time.monotonic() < end_s, "jobs do not go on"
                seen |= set(tmp_path.iterdir())
            ask(both, b"none 0 0\n")

    def test_a_job_goes_on_after_one_was_left_in_the_shuffle(self, tmp_path: Path) -> None:
        with workers(2, tmp_path) as (first, second):
            first.ask(b"wordcount 1000000 0\n")  # and waits for the other's part
            second.ask(b"none 0 0\n")
            wait_for_files(tmp_path, "from-0")
            assert ask([first, second], b"sort 100000 0\n") == ["begun"] * 2
            wait_for_files(tmp_path, "outcome")

    def test_each_job_has_its_turn_key_and_folder(self, tmp_path: Path) -> None:
        commands, told = os.pipe()
        begun_s, keys, folders = [], [], set()

        def job(task: Task) -> Steps:
            begun_s.append(time.monotonic())
            keys.append(task.shuffle.args[0])  # type: ignore[attr-defined]
            folders.add(task.folder)
            assert list(task.folder.iterdir()) == []
            (task.folder / "left").touch()
            if len(begun_s) == 4:
                os.write(told, b"another")
            yield None
            if len(begun_s) == 4:
                raise AssertionError("it went on after a command")

        start_s = time.monotonic()
        with Peers() as peers:
            co_runners._Worker(peers, 7, tmp_path, commands).repeat(job, 1000, 0.05)
        os.close(commands)
        os.close(told)
        assert keys == [(7, 0), (7, 1), (7, 2), (7, 3)]
        assert [at_s >= start_s + 0.05 * n - 0.01 for n, at_s in enumerate(begun_s)] == [True] * 4
        assert len(folders) == 4
        assert list(tmp_path.iterdir()) == []

    def test_why_one_ended_is_told(self, tmp_path: Path) -> None:
        with workers(1, tmp_path) as (worker,):
            worker.ask(b"none 0 0\n")
            worker.tell(b"nonsense 1 1\n")
            worker.answer()
            with pytest.raises(RuntimeError, match=r"co_runners .* status 1: KeyError: 'nonsense'"):
                worker.answer()

    def test_one_ends_when_its_master_is_gone(self, tmp_path: Path) -> None:
        with workers(1, tmp_path) as (worker,):
            worker.ask(b"sort 1000000000 1\n")
            assert worker.process.stdin is not None
            worker.process.stdin.close()  # as when the process at its other end is killed
            assert worker.process.wait(30) == 0
            worker.process.stdin = None
        assert list(tmp_path.iterdir()) == []


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
        assert list(folder.glob("workbench-*")) == []

    def test_a_failure_leaves_nothing(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        before, seen = children(), set[int]()

        def broken(*given: object) -> None:
            seen.update(children() - before)
            raise OSError("no counters")

        monkeypatch.setattr(sys.modules[profiling_runs.__module__], "between", broken)
        with pytest.raises(OSError, match="no counters"):
            profiling_runs([10**9], ("sort",), seconds_per_point=0.2, repeats=1)
        assert len(seen) >= 3  # it had begun
        assert not any(map(alive, seen))
        assert list(folder.glob("workbench-*")) == []

    def test_an_interrupt_keeps_what_was_measured(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before, begin = children(), progress.Steps.__call__

        def until_third(steps: progress.Steps, what: str) -> None:
            begin(steps, what)
            if steps.step == 3:
                raise KeyboardInterrupt

        monkeypatch.setattr(progress.Steps, "__call__", until_third)
        with pytest.raises(ExperimentInterrupted) as stopped:
            profiling_runs([1000], ("sort",), seconds_per_point=0.2, repeats=2)
        assert stopped.value.frame.schema == pl.Schema(SCHEMA)
        assert stopped.value.frame["order"].to_list() == [0, 1]
        assert children() == before

    def test_an_interrupt_leaves_nothing(self, folder: Path) -> None:
        code = (
            "from workbench.edgegossip.prediction.profiling_runs import profiling_runs\n"
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
            "from workbench.edgegossip.prediction.profiling_runs import profiling_runs\n"
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
            profiling_runs(**({"sizes": [1000]} | given))  # type: ignore[arg-type]

    def test_unknown_workload(self) -> None:
        with pytest.raises(UnknownNameError, match="wordcount"):
            profiling_runs([1000], ("grep",))


def wait_for_runs(master: int, folder: Path) -> set[int]:
    """Processes below `master`, once its jobs write files."""
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        time.sleep(0.05)
        with contextlib.suppress(FileNotFoundError, psutil.NoSuchProcess):
            if list(folder.glob("workbench-*/*/spilled")):
                return {one.pid for one in psutil.Process(master).children(recursive=True)}
    raise AssertionError("no job began")
