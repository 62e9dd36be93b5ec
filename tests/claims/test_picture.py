"""The scorecard as a picture: which marks, where, and that timings of one machine stay out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl
import pytest

from tests.claims.helpers import FIG1, TOY_ANSWERS, Toy
from workbench import claims, figures
from workbench.claims import picture
from workbench.claims.picture import COLOURS, SHAPES
from workbench.results import Results

SVG = "{http://www.w3.org/2000/svg}"
RECORDED = {"fig1": FIG1.with_columns(reduction=pl.Series([39.0, 10.0]))}
TIMED = TOY_ANSWERS.replace('"from fig1")', '"from fig1", timed=True)')


def card(toy: Toy, **recorded: pl.DataFrame) -> claims.Scorecard:
    return claims.of_frames(
        "toy", {"fig1": FIG1}, scale="smoke", recorded=recorded, claims=toy.claims
    )


def rows_of(chart: Any) -> list[dict[str, Any]]:
    """Every claim in the data of a chart."""
    data = chart.to_dict()["datasets"].values()
    return [row for rows in data for row in rows if "claim" in row]


def titles(path: Path) -> list[str]:
    return [one.text or "" for one in ET.parse(path).iter(f"{SVG}title")]


class TestThePicture:
    def test_has_a_mark_for_each_claim_at_the_papers_value_and_ours(self, toy: Toy) -> None:
        drawn = {row["claim"]: row for row in rows_of(picture(card(toy)))}
        assert set(drawn) == {"toy.fig1.best", "toy.fig1.second", "toy.fig2.order"}
        best = drawn["toy.fig1.best"]
        assert (best["paper"], best["ours"], best["verdict"]) == (40.0, 30.0, "trend")
        assert (best["label"], drawn["toy.fig1.second"]["label"]) == ("fig1.best", "")
        assert drawn["toy.fig2.order"]["verdict"] == "holds"

    def test_the_band_is_what_is_near(self, toy: Toy) -> None:
        data = picture(card(toy)).to_dict()["datasets"].values()
        (band,) = (rows for rows in data if "least" in rows[0])
        low, high = band[0]["paper"], band[-1]["paper"]
        assert low < 20
        assert high > 40
        for row in band:
            near = claims.tolerance("percent", row["paper"])
            assert row["least"] == pytest.approx(max(row["paper"] - near, low))
            assert row["most"] == pytest.approx(min(row["paper"] + near, high))

    def test_says_how_many_claims_got_which_verdict(self, toy: Toy) -> None:
        subtitle = picture(card(toy)).to_dict()["title"]["subtitle"]
        assert subtitle[0] == "5 claims at smoke scale:"  # the input is none of ours
        assert subtitle[1] == "1 near, 1 holds, 1 trend, 2 not run"

    def test_leaves_out_what_a_clock_decides_where_it_has_to_be_the_same(
        self, toy: Toy, tmp_path: Path
    ) -> None:
        toy.answer_by(TIMED)
        drawn = [row["claim"] for row in rows_of(picture(card(toy), timed=False))]
        assert drawn == ["toy.fig1.best", "toy.fig1.second"]
        path = claims.write(card(toy), tmp_path / "scorecard.svg")
        assert sorted(titles(path)) == ["toy.fig1.best", "toy.fig1.second"]
        assert "timed on this machine" in path.read_text()
        before = path.read_bytes()
        assert claims.write(card(toy), path).read_bytes() == before

    def test_draws_recorded_results_as_open_marks(self, toy: Toy) -> None:
        plain, both = (
            len(picture(one).to_dict()["concat"][0]["layer"])
            for one in (card(toy), card(toy, **RECORDED))
        )
        assert both == plain + 1
        best = next(
            row for row in rows_of(picture(card(toy, **RECORDED))) if "best" in row["claim"]
        )
        assert (best["ours"], best["recorded_value"]) == (30.0, 39.0)

    def test_an_open_mark_has_the_verdict_on_what_was_recorded(self, toy: Toy) -> None:
        drawn = picture(card(toy, **RECORDED)).to_dict()
        marks = drawn["concat"][0]["layer"][3]
        assert marks["mark"]["filled"] is False
        for channel in ("color", "shape"):
            assert marks["encoding"][channel]["field"] == "recorded_verdict"
        assert "recorded" in [one["field"] for one in marks["encoding"]["tooltip"]]
        rows = {row["claim"]: row for row in rows_of(picture(card(toy, **RECORDED)))}
        best, second = (rows[f"toy.fig1.{name}"] for name in ("best", "second"))
        assert (best["verdict"], best["recorded_verdict"]) == ("trend", "near")
        assert (second["verdict"], second["recorded_verdict"]) == ("near", "trend")
        assert (best["recorded"], second["recorded"]) == ("39 (near)", "10 (trend)")

    def test_a_claim_that_is_only_recorded_has_its_mark(self, toy: Toy) -> None:
        only = claims.of_frames("toy", {}, recorded=RECORDED, claims=toy.claims)
        rows = {row["claim"]: row for row in rows_of(picture(only))}
        best = rows["toy.fig1.best"]
        assert (best["ours"], best["recorded_value"], best["label"]) == (None, 39.0, "")
        assert rows["toy.fig1.second"]["label"] == "fig1.second"
        assert figures.svg(picture(only)).startswith("<svg")

    def test_nothing_but_what_did_not_run_can_be_drawn(self, toy: Toy) -> None:
        empty = claims.of_frames("toy", {}, claims=toy.claims)
        assert [row["verdict"] for row in rows_of(picture(empty))] == ["not run"]

    @pytest.mark.parametrize("column", ["single", "double"])
    def test_fits_a_column(self, toy: Toy, column: str) -> None:
        assert figures.svg(picture(card(toy, **RECORDED)), column).startswith("<svg")

    def test_verdicts_differ_in_shape_and_in_grey(self) -> None:
        assert len(set(SHAPES.values())) == len(SHAPES) == len(COLOURS)
        assert set(COLOURS.values()) <= set(figures.PALETTE)  # no two of which share a grey

    def test_a_notebook_keeps_it_and_shows_names_on_hovering(
        self, toy: Toy, tmp_path: Path
    ) -> None:
        kept = Results("toy", tmp_path / "kept")
        shown = claims.show(card(toy), kept)
        assert (tmp_path / "kept" / "timings" / "scorecard.svg").is_file()
        assert kept.frames["scorecard"]["verdict"].to_list()[0] == "trend"
        bundle = shown._repr_mimebundle_()
        assert "image/svg+xml" in bundle
        assert "where the pointer is" in bundle["text/plain"]
        assert '"tooltip"' in json.dumps(shown.chart.spec)
