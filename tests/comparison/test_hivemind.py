"""The runs with Hivemind: constants from one zone alone, and the errors that the notebook states."""

from __future__ import annotations

import re

import polars as pl
import pytest

from workbench.comparison import hivemind, picture, predict_epoch_s
from workbench.paths import DATA, ROOT

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


def test_what_is_fitted_is_linear_in_the_constants() -> None:
    """A round is its constant, its bits over the rate, and the network's seconds; nothing else."""
    constants = hivemind.averaging()
    cluster = hivemind.regions().cluster(["US", "EU", "EU"])
    bare_s = predict_epoch_s(cluster, 1e9, 5.0, type(constants)())
    handled_s = 2 * 2 / 3 * 8e9 / constants.handled_bps
    whole_s = predict_epoch_s(cluster, 1e9, 5.0, constants)
    assert whole_s == pytest.approx(bare_s + constants.round_s + handled_s, rel=1e-9)


def test_the_rate_is_what_the_authors_saw() -> None:
    """At most 1.1 Gbit/s in one zone, as their paper says of the network; it was not fitted on."""
    assert hivemind.averaging().handled_bps == pytest.approx(1.1e9, rel=0.05)


def test_errors_are_as_stated(frame: pl.DataFrame) -> None:
    elsewhere = frame.filter(~pl.col("run").str.starts_with("A"))
    off = elsewhere.with_columns(pl.col("predicted_percent").abs())
    assert off["predicted_percent"].mean() < 4
    large = off.filter(pl.col("predicted_percent") > 6)
    assert sorted(large.rows_by_key("run")) == ["B-8", "C-8"]
    assert set(large["model"]) == {"NLP"}
    assert large["predicted_percent"].max() < 13.5
    text = NOTEBOOK.read_text(encoding="utf-8")
    stated = [float(one) for one in re.findall(r"(\d+\.\d) % (?:on average|too short)", text)]
    mean = off["predicted_percent"].mean()
    found = [mean, *large.sort("run")["predicted_percent"]]
    assert stated == [round(float(value), 1) for value in found]  # type: ignore[arg-type]


def test_no_simpler_sum_does_as_well(frame: pl.DataFrame) -> None:
    elsewhere = frame.filter(~pl.col("run").str.starts_with("A"))
    mean = {
        kind: elsewhere[f"{kind}_percent"].abs().mean()
        for kind in ("predicted", "computing", "bandwidth")
    }
    assert mean["predicted"] < min(mean["computing"], mean["bandwidth"]) / 2  # type: ignore[operator, type-var]


def test_errors_by_set(frame: pl.DataFrame) -> None:
    table = hivemind.errors(frame)
    assert table["set"].to_list() == list(hivemind.SETS.values())
    assert table["runs"].to_list() == [10, 8, 8]
    zone = frame.filter(pl.col("run").str.starts_with("A"))["predicted_percent"].abs()
    assert table.row(0, named=True)["predicted_mean"] == pytest.approx(zone.mean())
    assert table.row(0, named=True)["predicted_worst"] == zone.max()


def test_half_the_machines_there(frame: pl.DataFrame) -> None:
    """The sliders' first values are B-2 and B-4 with the steady rate of their link."""
    steady = hivemind.regions().link("US", "EU").bandwidth_bps
    assert isinstance(steady, float)
    rows = picture.two_regions("NLP", steady / 1e6, 103)
    assert rows["machines"].unique(maintain_order=True).to_list() == list(picture.MACHINES)
    for machines in (2, 4):
        epoch_s = rows.filter(machines=machines)["seconds"].sum()
        (measured,) = frame.filter(run=f"B-{machines}", model="NLP")["predicted_s"]
        assert epoch_s == pytest.approx(measured, rel=0.01)
