"""Runs with Hivemind: constants from one zone alone, and the errors that the notebook states."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
import pytest

from workbench.clusters import Link, load_constants
from workbench.comparison.validation import against, elsewhere, validate
from workbench.comparison.validation.corpora import hivemind
from workbench.utils.checks import UserError
from workbench.utils.files import DATA, ROOT

FOLDER = DATA / "measured"
NOTEBOOK = ROOT / "notebooks" / "08_measured_elsewhere.ipynb"


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return validate("hivemind", FOLDER)


def off_percent(frame: pl.DataFrame, way: str = "predicted") -> Any:
    """Absolute errors of the runs of B and C, by name and model."""
    elsewhere = frame.filter(role="predict")
    names = zip(elsewhere["run"], elsewhere["model"], strict=True)
    return dict(zip(names, 100 * elsewhere[f"{way}_error"].abs(), strict=True))


def test_the_fit_gives_the_frozen_constants_from_one_zone() -> None:
    runs = hivemind.CORPUS.read(FOLDER)
    zone = runs.filter(role="fit")
    assert set(zone["regions"].str.replace_all("US| ", "")) == {""}
    assert against.fitted(hivemind.CORPUS, runs) == load_constants("validation", "hivemind")


def test_the_rate_is_what_the_authors_saw() -> None:
    """At most 1.1 Gbit/s in one zone, as their paper says of the network; it was not fitted on."""
    assert load_constants("validation", "hivemind")["handled_gbps"] == pytest.approx(1.1, rel=0.05)


def test_errors_are_as_stated(frame: pl.DataFrame) -> None:
    off = off_percent(frame)
    mean = fmean(off.values())
    large = {name: percent for name, percent in off.items() if percent > 6}
    assert mean < 4
    assert list(large) == [("B-8", "NLP"), ("C-8", "NLP")]
    text = NOTEBOOK.read_text(encoding="utf-8")
    stated = re.findall(r"(\d+\.\d) % (?:on average|too short)", text)
    assert stated == [f"{value:.1f}" for value in (mean, *large.values())]
    assert f"{fmean(off_percent(frame, 'naive').values()):.0f} % for" in text.replace(
        '\\n",\n    "', " "
    )


def test_overlapped_handling_explains_one_machine_a_region_and_no_more(
    frame: pl.DataFrame,
) -> None:
    constants = load_constants("validation", "hivemind") | {"overlapped": 1.0}
    runs = hivemind.CORPUS.read(FOLDER)
    overlapped = off_percent(against.judged(hivemind.CORPUS, runs, constants))
    off = off_percent(frame)
    assert fmean(overlapped.values()) > 1.5 * fmean(off.values())
    assert max(overlapped.values()) > 2 * max(off.values())
    several = [(name, "NLP") for name in ("B-4", "B-6", "B-8", "C-6", "C-8")]
    assert all((overlapped[run] > 7) == (run in several) for run in overlapped)
    assert max(percent for run, percent in overlapped.items() if run not in several) < 4
    assert [round(end(overlapped[run] for run in several)) for end in (min, max)] == [8, 28]


def test_an_epoch_by_hand() -> None:
    """Three machines, one of them over a link of 1 MB/s and 0.1 s."""
    far = Link(8e6, latency_s=0.1)
    constants = {"round_s": 2.0, "handled_gbps": 0.016}
    cluster = hivemind.cluster_of("US US EU", constants, between=far)
    transport_s = 2 * (1e6 * 8 / 8e6 + 0.1)  # a share there, its mean back
    handling_s = 2 * 2 / 3 * 3e6 * 8 / 16e6
    meeting_s = 2 * 0.1  # the one that is there joins, and is answered
    assert hivemind.epoch_s(cluster, 3e6, 10.0, constants) == pytest.approx(
        10 + meeting_s + 2 + handling_s + transport_s, rel=1e-9
    )


def test_a_stream_by_hand() -> None:
    """A window of 32 first ones: four doublings lost, but for the window that they carry."""
    round_trip_s, bps = 0.1, 32 * 14_600 * 8 / 0.1
    long = hivemind.tcp_link(bps, round_trip_s)
    assert (long.bandwidth_bps, long.latency_s) == (bps, 0.05)
    assert long.overhead_s == pytest.approx(0.4)
    short = hivemind.tcp_link(bps, round_trip_s, 10.0)
    assert short.bandwidth_bps == pytest.approx(bps / 0.96)  # 0.4 s of the 10 carried nothing
    assert hivemind.tcp_link(1e4, 0.001).overhead_s == 0  # the first window is enough


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("A-2,CV,2,US US", "A-2,CV,2,US UK", "unknown region of run A-2 'UK'"),
        ("A-2,CV,2,US US", "A-2,CV,2,US", "run A-2 has 2 nodes in the regions US: name each's"),
    ],
)
def test_machines_without_a_region_are_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    text = (FOLDER / "hivemind.csv").read_text()
    (tmp_path / "hivemind.csv").write_text(text.replace(old, new, 1))
    with pytest.raises(UserError, match=message):
        hivemind.CORPUS.read(tmp_path)


def test_half_the_machines_there(frame: pl.DataFrame) -> None:
    """The sliders' first values are B-2 and B-4 with the steady rate of their link."""
    steady = hivemind.links()[0][frozenset(["US", "EU"])].bandwidth_bps
    assert isinstance(steady, float)
    rows = elsewhere.two_regions("NLP", steady / 1e6, 103)
    assert rows["machines"].unique(maintain_order=True).to_list() == [2, 4, 6, 8]
    for machines in (2, 4):
        epoch_s = rows.filter(machines=machines)["seconds"].sum()
        (measured,) = frame.filter(run=f"B-{machines}", model="NLP")["predicted_s"]
        assert epoch_s == pytest.approx(measured, rel=0.01)


def test_half_the_batch_takes_half_the_computing_and_the_same_averaging() -> None:
    whole = elsewhere.two_regions("CV", 210, 103, machines=4)
    half = elsewhere.two_regions("CV", 210, 103, machines=4, batch_size=elsewhere.BATCH // 2)
    shares = {"computing": 0.5, "averaging": 1.0}
    for part, share in shares.items():
        ours, theirs = (frame.filter(part=part)["seconds"].to_list() for frame in (half, whole))
        assert ours == pytest.approx([share * seconds for seconds in theirs], rel=1e-6)
