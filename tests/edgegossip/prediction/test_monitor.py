"""The monitor on counters that are made up, exactly; once on those of this machine."""

from __future__ import annotations

import doctest
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import edgegossip_prediction as oracle
from tests.refusals import refusals
from workbench.edgegossip.prediction import monitor as monitor_module
from workbench.edgegossip.prediction.host_counters import Counters, between
from workbench.edgegossip.prediction.monitor import Monitor, read_reports
from workbench.edgegossip.prediction.predictor import Contention


class Made:
    """A source of the given readings; the last is given again and again, later."""

    def __init__(self, readings: Sequence[Counters]) -> None:
        self.readings, self.given = list(readings), 0
        self.exhausted = threading.Event()

    def __call__(self) -> Counters:
        at = min(self.given, len(self.readings) - 1)
        later = self.given - at
        self.given += 1
        if later:
            self.exhausted.set()
        last = self.readings[at]
        return replace(last, at_s=last.at_s + later, cores_s=last.cores_s + 2 * later)


def readings(count: int) -> list[Counters]:
    """Readings of two cores, a second apart: others use a core, the task half of one."""
    second = (1.0, 2.0, 1.5, 1000.0, 300.0, 0.5, 400.0, 100.0)
    return [Counters(*(n * each for each in second)) for n in range(count)]


class TestContention:
    def test_by_hand(self) -> None:
        first, second = readings(2)
        assert between(first, second) == Contention(0.5, 600.0, 200.0)

    @given(spent=st.lists(st.tuples(*[st.floats(0, 1)] * 5), min_size=1, max_size=20))
    def test_a_window_is_the_mean_of_its_seconds(self, spent: list[tuple[float, ...]]) -> None:
        everybody, own = [[0.0] * 5], [[0.0] * 3]
        for time_s, others_s, own_s, sent, written in spent:
            seconds, before, mine = 0.5 + time_s, everybody[-1], own[-1]
            used = (seconds, 4 * seconds, (others_s + own_s) * seconds, 1e6 * sent, 1e6 * written)
            everybody.append([a + b for a, b in zip(before, used, strict=True)])
            task = (own_s * seconds, 4e5 * sent, 1e5 * written)
            own.append([a + b for a, b in zip(mine, task, strict=True)])
        mean = between(Counters(*[0.0] * 8), Counters(*everybody[-1], *own[-1]))
        core, network, disk = oracle.mean_contention(everybody, own)
        assert mean.core == pytest.approx(core, abs=1e-9)
        assert mean.network_bytes_per_s == pytest.approx(network, rel=1e-9, abs=1e-6)
        assert mean.disk_bytes_per_s == pytest.approx(disk, rel=1e-9, abs=1e-6)

    def test_what_the_task_says_it_used_before_all_did_counts_as_none(self) -> None:
        late = Counters(1.0, 2.0, 0.5, 10.0, 10.0, 0.6, 20.0, 20.0)
        assert between(Counters(0.0, 0.0, 0.0), late) == Contention()

    def test_a_process_that_left_the_task_takes_nothing_off(self) -> None:
        before = Counters(0.0, 0.0, 0.0, own_busy_s=5.0)
        assert between(before, Counters(1.0, 2.0, 1.0, own_busy_s=1.0)).core == 0.5

    def test_readings_at_once_are_refused(self) -> None:
        with pytest.raises(ValueError, match="read less often"):
            between(Counters(1.0, 2.0, 0.0), Counters(1.0, 2.0, 0.0))


class TestMonitor:
    def test_reports_the_mean_of_each_window(self, tmp_path: Path) -> None:
        source, path = Made(readings(7)), tmp_path / "reports.jsonl"
        with Monitor("here", path, source=source, interval_s=0.002, window_s=0.006) as monitor:
            assert source.exhausted.wait(20)
        history = read_reports(path)
        assert history["core"].to_list()[:2] == [0.5, 0.5]
        assert history["network_bytes_per_s"].to_list()[:2] == [600.0, 600.0]
        assert history["disk_bytes_per_s"].to_list()[:2] == [200.0, 200.0]
        assert history["window_s"].to_list()[:2] == [3.0, 3.0]  # of the counters' clock
        assert set(history["platform"]) == {"here"}
        assert abs(history["at_s"][0] - time.time()) < 600
        assert len(monitor.sample_s) == source.given
        assert min(*monitor.sample_s, *monitor.report_s) > 0

    def test_the_last_window_is_reported_however_short(self, tmp_path: Path) -> None:
        source = Made(readings(3))
        path = tmp_path / "new" / "reports.jsonl"
        with Monitor("here", str(path), source=source, interval_s=0.002) as monitor:
            assert source.exhausted.wait(20)
            assert monitor.mean().core > 0
            assert path.read_text() == ""
        assert len(monitor.report_s) == 1
        assert read_reports(path)["window_s"].to_list() == [source.given - 1.0]

    def test_the_mean_is_known_before_the_first_window_ends(self) -> None:
        with Monitor(source=Made(readings(50)), interval_s=0.002) as monitor:
            assert monitor.mean() == Contention(0.5, 600.0, 200.0)

    def test_what_fails_is_told(self) -> None:
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

    def test_ends_with_its_block(self) -> None:
        with pytest.raises(KeyboardInterrupt), Monitor(source=Made(readings(2))) as monitor:
            raise KeyboardInterrupt
        assert "contention" not in {thread.name for thread in threading.enumerate()}
        with pytest.raises(RuntimeError, match="before its second reading"):
            monitor.mean()

    def test_several_processes_report_to_one_file(self, tmp_path: Path) -> None:
        path, each = tmp_path / "reports.jsonl", 200
        code = (
            "import sys; from pathlib import Path; "
            "from workbench.edgegossip.prediction.monitor import Contention, report\n"
            f"for n in range({each}): "
            f"report(Path({str(path)!r}), sys.argv[1], float(n), Contention(0.5))"
        )
        started = [subprocess.Popen([sys.executable, "-c", code, name]) for name in "ab"]
        assert [one.wait(60) for one in started] == [0, 0]
        for name in "ab":
            own = read_reports(path).filter(platform=name)
            assert own["window_s"].to_list() == [float(n) for n in range(each)]

    def test_the_example_runs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        found = doctest.DocTestFinder(recurse=False).find(monitor_module, "monitor")
        example = found[0]
        example.globs = {"train": lambda: None}
        assert len(example.examples) == 3
        said: list[str] = []
        doctest.DocTestRunner().run(example, out=said.append)
        assert said == []
        assert read_reports(tmp_path / "reports.jsonl")["platform"].to_list() == ["platform 1"]

    def test_no_place_for_reports(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        for path in (tmp_path, tmp_path / "file" / "below"):
            monitor = Monitor(path=path, source=Made(readings(2)))
            with pytest.raises(ValueError, match=r"no reports can be written to .*; give a file"):
                monitor.__enter__()

    def test_it_watches_once_and_has_no_mean_before(self) -> None:
        monitor = Monitor(source=Made(readings(2)))
        with pytest.raises(RuntimeError, match="does not watch yet"):
            monitor.mean()
        with monitor:
            pass
        with pytest.raises(RuntimeError, match="make another"):
            monitor.__enter__()


test_monitor_refused = refusals(
    lambda times=(1.0, 60.0), path=None: Monitor(
        path=path, source=Made(readings(2)), interval_s=times[0], window_s=times[1]
    ),
    {},
    {
        "times": {"interval_s is": [(0.0, 60.0), (2.0, 1.0), (1.0, float("inf"))]},
        "path": {"path is 3; give the path of a file": [3]},
    },
)
