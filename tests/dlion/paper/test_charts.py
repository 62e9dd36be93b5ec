"""Every chart prints in both columns and says what was learnt by whom, or that nothing was."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pytest

from tests.dlion.paper import small
from workbench import figures
from workbench.dlion.paper.accuracy import final
from workbench.dlion.paper.explanations import FIRST_WEIGHTS, in_use
from workbench.experiments import recorded

DRAWN = [name for name, figure in small.FIGURES.items() if figure.chart and not figure.of]


def draw(name: str, frame: pl.DataFrame) -> Any:
    chart = small.FIGURES[name].chart
    assert chart is not None
    return chart(frame)


def title(chart: Any) -> str:
    """All titles of a chart, in a line."""

    def lines(of: Any) -> list[str]:
        found = of.get("title", []) if isinstance(of, dict) else []
        text = found.get("text", []) if isinstance(found, dict) else found
        own = [text] if isinstance(text, str) else list(text)
        inner = [one for kind in ("vconcat", "hconcat") for one in of.get(kind, [])]
        return [*own, *(line for one in inner for line in lines(one))]

    return "; ".join(lines(chart.to_dict()))


@pytest.mark.parametrize("name", DRAWN)
def test_it_prints_in_both_columns(name: str) -> None:
    chart = draw(name, small.frame(name))
    for column in figures.COLUMNS:
        svg = figures.svg(chart, column)
        assert svg.count("<path") > 5
        assert not re.search(r"NaN|undefined|Infinity", svg)


@pytest.mark.parametrize("name", small.TRAINED)
def test_what_learnt_what_is_said(name: str) -> None:
    told = title(draw(name, small.frame(name)))
    timed = "MobileNet" if name == "fig12" else "Cipher"
    each = small.MOBILE if name == "fig12" else small.LEARNER
    assert f"small Cipher with {timed}'s times, an iteration for {each.stands_for:g}" in told
    assert "60 samples of digits;" in told
    assert "one seed (simulated)" in told


def test_first_weights_of_the_constants_in_use_alone() -> None:
    of = recorded.load("dlion", "candidates")
    assert of is not None
    assert FIRST_WEIGHTS.chart is not None
    svg = figures.svg(FIRST_WEIGHTS.chart(in_use(of.frame)), "double")
    for first, title in (("own", "own"), ("shared", "the same for all")):
        rows = final(of.frame).filter(candidate="0.1, 1600 ms", first_weights=first)
        assert title in svg
        assert all(f">{100 * one:.1f}<" in svg for one in rows["top1"])


@pytest.mark.parametrize("name", small.CONTROLLERS)
def test_of_controllers_that_it_is_simulated(name: str) -> None:
    assert "(simulated)" in title(draw(name, small.frame(name)))


def paper(name: str) -> pl.DataFrame:
    """As if Cipher itself had learnt, with three seeds."""
    frame = small.frame(name).with_columns(
        learner=pl.lit("cipher"), stands_for=1.0, dataset=pl.lit("cifar10"), train_samples=50_000
    )
    return pl.concat([frame.with_columns(seed=pl.lit(one, pl.Int64)) for one in (1, 2, 3)])


def test_the_papers_own_learner_and_seeds() -> None:
    told = title(draw("fig11", paper("fig11")))
    assert told == (
        "Accuracy after the same virtual time; Cipher; 50,000 samples of CIFAR-10; mean and range "
        "of 3 seeds (simulated)"
    )


@pytest.mark.parametrize("name", ["fig11", "fig21"])
def test_trainings_that_failed_are_left_out_and_told(name: str) -> None:
    frame = small.frame("fig21")
    failed = (
        frame.filter(system="hop")
        .head(1)
        .with_columns(reason=pl.lit("diverged"), at_s=None, top1=None)
    )
    both = pl.concat([failed, frame.filter(pl.col("system") != "hop")], how="vertical_relaxed")
    chart = draw(name, both)
    assert "left out: 1 training that failed;" in title(chart)
    figures.svg(chart, "single")


def test_who_never_gets_there_is_said() -> None:
    frame = small.frame("fig9").with_columns(top1=pl.lit(0.5))
    late = frame.with_columns(
        seed=pl.lit(2, pl.Int64),
        top1=pl.when(panel="period", period=10).then(None).otherwise("top1"),
    )
    drawn = draw("fig9", pl.concat([frame, late])).to_dict()
    texts = [row["text"] for rows in drawn["datasets"].values() for row in rows if "text" in row]
    assert texts.count("never") == 1


def test_an_interface_is_what_it_was_until_it_changes() -> None:
    """Node 5 of Dynamic SYS A: a row where each phase begins, and one at the end."""
    drawn = draw("table3", small.frame("table3")).to_dict()
    (rows,) = (one for one in drawn["datasets"].values() if "mbps" in one[0])
    found = [
        (one["at_s"], one["mbps"])
        for one in rows
        if (one["environment"], one["node"]) == ("Dynamic SYS A", 5)
    ]
    assert found == [(0, 50), (500, 20), (1000, 50), (1500, 50)]
    assert drawn["spec"]["mark"]["interpolate"] == "step-after"
