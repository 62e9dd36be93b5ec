"""Every chart prints in both columns and says what was learnt by whom, or that nothing was."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.conftest import Smoke
from tests.expectations import stored_frames
from workbench import figures, systems
from workbench.dlion.paper.accuracy import final
from workbench.dlion.paper.cases import LEARNING
from workbench.dlion.paper.compared import MOBILE
from workbench.dlion.paper.explanations import FIRST_WEIGHTS, in_use
from workbench.experiments import recorded

FIGURES = systems.figures("dlion")
TRAINED = [
    name for name, figure in FIGURES.items() if figure.learnt or "usual_seeds" in figure.sizes
]


def draw(name: str, frame: pl.DataFrame) -> Any:
    chart = FIGURES[name].chart
    assert chart is not None
    return chart(frame)


def title(chart: Any) -> str:
    return "; ".join(chart.to_dict()["title"])


@pytest.mark.parametrize("name", TRAINED)
def test_it_says_what_learnt_what(name: str, smoke: Smoke) -> None:
    told = title(draw(name, stored_frames(smoke, "dlion")[name]))
    learner = (MOBILE if name == "fig12" else LEARNING).smoke.learner
    assert f"an iteration for {learner.stands_for:g}" in told
    assert "240 samples of digits; one seed" in told


def test_first_weights_of_the_constants_in_use_alone() -> None:
    of = recorded.load("dlion", "candidates")
    assert of is not None
    assert FIRST_WEIGHTS.chart is not None
    svg = figures.svg(FIRST_WEIGHTS.chart(in_use(of.frame)), "double")
    for first, heading in (("own", "own"), ("shared", "the same for all")):
        rows = final(of.frame).filter(candidate="0.1, 1600 ms", first_weights=first)
        assert heading in svg
        assert all(f">{100 * one:.1f}<" in svg for one in rows["top1"])


@pytest.mark.parametrize("name", ["fig11", "fig21"])
def test_trainings_that_failed_are_left_out_and_told(name: str, smoke: Smoke) -> None:
    frame = stored_frames(smoke, "dlion")["fig21"]
    failed = frame.filter(system="hop").head(1)
    failed = failed.with_columns(reason=pl.lit("diverged"), at_s=None, top1=None)
    both = pl.concat([failed, frame.filter(pl.col("system") != "hop")], how="vertical_relaxed")
    chart = draw(name, both)
    assert "left out: 1 training that failed;" in title(chart)
    figures.svg(chart, "single")


def test_who_never_gets_there_is_said(smoke: Smoke) -> None:
    frame = stored_frames(smoke, "dlion")["fig9"].with_columns(top1=pl.lit(0.5))
    late = frame.with_columns(
        seed=pl.lit(2, pl.Int64),
        top1=pl.when(panel="period", period=10).then(None).otherwise("top1"),
    )
    drawn = draw("fig9", pl.concat([frame, late])).to_dict()
    texts = [row["text"] for rows in drawn["datasets"].values() for row in rows if "text" in row]
    assert texts.count("never") == 1


def test_an_interface_is_what_it_was_until_it_changes(smoke: Smoke) -> None:
    """Node 5 of Dynamic SYS A: a row where each phase begins, and one at the end."""
    drawn = draw("table3", stored_frames(smoke, "dlion")["table3"]).to_dict()
    (rows,) = (one for one in drawn["datasets"].values() if "mbps" in one[0])
    found = [
        (one["at_s"], one["mbps"])
        for one in rows
        if (one["environment"], one["node"]) == ("Dynamic SYS A", 5)
    ]
    assert found == [(0, 50), (500, 20), (1000, 50), (1500, 50)]
    assert drawn["spec"]["mark"]["interpolate"] == "step-after"
