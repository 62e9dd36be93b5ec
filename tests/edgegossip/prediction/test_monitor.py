"""The monitor on counters that are made up, exactly; once on those of this machine."""

from __future__ import annotations

import doctest
import importlib
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
from workbench.edgegossip.prediction.contention import Contention, Counters, between
from workbench.edgegossip.prediction.monitor import (
    Monitor,
    Window,
    read_reports,
    step,
)

SPENT = st.floats(0, 1)
monitor_module = importlib.import_module("workbench.edgegossip.prediction.monitor")
host_counters_module = importlib.import_module("workbench.edgegossip.prediction.host_counters")


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


def readings(count: int, *, own: bool = True) -> list[Counters]:
    """Readings of two cores, a second apart: others use a core, the task half of one."""
    return [
        Counters(
            at_s=float(n),
            cores_s=2.0 * n,
            busy_s=(1.5 if own else 1.0) * n,
            network_bytes=1000.0 * n,
            disk_bytes=300.0 * n,
            own_busy_s=0.5 * n if own else 0.0,
            own_network_bytes=400.0 * n,
            own_disk_bytes=100.0 * n,
        )
        for n in range(count)
    ]


class TestContention:
    def test_by_hand(self) -> None:
        first, second = readings(2)
        assert between(first, second) == Contention(0.5, 600.0, 200.0)

    @given(spent=st.lists(st.tuples(SPENT, SPENT, SPENT, SPENT, SPENT), min_size=1, max_size=20))
    def test_a_window_is_the_mean_of_its_seconds(self, spent: list[tuple[float, ...]]) -> None:
        counters, everybody, own = [Counters(0, 0, 0)], [[0.0] * 5], [[0.0] * 3]
        for time_s, others_s, own_s, sent, written in spent:
            seconds = 0.5 + time_s
            last, before, mine = counters[-1], everybody[-1], own[-1]
            row = [
                before[0] + seconds,
                before[1] + 4 * seconds,
                before[2] + (others_s + own_s) * seconds,
                before[3] + 1e6 * sent,
                before[4] + 1e6 * written,
            ]
            everybody.append(row)
            own.append([mine[0] + own_s * seconds, mine[1] + 4e5 * sent, mine[2] + 1e5 * written])
            counters.append(
                replace(
                    Counters(*row),
                    own_busy_s=own[-1][0],
                    own_network_bytes=own[-1][1],
                    own_disk_bytes=own[-1][2],
                )
            )
            assert last.at_s < counters[-1].at_s
        window = Window.start(counters[0])
        for one in counters[1:]:
            window = step(window, one)
        mean = window.mean()
        core, network, disk = oracle.mean_contention(everybody, own)
        assert window.readings == len(spent)
        assert mean.core == pytest.approx(core, abs=1e-9)
        assert mean.network_bytes_per_s == pytest.approx(network, rel=1e-9, abs=1e-6)
        assert mean.disk_bytes_per_s == pytest.approx(disk, rel=1e-9, abs=1e-6)

    def test_what_the_task_says_it_used_before_all_did_counts_as_none(self) -> None:
        late = Counters(1.0, 2.0, 0.5, 10.0, 10.0, 0.6, 20.0, 20.0)
        assert between(Counters(0.0, 0.0, 0.0), late) == Contention()

    def test_a_process_that_left_the_task_takes_nothing_off(self) -> None:
        before = Counters(0.0, 0.0, 0.0, own_busy_s=5.0)
        assert between(before, Counters(1.0, 2.0, 1.0, own_busy_s=1.0)).core == 0.5

    def test_refused(self) -> None:
        with pytest.raises(ValueError, match="read less often"):
            between(Counters(1.0, 2.0, 0.0), Counters(1.0, 2.0, 0.0))
        with pytest.raises(ValueError, match="at most 1"):
            Contention(1.01)
        with pytest.raises(ValueError, match="disk_bytes_per_s is nan"):
            Contention(0.5, 0.0, float("nan"))
        with pytest.raises(ValueError, match="core is -"):
            Contention(-0.1)


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
        assert len(monitor.sample_costs) == source.given
        assert all(cost.wall_s > 0 for cost in (*monitor.sample_costs, *monitor.report_costs))

    def test_the_last_window_is_reported_however_short(self, tmp_path: Path) -> None:
        source = Made(readings(3))
        path = tmp_path / "new" / "reports.jsonl"
        with Monitor("here", str(path), source=source, interval_s=0.002) as monitor:
            assert source.exhausted.wait(20)
            assert monitor.mean().core > 0
            assert path.read_text() == ""
        assert len(monitor.report_costs) == 1
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

    def test_the_training_s_own_error_comes_first(self) -> None:
        def broken() -> Counters:
            raise OSError("no such counters")

        with pytest.raises(KeyError), Monitor(source=broken):
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

    def test_it_watches_once(self) -> None:
        with Monitor(source=Made(readings(2))) as monitor:
            pass
        with pytest.raises(RuntimeError, match="make another"):
            monitor.__enter__()

    def test_no_place_for_reports(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="path is 3; give the path of a file"):
            Monitor(path=3)  # type: ignore[arg-type]
        (tmp_path / "file").touch()
        for path in (tmp_path, tmp_path / "file" / "below"):
            monitor = Monitor(path=path, source=Made(readings(2)))
            with pytest.raises(ValueError, match=r"no reports can be written to .*; give a file"):
                monitor.__enter__()

    def test_refused(self) -> None:
        for interval_s, window_s in ((0.0, 60.0), (2.0, 1.0), (1.0, float("inf"))):
            with pytest.raises(ValueError, match="interval_s is"):
                Monitor(source=Made(readings(2)), interval_s=interval_s, window_s=window_s)
        with pytest.raises(RuntimeError, match="does not watch yet"):
            Monitor(source=Made(readings(2))).mean()
