"""Figures of all systems: drawn again they are the same, and say what their numbers are."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from tests.conftest import Smoke
from tests.expectations import stored_frames
from workbench import figures
from workbench.reproduction import systems

DRAWN = [
    pytest.param(system, name, id=f"{system}-{name}")
    for system in systems.TITLES
    for name, figure in systems.figures(system).items()
    if figure.chart
]
WIDE = [("olpb", "table1")]
"""Figures that need a double column."""
SAID: Mapping[str, Mapping[str, str]] = {
    "dynacomm": {
        "(cost model)": "fig5 fig6 fig7 fig8 fig9a fig9b fig11",
        "simulated": "fig10 replanning fig11_simulated",
        "this machine": "fig12",
    },
    "hiertrain": {
        "(cost model": "fig7 fig8 fig9 fig10 fig11",
        "simulated": "fig6 sharing accuracy",
        "this machine": "table2",
        "on one machine": "fig6_measured",
    },
    "edgegossip": {
        "(cost model)": "fig6 fig8",
        "(simulated)": "fig5 fig6_accuracy fig12 fig13 strategies dropouts",
        "a mark for each seed": "fig3",
        "timed": "fig3_times fig7",
        "recorded before": "fig9 fig10 fig11",
    },
    "dlion": {"(simulated)": " ".join(systems.figures("dlion"))},
    "olpb": {
        "(cost model)": "fig9 fig10 fig11 fig12",
        "(simulated)": "decoupled",
        "timed": "table2_times trade_times",
        "predicted for what runs again": "trade_times",
        "arithmetic alone takes time": "pays",
    },
}


@pytest.mark.parametrize(("system", "name"), DRAWN)
def test_it_is_drawn_again_and_says_what_its_numbers_are(
    system: str, name: str, smoke: Smoke
) -> None:
    (path,) = smoke.results.glob(f"*_{system}/*/{name}.vl.json")
    stored = json.loads(path.read_text())
    figure = systems.figures(system)[name]
    assert figure.chart is not None
    chart = figure.chart(stored_frames(smoke, system)[name])
    drawn = figures.specification(chart)
    if figure.timings and figure.recorded:  # the title of recorded ones says of which processor
        assert stored["title"][: len(drawn["title"])] == drawn.pop("title")
        assert drawn == {key: value for key, value in stored.items() if key != "title"}
    else:
        assert drawn == stored
    svg = figures.svg(chart, "double" if (system, name) in WIDE else "single")
    assert svg.count("<path") > 10
    assert len(svg) < 1_000_000
    for words, of in SAID[system].items():
        assert words in str(stored) or name not in of.split()
