"""The scorecard as a picture: which marks, where, and that timings of one machine stay out."""

from __future__ import annotations

import json
import random
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl
import pytest

from tests.scorecard.helpers import FIG1, Toy, order
from workbench import figures
from workbench.claims import VERDICTS
from workbench.notebook import Results
from workbench.scorecard import Scorecard, picture, show, write
from workbench.scorecard.picture import COLOURS, SHAPES, _beside_each_other, _lines

SVG = "{http://www.w3.org/2000/svg}"
RECORDED = {"fig1": FIG1.with_columns(reduction=pl.Series([39.0, 10.0]))}


def card(toy: Toy, **recorded: pl.DataFrame) -> Scorecard:
    return toy.judge({"fig1": FIG1}, scale="smoke", recorded=recorded)


def rows_of(chart: Any) -> list[dict[str, Any]]:
    """Every claim in the data of a chart."""
    data = chart.to_dict()["datasets"].values()
    return [row for rows in data for row in rows if "claim" in row]


def titles(path: Path) -> list[str]:
    return [one.text or "" for one in ET.parse(path).iter(f"{SVG}title")]


def texts(chart: Any) -> list[str]:
    drawn = ET.fromstring(figures.svg(chart))
    return ["".join(one.itertext()) for one in drawn.iter(f"{SVG}text")]


class TestThePicture:
    def test_has_a_mark_for_each_claim_at_ours_over_the_papers(self, toy: Toy) -> None:
        drawn = {row["claim"]: row for row in rows_of(picture(card(toy)))}
        best, second, order = (
            drawn[f"toy.{name}"] for name in ("fig1.best", "fig1.second", "fig2.order")
        )
        assert best["ratio"] == pytest.approx(30 / 40)
        assert second["ratio"] == pytest.approx(21 / 20)
        assert (best["verdict"], order["verdict"]) == ("trend", "holds")
        assert (best["label"], second["label"]) == ("fig1.best", "")

    def test_says_how_many_claims_of_each_system_are_met(self, toy: Toy) -> None:
        shown = texts(picture(card(toy)))
        assert "2 of 5 claims of the papers are met" in shown  # the input is not judged
        assert "2 of 5" in shown

    def test_leaves_out_what_a_clock_decides_where_it_has_to_be_the_same(
        self, toy: Toy, tmp_path: Path
    ) -> None:
        toy.change("fig1", answers={"toy.fig2.order": partial(order, timed=True)})
        path = write(card(toy), tmp_path / "scorecard.svg")
        assert sorted(titles(path)) == ["toy.fig1.best", "toy.fig1.second"]
        assert "1 of 4" in texts(picture(card(toy), timed=False))
        before = path.read_bytes()
        assert write(card(toy), path).read_bytes() == before

    def test_draws_what_claims_are_judged_by(self, toy: Toy) -> None:
        only = toy.judge({}, recorded=RECORDED)
        best, second = rows_of(picture(only))[-2:]
        assert best["ratio"] == pytest.approx(39 / 40)
        assert (best["verdict"], second["verdict"]) == ("near", "trend")
        assert second["label"] == "fig1.second"

    @pytest.mark.parametrize(
        ("reductions", "ticks"),
        [([30.0, 21.0], ["0.8", "1", "1.25"]), ([400.0, -1.0], ["no ratio", "≥ 4"])],
    )
    def test_what_has_no_ratio_or_a_large_one_stands_at_the_edge(
        self, toy: Toy, reductions: list[float], ticks: list[str]
    ) -> None:
        frame = FIG1.with_columns(reduction=pl.Series(reductions))
        shown = texts(picture(toy.judge({"fig1": frame})))
        assert set(ticks) <= set(shown)

    def test_nothing_but_what_did_not_run_can_be_drawn(self, toy: Toy) -> None:
        empty = toy.judge({})
        assert [row["verdict"] for row in rows_of(picture(empty))] == ["not run"]
        assert "0 of 5" in texts(picture(empty))

    def test_marks_lie_beside_each_other(self) -> None:
        px = {str(at): float(at % 17) for at in range(60)}
        levels = _beside_each_other(px, middle=8)
        assert min(levels.values()) == 0
        for one, other in combinations(px, 2):
            assert levels[one] != levels[other] or abs(px[one] - px[other]) >= 7

    @pytest.mark.parametrize("seed", range(30))
    def test_labels_lie_on_no_label(self, seed: int) -> None:
        drawn = random.Random(seed)
        names = [f"a.claim{number}" for number in range(5)]
        px = {name: drawn.uniform(0, 540) for name in names}
        levels = {name: drawn.randrange(6) for name in names}
        sides = {name: "left" if px[name] > 270 else "right" for name in names}
        lines = _lines({name: name for name in names}, sides, px, levels)

        def box(name: str) -> tuple[float, float]:
            """From where to where a label of eight letters goes, 5.6 px each."""
            return (px[name] - 44.8, px[name]) if px[name] > 270 else (px[name], px[name] + 44.8)

        for one, other in combinations(lines, 2):
            low, high = sorted((box(one), box(other)))
            assert abs(lines[one] - lines[other]) >= 1.9 or low[1] <= high[0]

    @pytest.mark.parametrize("column", ["single", "double"])
    def test_fits_a_column(self, toy: Toy, column: str) -> None:
        assert figures.svg(picture(card(toy, **RECORDED)), column).startswith("<svg")

    def test_verdicts_differ_in_shape_and_in_grey(self) -> None:
        judged = VERDICTS[:4]
        assert len({SHAPES[one] for one in judged}) == len(judged)
        assert {COLOURS[one] for one in judged} <= set(figures.PALETTE)  # none of the same grey

    def test_a_notebook_keeps_it_and_shows_names_on_hovering(
        self, toy: Toy, tmp_path: Path
    ) -> None:
        kept = Results("toy", tmp_path / "kept")
        shown = show(card(toy), kept)
        assert (tmp_path / "kept" / "timings" / "scorecard.svg").is_file()
        assert kept.frames["scorecard"]["verdict"].to_list()[0] == "trend"
        bundle = shown._repr_mimebundle_()
        assert "image/svg+xml" in bundle
        assert "where the pointer is" in bundle["text/plain"]
        assert '"tooltip"' in json.dumps(shown.chart.spec)
