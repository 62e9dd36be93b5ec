"""HierTrain's explorer says what an iteration takes, and marks it on the curves."""

from __future__ import annotations

from typing import Any

import pytest

from tests.long import usually
from workbench import figures
from workbench.hiertrain import PLANNERS, Chain, Hybrid, explorer, iteration
from workbench.hiertrain.explorer import Setting
from workbench.hiertrain.paper.testbed import variant


@pytest.mark.parametrize("planner", usually(["hiertrain", "jalad"], PLANNERS))
def test_it_says_what_an_iteration_takes(planner: str) -> None:
    setting = Setting(planner=planner)
    problem = variant(edge_cloud_mbps=3.5).problem("alexnet_tiny", 128)
    seconds = iteration(problem, PLANNERS[planner](problem)).total_s
    drawn = explorer.draw(setting)
    assert "(simulated)" in str(drawn)
    title = drawn["vconcat"][0]["title"]
    assert title[1] == f"{seconds:.3g} s an iteration (cost model)"
    assert explorer.trace(setting).end_s <= seconds * (1 + 1e-9)


@pytest.mark.parametrize(
    "other",
    [{}, {"devices": 3}, {"edge_cores": 3}, {"batch_size": 48}, {"device_edge_mbps": 2.0}],
    ids=str,
)
def test_the_mark_stands_on_the_curve(other: dict[str, Any]) -> None:
    drawn = explorer.draw(Setting(**other))
    mark, *_ = drawn["vconcat"][2]["layer"][2:]
    rows = drawn["datasets"][mark["data"]["name"]]
    assert {row["edge_cloud_mbps"] for row in rows} == {3.5}
    curve = drawn["datasets"][drawn["vconcat"][2]["layer"][1]["data"]["name"]]
    for row in rows:
        assert row in curve  # 3.5 is one of the curve's own points


def test_the_assignment_shows_every_part() -> None:
    policy = Hybrid(("cloud", "device", "edge"), 1, 2, 3, 4, 5)
    drawn = explorer.assignment(policy.table(5), 5, 12).to_dict()
    (rows,) = drawn["datasets"].values()
    assert [(row["tier"], row["start"], row["end"], row["samples"]) for row in rows] == [
        ("cloud", 0.5, 1.5, 3),
        ("cloud", 1.5, 2.5, 7),
        ("cloud", 2.5, 5.5, 12),
        ("device", 0.5, 1.5, 4),
        ("edge", 0.5, 2.5, 5),
    ]
    chain = Chain(("edge",) * 2 + ("cloud",) * 3, 12, 8)
    assert "cloud" in figures.svg(explorer.assignment(chain.table(), 5, 12), "single")
