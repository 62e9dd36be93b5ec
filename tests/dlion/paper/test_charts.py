"""Every chart prints and says what was learnt by whom, or that nothing was."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.conftest import Smoke
from tests.expectations import stored_frames
from workbench import figures
from workbench.dlion.paper.accuracy import final
from workbench.dlion.paper.cases import LEARNING
from workbench.dlion.paper.compared import MOBILE
from workbench.reproduction import recordings, systems

FIGURES = systems.figures("dlion")
TRAINED = [
    name
    for name, figure in FIGURES.items()
    if figure.needs_paper_size or "usual_seeds" in figure.sizes
]


def draw(name: str, frame: pl.DataFrame) -> Any:
    chart = FIGURES[name].chart
    assert chart is not None
    return chart(frame)


def title(chart: Any) -> str:
    return "; ".join(chart.to_dict()["title"])


@pytest.mark.parametrize("name", TRAINED)
def test_it_says_what_learnt_what(name: str, smoke: Smoke) -> None:
    heading = title(draw(name, stored_frames(smoke, "dlion")[name]))
    learner = (MOBILE if name == "fig12" else LEARNING).smoke.learner
    assert f"an iteration for {learner.stands_for:g}" in heading
    assert "240 samples of digits; one seed" in heading


def test_candidates_and_first_weights_of_what_is_recorded() -> None:
    recorded = recordings.load("dlion", "candidates")
    assert recorded is not None
    svg = figures.svg(draw("candidates", recorded.frame), "double")
    for first in ("own", "shared"):
        rows = final(recorded.frame).filter(candidate="0.1, 1600 ms", first_weights=first)
        assert f"{first}: 0.1, 1600 ms" in svg
        means = rows.group_by("system").agg(pl.col("top1").mean())["top1"]
        assert all(f">{100 * mean:.1f}<" in svg for mean in means)


@pytest.mark.parametrize("name", ["fig11", "fig21"])
def test_trainings_that_failed_are_left_out_and_counted(name: str, smoke: Smoke) -> None:
    frame = stored_frames(smoke, "dlion")["fig21"]
    failed = frame.filter(system="hop").head(1)
    failed = failed.with_columns(reason=pl.lit("diverged"), at_s=None, top1=None)
    both = pl.concat([failed, frame.filter(pl.col("system") != "hop")], how="vertical_relaxed")
    chart = draw(name, both)
    assert "left out: 1 training that failed;" in title(chart)
    figures.svg(chart, "single")


def test_an_accuracy_that_is_never_reached_is_drawn_as_never(smoke: Smoke) -> None:
    frame = stored_frames(smoke, "dlion")["fig9"].with_columns(top1=pl.lit(0.5))
    late = frame.with_columns(
        seed=pl.lit(2, pl.Int64),
        top1=pl.when(period=10).then(None).otherwise("top1"),
    )
    drawn = draw("fig9", pl.concat([frame, late])).to_dict()
    texts = [row["text"] for rows in drawn["datasets"].values() for row in rows if "text" in row]
    assert texts.count("never") == 1
