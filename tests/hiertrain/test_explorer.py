"""The explorer: a pure function of its controls, valid at every end of them."""

from typing import Any

import altair as alt
import pytest

from tests.expectations import (
    assert_answers_at_every_end,
    assert_follows_every_control,
    assert_starts_where_the_notebook_does,
)
from workbench import figures
from workbench.hiertrain import PLANNERS, explorer, iteration
from workbench.hiertrain.paper.testbed import variant
from workbench.names import UnknownNameError
from workbench.widgets import Slider

SETTING = explorer.Setting(
    model="alexnet_tiny",
    planner="hiertrain",
    batch_size=128,
    device_edge_mbps=5.0,
    edge_cloud_mbps=3.5,
    edge_cores=1,
    devices=1,
)


def test_it_is_a_valid_chart_that_follows_every_control() -> None:
    others = {
        "model": "lenet5_cifar",
        "planner": "jalad",
        "batch_size": 16,
        "device_edge_mbps": 20.0,
        "edge_cloud_mbps": 1.5,
        "edge_cores": 4,
        "devices": 3,
    }
    assert_follows_every_control(explorer, SETTING, others)


def test_it_fits_both_columns() -> None:
    for column in figures.COLUMNS:
        svg = figures.svg(explorer.draw(**SETTING), column)
        for said in ("JointDNN+", "layer (number: samples)", "simulated", "cost model"):
            assert said in svg


@pytest.mark.parametrize("planner", PLANNERS)
def test_it_says_what_an_iteration_takes(planner: str) -> None:
    setting = explorer.Setting(**(SETTING | {"planner": planner}))
    chart = explorer.draw(**setting)
    assert isinstance(chart, alt.VConcatChart)
    problem = variant(edge_cloud_mbps=3.5).problem("alexnet_tiny", 128)
    seconds = iteration(problem, PLANNERS[planner](problem)).total_s
    title = chart.to_dict()["vconcat"][0]["title"]
    assert title[1] == f"{seconds:.3g} s an iteration (cost model)"
    assert explorer.trace(**setting).end_s <= seconds * (1 + 1e-9)


@pytest.mark.parametrize(
    "other",
    [{}, {"devices": 3}, {"edge_cores": 3}, {"batch_size": 48}, {"device_edge_mbps": 2.0}],
    ids=str,
)
def test_the_mark_stands_on_the_curve(other: dict[str, Any]) -> None:
    drawn = explorer.draw(**(SETTING | other)).to_dict()  # type: ignore[arg-type]
    mark, *_ = drawn["vconcat"][2]["layer"][2:]
    rows = drawn["datasets"][mark["data"]["name"]]
    assert {row["edge_cloud_mbps"] for row in rows} == {3.5}
    curve = drawn["datasets"][drawn["vconcat"][2]["layer"][1]["data"]["name"]]
    for row in rows:
        assert row in curve  # 3.5 is one of the curve's own points


def test_it_answers_at_every_end_of_every_control() -> None:
    assert_answers_at_every_end(explorer)


def test_controls_stand_where_the_notebook_says() -> None:
    controls = explorer.controls_at(**(SETTING | {"edge_cloud_mbps": 1000.0}))
    bandwidth = controls["edge_cloud_mbps"]
    assert isinstance(bandwidth, Slider)
    assert (bandwidth.value, bandwidth.maximum) == (1000.0, 1000.0)


def test_the_notebook_starts_at_the_papers_setting() -> None:
    assert_starts_where_the_notebook_does(explorer, "02_hiertrain.ipynb", planner="hiertrain")


def test_wrong_names_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'hiertrain'"):
        explorer.draw(**(SETTING | {"planner": "hiertrian"}))
    with pytest.raises(UnknownNameError, match="alexnet_tiny"):
        explorer.draw(**(SETTING | {"model": "alexnet_tny"}))
