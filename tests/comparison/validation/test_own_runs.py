"""Anybody's measured runs against predictions: by hand, and what is refused in the user's terms."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.refusals import refusals
from workbench.clusters import Link
from workbench.comparison import Averaging, Regions, validate

RUN = {
    "run": "mine",
    "model": "tiny",
    "nodes": 3,
    "regions": "here here there",
    "parameters_bytes": 3e6,
    "measured_epoch_s": 20.0,
    "compute_s": 10.0,
}
WITHIN = Link(80e6)
PLACES = Regions({("here", "there"): Link(8e6, latency_s=0.1)}, WITHIN)


def changed(**values: Any) -> pl.DataFrame:
    return pl.DataFrame([RUN | values])


def test_by_hand() -> None:
    averaging = Averaging(round_s=2.0, handled_bps=16e6)
    row = validate(changed(), PLACES, averaging).row(0, named=True)
    transport_s = 2 * (1e6 * 8 / 8e6 + 0.1)  # a share there, its mean back
    handling_s = 2 * 2 / 3 * 3e6 * 8 / 16e6
    meeting_s = 2 * 0.1  # the one that is there joins, and is answered
    assert row["predicted_s"] == pytest.approx(
        10 + meeting_s + 2 + handling_s + transport_s, rel=1e-9
    )
    assert row["computing_s"] == 10
    assert row["bandwidth_s"] == pytest.approx(10 + 3e6 * 8 / 8e6)
    assert row["measured_s"] == 20
    assert row["computing_percent"] == pytest.approx(-50)
    assert row["bandwidth_percent"] == pytest.approx(-35)
    assert row["predicted_percent"] == pytest.approx(100 * (row["predicted_s"] / 20 - 1))


def test_machines_of_a_model_share_its_computing() -> None:
    frame = validate(changed().drop("compute_s"), PLACES, Averaging(), machine_s={"tiny": 30.0})
    assert frame.equals(validate(changed(), PLACES, Averaging()))


def test_whole_numbers_and_fractions_may_be_mixed() -> None:
    runs = [RUN | {"measured_epoch_s": 20, "compute_s": 10}, RUN | {"measured_epoch_s": 20.5}]
    frame = validate(pl.DataFrame(runs, strict=False), PLACES, Averaging())
    assert frame["measured_s"].to_list() == [20, 20.5]


def test_a_csv_file_of_ones_own(tmp_path: Path) -> None:
    changed().write_csv(tmp_path / "runs.csv")
    (tmp_path / "links.toml").write_text(
        "within = { gbps = 1, round_trip_ms = 1 }\n"
        "[between.here]\nthere = { gbps = 0.008, round_trip_ms = 200 }\n"
    )
    frame = validate(tmp_path / "runs.csv", Regions.read(tmp_path / "links.toml"), Averaging())
    assert frame["predicted_s"][0] > 10


@pytest.mark.parametrize("column", ["regions", "compute_s"])
def test_missing_columns_are_named(column: str) -> None:
    with pytest.raises(ValueError, match=f"lack the columns {column}; they have run, model"):
        validate(changed().drop(column), PLACES, Averaging())


test_wrong_rows_are_named = refusals(
    lambda **values: validate(changed(**values), PLACES, Averaging()),
    {},
    {
        "regions": {"row 1, run mine: unknown region 'three'.*'there'": ["here here three"]},
        "nodes": {"run mine: 2 nodes in 3 regions": [2], "at least 2": [1], "nodes is": [2.5]},
        "parameters_bytes": {"parameters_bytes is 0.0": [0.0]},
        "compute_s": {"compute_s is 'long'": ["long"]},
        "measured_epoch_s": {"measured_epoch_s is": [None, math.nan, math.inf]},
    },
)


def test_other_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match="give a row for each"):
        validate(changed().clear(), PLACES, Averaging())
    with pytest.raises(ValueError, match="give a polars frame or a CSV file"):
        validate([RUN], PLACES, Averaging())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown model 'tiny'"):
        validate(changed(), PLACES, Averaging(), machine_s={"large": 1.0})


test_refusals_of_averaging = refusals(
    Averaging,
    {"round_s": 1.0, "handled_bps": 1e9},
    {
        "round_s": {"round_s is": [-1.0, math.inf, math.nan, "1"]},
        "handled_bps": {"handled_bps is": [0.0, -1.0, math.nan]},
    },
)
