"""Runs with Hivemind: constants from one zone alone, and the errors that the notebook states."""

from __future__ import annotations

import re
from statistics import fmean
from typing import Any

import polars as pl
import pytest

from workbench.comparison import hivemind, picture
from workbench.utils.files import DATA, ROOT

FILE = DATA / "calibration" / "hivemind.toml"
NOTEBOOK = ROOT / "notebooks" / "08_measured_elsewhere.ipynb"


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return hivemind.predicted()


def test_the_fit_gives_the_file() -> None:
    assert hivemind.to_toml(*hivemind.fitted()) == FILE.read_text(encoding="utf-8")


def test_the_fit_sees_one_zone_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = hivemind.fitted()
    zone = hivemind.runs().filter(pl.col("run").str.starts_with("A"))
    monkeypatch.setattr(hivemind, "runs", lambda: zone)
    assert hivemind.fitted() == expected
    assert set(zone["regions"].str.replace_all("US| ", "")) == {""}


def test_the_rate_is_what_the_authors_saw() -> None:
    """At most 1.1 Gbit/s in one zone, as their paper says of the network; it was not fitted on."""
    assert hivemind.averaging().handled_bps == pytest.approx(1.1e9, rel=0.05)


def off_percent(frame: pl.DataFrame, kind: str = "predicted") -> Any:
    """Absolute errors of the runs of B and C, by name and model."""
    elsewhere = frame.filter(~pl.col("run").str.starts_with("A"))
    names = zip(elsewhere["run"], elsewhere["model"], strict=True)
    return dict(zip(names, elsewhere[f"{kind}_percent"].abs(), strict=True))


def test_errors_are_as_stated(frame: pl.DataFrame) -> None:
    off = off_percent(frame)
    mean = fmean(off.values())
    large = {name: percent for name, percent in off.items() if percent > 6}
    assert mean < 4
    assert list(large) == [("B-8", "NLP"), ("C-8", "NLP")]
    text = NOTEBOOK.read_text(encoding="utf-8")
    stated = re.findall(r"(\d+\.\d) % (?:on average|too short)", text)
    assert stated == [f"{value:.1f}" for value in (mean, *large.values())]
    assert f"{fmean(off_percent(frame, 'computing').values()):.0f} % for" in text.replace(
        '\\n",\n    "', " "
    )


def test_no_simpler_sum_does_as_well(frame: pl.DataFrame) -> None:
    simpler = [fmean(off_percent(frame, kind).values()) for kind in ("computing", "bandwidth")]
    assert fmean(off_percent(frame).values()) < min(simpler) / 2


def test_overlapped_handling_explains_one_machine_a_region_and_no_more(
    frame: pl.DataFrame,
) -> None:
    overlapped = off_percent(hivemind.predicted(overlapped=True))
    off = off_percent(frame)
    assert fmean(overlapped.values()) > 1.5 * fmean(off.values())
    assert max(overlapped.values()) > 2 * max(off.values())
    several = [(name, "NLP") for name in ("B-4", "B-6", "B-8", "C-6", "C-8")]
    assert all((overlapped[run] > 7) == (run in several) for run in overlapped)
    assert max(percent for run, percent in overlapped.items() if run not in several) < 4
    assert [round(end(overlapped[run] for run in several)) for end in (min, max)] == [8, 28]


def test_errors_by_set(frame: pl.DataFrame) -> None:
    table = hivemind.errors(frame)
    assert table["set"].to_list() == list(hivemind.SETS.values())
    assert table["runs"].to_list() == [10, 8, 8]
    zone = frame.filter(pl.col("run").str.starts_with("A"))["predicted_percent"].abs()
    assert table["predicted_mean"][0] == pytest.approx(zone.mean())
    assert table["predicted_worst"][0] == zone.max()


def test_half_the_machines_there(frame: pl.DataFrame) -> None:
    """The sliders' first values are B-2 and B-4 with the steady rate of their link."""
    steady = hivemind.regions().link("US", "EU").bandwidth_bps
    assert isinstance(steady, float)
    rows = picture.two_regions("NLP", steady / 1e6, 103)
    assert rows["machines"].unique(maintain_order=True).to_list() == [2, 4, 6, 8]
    for machines in (2, 4):
        epoch_s = rows.filter(machines=machines)["seconds"].sum()
        (measured,) = frame.filter(run=f"B-{machines}", model="NLP")["predicted_s"]
        assert epoch_s == pytest.approx(measured, rel=0.01)


def test_half_the_batch_takes_half_the_computing_and_the_same_averaging() -> None:
    whole = picture.two_regions("CV", 210, 103, machines=4)
    half = picture.two_regions("CV", 210, 103, machines=4, batch_size=picture.BATCH // 2)
    shares = {"computing": 0.5, "averaging": 1.0}
    for part, share in shares.items():
        ours, theirs = (frame.filter(part=part)["seconds"].to_list() for frame in (half, whole))
        assert ours == pytest.approx([share * seconds for seconds in theirs], rel=1e-6)
