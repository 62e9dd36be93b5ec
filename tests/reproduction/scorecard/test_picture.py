"""The scorecard as a picture: which marks, where, and that timings of one machine stay out."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest

from tests.reproduction.scorecard.helpers import FIG1, Toy, order
from workbench import figures
from workbench.reproduction.claims import VERDICTS
from workbench.reproduction.notebook import Results
from workbench.reproduction.scorecard import Scorecard, picture, show, write
from workbench.reproduction.scorecard.picture import COLOURS, SHAPES

SVG = "{http://www.w3.org/2000/svg}"


def card(toy: Toy) -> Scorecard:
    return toy.judge({"fig1": FIG1}, scale="smoke")


def ratios(chart: Any) -> dict[str, dict[str, Any]]:
    """The claims that have a mark, by id."""
    rows = [row for rows in chart["datasets"].values() for row in rows if "claim" in row]
    return {row["claim"]: row for row in rows}


def texts(svg: str) -> set[str]:
    drawn = ElementTree.fromstring(svg).iter(f"{SVG}text")
    return {"".join(text.itertext()) for text in drawn}


def test_each_number_has_a_mark_at_ours_over_the_papers(toy: Toy) -> None:
    marks = ratios(picture(card(toy)))
    assert marks.keys() == {"toy.fig1.best", "toy.fig1.second"}  # the order is in the bars alone
    best, second = marks.values()
    assert (best["ratio"], best["verdict"]) == (pytest.approx(30 / 40), "trend")
    assert second["ratio"] == pytest.approx(21 / 20)


def test_bars_say_how_many_claims_of_each_system_are_met(toy: Toy) -> None:
    shown = texts(figures.svg(picture(card(toy))))
    assert "2 of 5 claims of the papers are met" in shown  # the input is not judged
    assert {"Toy", "2 of 5"} <= shown


def test_what_a_clock_decides_is_left_out_where_it_has_to_be_the_same(
    toy: Toy, tmp_path: Path
) -> None:
    toy.change("fig1", answers={"toy.fig2.order": partial(order, timed=True)})
    path = write(card(toy), tmp_path / "scorecard.svg")
    assert {"1 of 4", "timed"} <= texts(path.read_text())
    before = path.read_bytes()
    assert write(card(toy), path).read_bytes() == before


def test_a_number_of_another_sign_has_no_mark_and_large_ratios_stand_at_the_edge(toy: Toy) -> None:
    frame = FIG1.with_columns(reduction=pl.Series([400.0, -1.0]))
    drawn = picture(toy.judge({"fig1": frame}))
    assert ratios(drawn).keys() == {"toy.fig1.best"}
    assert "≥ 4" in texts(figures.svg(drawn))


def test_nothing_but_what_did_not_run_can_be_drawn(toy: Toy) -> None:
    assert "0 of 5" in texts(figures.svg(picture(toy.judge({})), "single"))


def test_verdicts_differ_in_shape_and_in_grey() -> None:
    judged = len(VERDICTS[:4])
    assert len(set(SHAPES[:judged])) == judged
    assert set(COLOURS[:judged]) <= set(figures.PALETTE)  # no two of one grey


def test_a_notebook_keeps_and_shows_it(toy: Toy, tmp_path: Path) -> None:
    kept = Results("toy", tmp_path / "kept")
    shown = show(card(toy), kept)
    assert (tmp_path / "kept" / "timings" / "scorecard.svg").is_file()
    assert kept.frames["scorecard"]["verdict"].to_list()[0] == "trend"
    assert "image/svg+xml" in shown._repr_mimebundle_()
