"""The monitor on counters that are made up, exactly; once on those of this machine."""

from __future__ import annotations

import multiprocessing
import threading
import time
from pathlib import Path

import pytest

from tests.refusals import refusals
from workbench.edgegossip.prediction.host_counters import Counters
from workbench.edgegossip.prediction.monitor import Monitor, read_reports, report
from workbench.edgegossip.prediction.predictor import Contention


class Made:
    """Readings a second apart: the use of core, network and disk is that of each second.

    After the last second nothing is used any more.
    """

    def __init__(self, *seconds: Contention) -> None:
        self.seconds, self.read = seconds, 0
        self.exhausted = threading.Event()

    def __call__(self) -> Counters:
        passed = self.seconds[: self.read]
        found = Counters(
            float(self.read),
            2.0 * self.read,
            sum(2 * second.core for second in passed),
            sum(second.network_bytes_per_s for second in passed),
            sum(second.disk_bytes_per_s for second in passed),
        )
        self.read += 1
        if self.read > len(self.seconds) + 1:
            self.exhausted.set()
        return found


HALF, FULL = Contention(0.5, 600.0, 200.0), Contention(1.0, 0.0, 400.0)
MEAN = Contention(0.75, 300.0, 300.0)


def test_reports_the_mean_of_each_window(tmp_path: Path) -> None:
    source, path = Made(HALF, FULL, FULL, HALF), tmp_path / "new" / "reports.jsonl"
    with Monitor("here", path, source=source, interval_s=0.002, window_s=0.004):
        assert source.exhausted.wait(20)
    history = read_reports(path)
    assert history["core"].to_list()[:2] == [0.75, 0.75]
    assert history["network_bytes_per_s"].to_list()[:2] == [300.0, 300.0]
    assert history["disk_bytes_per_s"].to_list()[:2] == [300.0, 300.0]
    assert history["window_s"].to_list()[:2] == [2.0, 2.0]  # of the counters' clock
    assert set(history["platform"]) == {"here"}
    assert abs(history["at_s"][0] - time.time()) < 600


def test_the_last_window_is_reported_however_short(tmp_path: Path) -> None:
    source, path = Made(HALF), tmp_path / "reports.jsonl"
    with Monitor("here", str(path), source=source, interval_s=0.002) as monitor:
        assert source.exhausted.wait(20)
        assert monitor.mean().core > 0
        assert path.read_text() == ""
    assert read_reports(path)["window_s"].to_list() == [source.read - 1.0]


def test_the_mean_is_that_of_the_last_window() -> None:
    source = Made(FULL, *[HALF, FULL] * 500)
    with Monitor(source=source, interval_s=0.002, window_s=0.004) as monitor:
        assert monitor.mean() in (FULL, MEAN)  # of the first second alone, or of two
        while source.read < 5:
            time.sleep(0.001)
        assert monitor.mean() == MEAN


def test_what_fails_is_told() -> None:
    def broken() -> Counters:
        raise OSError("no such counters")

    with (
        pytest.raises(RuntimeError, match="watching platform 3 failed: no such counters"),
        Monitor("platform 3", source=broken) as monitor,
    ):
        monitor.mean()
    with pytest.raises(RuntimeError, match="no such counters"), Monitor(source=broken):
        pass
    with pytest.raises(KeyError), Monitor(source=broken):  # the training's own comes first
        raise KeyError


def test_ends_with_its_block_and_has_no_mean_without_two_readings() -> None:
    monitor = Monitor(source=Made(HALF))
    with pytest.raises(RuntimeError, match="fewer than two readings"):
        monitor.mean()
    with pytest.raises(KeyboardInterrupt), monitor:
        raise KeyboardInterrupt
    assert "contention" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(RuntimeError, match="fewer than two readings"):
        monitor.mean()


def report_often(path: Path, platform: str) -> None:
    for window_s in range(200):
        report(path, platform, float(window_s), Contention(0.5))


def test_several_processes_report_to_one_file(tmp_path: Path) -> None:
    path, context = tmp_path / "reports.jsonl", multiprocessing.get_context("fork")
    started = [context.Process(target=report_often, args=(path, name)) for name in "ab"]
    for process in started:
        process.start()
    for process in started:
        process.join(60)
    for name in "ab":
        own = read_reports(path).filter(platform=name)
        assert own["window_s"].to_list() == [float(each) for each in range(200)]


test_monitor_refused = refusals(
    lambda times=(1.0, 60.0), path=None, source=None: Monitor(
        path=path, source=source or Made(), interval_s=times[0], window_s=times[1]
    ),
    {},
    {
        "times": {"interval_s is": [(0.0, 60.0), (2.0, 1.0), (1.0, float("inf")), ("1", 60.0)]},
        "source": {"source is 3; give a function that returns Counters": [3]},
        "path": {"path is 3; give the path of a file": [3]},
    },
)
