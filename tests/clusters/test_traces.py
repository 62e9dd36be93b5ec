"""Bandwidth traces: what is read delivers what the file says, and files survive a round trip."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.clusters.test_schedule import schedules
from workbench.clusters import (
    Schedule,
    read_mahimahi,
    read_mbps,
    write_mahimahi,
    write_mbps,
)
from workbench.utils.checks import UserError

PACKET_BYTES = 1_500
one_folder = settings(  # files are written to the disk itself, which takes its time
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)

milliseconds = st.lists(st.integers(0, 60), min_size=1, max_size=80).map(sorted)
traces = milliseconds.filter(lambda at_ms: at_ms[-1] > 0)


def written(folder: Path, lines: list[int]) -> Path:
    path = folder / "trace"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def delivered_bytes(lines: list[int], repeats: int, by_ms: int) -> int:
    """Bytes delivered by the end of a millisecond, counted packet by packet."""
    packets = [turn * lines[-1] + line for turn in range(repeats) for line in lines]
    return PACKET_BYTES * sum(at_ms <= by_ms for at_ms in packets)


def served_bytes(schedule: Schedule, by_ms: int) -> float:
    return schedule.served(0, (by_ms + 1) / 1_000) / 8


@one_folder
@given(lines=traces, repeats=st.integers(1, 3))
def test_mahimahi_delivers_its_packets_by_the_end_of_each_millisecond(
    lines: list[int], repeats: int, tmp_path: Path
) -> None:
    schedule = read_mahimahi(written(tmp_path, lines), repeats=repeats)
    for by_ms in range(repeats * lines[-1] + 1):
        expected = delivered_bytes(lines, repeats, by_ms)
        assert served_bytes(schedule, by_ms) == pytest.approx(expected, rel=1e-9, abs=1e-6)


@one_folder
@given(lines=traces)
def test_after_a_trace_its_mean_rate_lasts(lines: list[int], tmp_path: Path) -> None:
    schedule = read_mahimahi(written(tmp_path, lines))
    mean_bps = len(lines) * PACKET_BYTES * 8 / (lines[-1] / 1_000)
    assert schedule.at(1e6) == pytest.approx(mean_bps)


@one_folder
@given(lines=traces)
def test_a_mahimahi_file_survives_a_round_trip_to_the_byte(
    lines: list[int], tmp_path: Path
) -> None:
    path = written(tmp_path, lines)
    again = tmp_path / "again"
    write_mahimahi(read_mahimahi(path), again, end_s=(lines[-1] + 1) / 1_000)
    assert again.read_bytes() == path.read_bytes()


@one_folder
@given(schedule=schedules())
def test_a_schedule_as_a_mahimahi_trace_lacks_less_than_a_packet(
    schedule: Schedule, tmp_path: Path
) -> None:
    starts_s = tuple(start_s / 100 for start_s in schedule.starts_s)
    fast = Schedule(starts_s, tuple(value * 1e6 for value in schedule.values))
    assume(fast.served(0.001, 0.6) > 12_000 * 2)
    write_mahimahi(fast, tmp_path / "trace", end_s=0.6)
    lines = [int(line) for line in (tmp_path / "trace").read_text().split()]
    again = read_mahimahi(tmp_path / "trace")
    for by_ms in range(0, lines[-1] + 1, 7):
        lacks = served_bytes(fast, by_ms) - served_bytes(again, by_ms)
        assert -0.01 <= lacks < PACKET_BYTES + 0.01


def test_mahimahi_by_hand(tmp_path: Path) -> None:
    schedule = read_mahimahi(written(tmp_path, [1, 1, 3, 5]))
    assert list(schedule.starts_s) == [0, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006]
    mean_bps = 4 * 12_000 / 0.005
    assert list(schedule.values) == [0, 24e6, 0, 12e6, 0, 12e6, pytest.approx(mean_bps)]


@one_folder
@given(schedule=schedules())
def test_a_table_of_mbps_survives_a_round_trip(schedule: Schedule, tmp_path: Path) -> None:
    write_mbps(schedule, tmp_path / "table.csv")
    again = read_mbps(tmp_path / "table.csv")
    assert again.starts_s == schedule.starts_s
    # A division and a product by 1e6 are rounded once each.
    assert again.values == pytest.approx(schedule.values, rel=2 * 2.0**-52, abs=0)


def test_a_table_of_mbps_by_hand(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("seconds,mbps\n0,1.5\n2,3\n")
    assert read_mbps(tmp_path / "table.csv") == Schedule((0, 2), (1.5e6, 3e6))
    write_mbps(Schedule((0, 2), (1.5e6, 3e6)), tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == "seconds,mbps\n0.0,1.5\n2.0,3.0\n"


BAD_LINES = [
    ("1\nx\n", r"line 2: 'x' is not a whole millisecond"),
    ("1\n\n-2\n", r"line 3: '-2' is not a whole millisecond"),
    ("1.5\n", r"line 1: '1.5' is not a whole millisecond"),
    ("9" * 30, r"line 1: .* is not a whole millisecond from 0 to 100,000,000"),
    ("3\n2\n", r"line 2: 2 ms comes after 3 ms"),
    ("", "is empty"),
    ("0\n0\n", "all packets are in millisecond 0"),
]


@pytest.mark.parametrize(("text", "message"), BAD_LINES)
def test_bad_lines_are_refused_by_their_number(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "trace").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_mahimahi(tmp_path / "trace")


def test_bad_rows_of_a_table_are_refused_by_their_number(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("seconds,mbps\n0,1\nx,2\n")
    with pytest.raises(ValueError, match=r"line 3: 'x,2'"):
        read_mbps(tmp_path / "table.csv")


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    (tmp_path / "trace").write_bytes(b"\xff\xfe1")
    with pytest.raises(ValueError, match="UTF-8"):
        read_mahimahi(tmp_path / "trace")


@pytest.mark.parametrize("end_s", [0.0, -1.0, math.nan, 1e9])
def test_writing_needs_an_end(tmp_path: Path, end_s: float) -> None:
    with pytest.raises(ValueError, match="end_s is"):
        write_mahimahi(Schedule.of(1e6), tmp_path / "trace", end_s=end_s)


def test_a_trace_without_packets_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="end later"):
        write_mahimahi(Schedule.of(1e3), tmp_path / "trace", end_s=1.0)
    with pytest.raises(ValueError, match="repeats is 0"):
        read_mahimahi(written(tmp_path, [1]), repeats=0)


def test_line_of_thousands_of_digits_is_refused_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "long.trace"
    path.write_text("1\n" + "9" * 5000 + "\n")
    with pytest.raises(
        UserError, match="line 2: '99999999999999999999' is not a whole millisecond"
    ):
        read_mahimahi(path)
    path.write_text("0000000000007\n")
    assert read_mahimahi(path).at(0.0075) > 0


@pytest.mark.parametrize("read", [read_mahimahi, read_mbps])
def test_files_that_cannot_be_read_are_refused(
    tmp_path: Path, read: Callable[[str], Schedule], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("none", "."):
        with pytest.raises(UserError, match="cannot be read"):
            read(f"~/{name}")
    (tmp_path / "latin").write_bytes("ü".encode("latin-1"))
    with pytest.raises(UserError, match="UTF-8"):
        read("~/latin")


def test_traces_are_written_to_and_read_from_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write_mbps(Schedule.of(2e6), "~/table.csv")
    assert read_mbps("~/table.csv") == Schedule.of(2e6)
    write_mahimahi(Schedule.of(12e6), "~/trace", end_s=1.0)
    assert read_mahimahi("~/trace").at(0.5) == 12e6
