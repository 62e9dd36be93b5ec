"""Regions of a cloud and their links: by hand, and files that cannot be read."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.refusals import refusals
from workbench.clusters import Link
from workbench.comparison import Regions, tcp_link
from workbench.utils.checks import UserError

WITHIN = Link(80e6)


def test_without_links_all_machines_stand_in_one_region() -> None:
    alone = Regions({}, WITHIN)
    assert len(alone.cluster(["zone", "zone"]).links) == 2
    with pytest.raises(ValueError, match="no link between regions zone and other"):
        alone.cluster(["zone", "other"])
    apart = Regions({("a", "b"): WITHIN, ("b", "c"): WITHIN}, WITHIN)
    with pytest.raises(ValueError, match="no link between regions a and c"):
        apart.cluster(["a", "c"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read"),
        (b"# \xfc", "UTF-8"),
        (b"x = [", "is not TOML"),
        (b"between = 1", r"needs tables such as \[between.US\]"),
        (b"betwen = {}", "unknown key of .*'betwen'.* 'between'"),
        (b"[between.a]\nb = { gbps = 1 }", "between.a.b needs gbps and round_trip_ms"),
        (b"[between.a]\nb = { gbps = 'x', round_trip_ms = 1 }", "between.a.b: gbps is 'x'"),
        (b"[between.a]\nb = { gbps = -1, round_trip_ms = 1 }", "between.a.b: measured_bps is -1"),
        (b"[between.a]\nb = { gbps = 1, round_trip_ms = 1 }", "within needs gbps"),
    ],
)
def test_links_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes | None, message: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    if text is not None:
        (tmp_path / "links.toml").write_bytes(text)
    with pytest.raises(UserError, match=message):
        Regions.read("~/links.toml")


def test_a_stream_by_hand() -> None:
    """A window of 32 first ones: four doublings lost, but for the window that they carry."""
    round_trip_s, bps = 0.1, 32 * 14_600 * 8 / 0.1
    long = tcp_link(bps, round_trip_s)
    assert (long.bandwidth_bps, long.latency_s) == (bps, 0.05)
    assert long.overhead_s == pytest.approx(0.4)
    short = tcp_link(bps, round_trip_s, 10.0)
    assert short.bandwidth_bps == pytest.approx(bps / 0.96)  # 0.4 s of the 10 carried nothing
    assert tcp_link(1e4, 0.001).overhead_s == 0  # the first window is enough


test_refusals_of_a_stream = refusals(
    tcp_link,
    {"measured_bps": 1e8, "round_trip_s": 0.1, "measured_for_s": 10.0},
    {
        "measured_bps": {"measured_bps is": [0.0, -1.0, math.nan, "fast"]},
        "round_trip_s": {"round_trip_s is": [0.0, -1.0, math.nan]},
        "measured_for_s": {"measured_for_s is": [0.0, -1.0], "measure for longer": [0.1]},
    },
)
