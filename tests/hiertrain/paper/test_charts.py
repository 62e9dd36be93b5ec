"""Every figure can be printed, says where its numbers come from, and shows what it should."""

import polars as pl
import pytest

from workbench import figures
from workbench.hiertrain import PLANNERS, Chain, Hybrid
from workbench.hiertrain.explorer import assignment
from workbench.hiertrain.paper.iteration_time import draw_planners, iterations
from workbench.hiertrain.paper.simulated import overtaken


def test_overtaken_counts_points_with_shared_interfaces_only() -> None:
    rows = [
        ("alexnet_tiny", mbps, planner, shared, seconds)
        for mbps, ours in ((1.5, 3.0), (2.0, 1.0))
        for planner, seconds in (("hiertrain", ours), ("jalad", 2.0))
        for shared in ("interfaces", "none")
    ]
    schema = ["model", "edge_cloud_mbps", "planner", "sharing", "simulated_s"]
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    assert overtaken(frame).endswith("faster at 1 of 2 points")


def test_the_assignment_shows_every_part() -> None:
    policy = Hybrid(("cloud", "device", "edge"), 1, 2, 3, 4, 5)
    drawn = assignment(policy.table(5), 5, 12).to_dict()
    (rows,) = drawn["datasets"].values()
    assert [(row["tier"], row["start"], row["end"], row["samples"]) for row in rows] == [
        ("cloud", 0.5, 1.5, 3),
        ("cloud", 1.5, 2.5, 7),
        ("cloud", 2.5, 5.5, 12),
        ("device", 0.5, 1.5, 4),
        ("edge", 0.5, 2.5, 5),
    ]
    chain = Chain(("edge",) * 2 + ("cloud",) * 3, 12, 8)
    assert "cloud" in figures.svg(assignment(chain.table(), 5, 12), "single")


def test_a_planner_of_ones_own_stands_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLANNERS, "mine", PLANNERS["all_edge"])
    frame = iterations("alexnet_tiny", ["hiertrain", "mine"])
    assert "mine" in figures.svg(draw_planners(frame))
