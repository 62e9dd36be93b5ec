"""Bandwidth traces: what is read delivers what the file says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workbench.clusters import Schedule, read_mahimahi, read_mbps
from workbench.utils.checks import UserError

PACKET_BYTES = 1_500

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


# Files are written to the disk itself, which takes its time.
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(lines=traces, repeats=st.integers(1, 3))
def test_mahimahi_delivers_its_packets_by_the_end_of_each_millisecond(
    lines: list[int], repeats: int, tmp_path: Path
) -> None:
    schedule = read_mahimahi(written(tmp_path, lines), repeats=repeats)
    for by_ms in range(repeats * lines[-1] + 1):
        expected = delivered_bytes(lines, repeats, by_ms)
        served = schedule.served(0, (by_ms + 1) / 1_000) / 8
        assert served == pytest.approx(expected, rel=1e-9, abs=1e-6)
    mean_bps = len(lines) * PACKET_BYTES * 8 / (lines[-1] / 1_000)
    assert schedule.at(1e6) == pytest.approx(mean_bps)


def test_mahimahi_by_hand(tmp_path: Path) -> None:
    schedule = read_mahimahi(written(tmp_path, [1, 1, 3, 5]))
    assert list(schedule.starts_s) == [0, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006]
    mean_bps = 4 * 12_000 / 0.005
    assert list(schedule.values) == [0, 24e6, 0, 12e6, 0, 12e6, pytest.approx(mean_bps)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\nx\n", "line 2: 'x' is not a whole millisecond"),
        ("1\n\n-2\n", "line 3: '-2' is not"),
        ("1.5\n", "line 1: '1.5' is not"),
        ("1,5\n", "line 1: '1,5' is not"),
        ("1\n1_0\n", "line 2: '1_0' is not"),
        ("٣\n", "line 1: '٣' is not"),
        ("\x1b[2J\n", r"line 1: '\\x1b\[2J' is not"),
        ("9" * 30, "line 1: .* from 0 to 100,000,000"),
        ("1\n" + "9" * 5000, "line 2: '9{20}' is not"),
        ("3\n2\n", "line 2: 2 ms comes after 3 ms"),
        ("", "is empty"),
        ("0\n0\n", "all packets are in millisecond 0"),
    ],
    ids=range(12),
)
def test_bad_lines_are_refused_by_their_number(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "trace").write_text(text)
    with pytest.raises(UserError, match=message):
        read_mahimahi(tmp_path / "trace")


def test_leading_zeros_are_read_and_repeats_are_counted(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text("0000000000007\n")
    assert read_mahimahi(tmp_path / "trace").at(0.0075) > 0
    with pytest.raises(UserError, match="repeats is 0"):
        read_mahimahi(tmp_path / "trace", repeats=0)
    with pytest.raises(UserError, match=r"repeats is 1000000000, of .* at most 10,000,000 values"):
        read_mahimahi(tmp_path / "trace", repeats=10**9)


def test_a_table_of_mbps_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "table.csv").write_text("seconds,mbps\n0,1.5\n2,3\n")
    assert read_mbps("~/table.csv") == Schedule((0, 2), (1.5e6, 3e6))


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
