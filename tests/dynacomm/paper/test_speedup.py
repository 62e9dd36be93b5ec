"""Fig. 11, simulated at the smallest scale, against the cost model."""

from __future__ import annotations

import pytest

from tests.expectations import Stored
from workbench.dynacomm.paper import speedup
from workbench.dynacomm.paper.testbed import paper_testbed, variant
from workbench.dynacomm.planners import PLANNERS

COUNTS = speedup.FIG11_SIMULATED.sizes["counts"].smoke


def test_simulated_speed_ups_of_equal_workers_are_the_cost_models(kept: Stored) -> None:
    frame = kept.frames["fig11_simulated"]
    equal = frame.filter(case="equal")
    assert len(equal) == len(COUNTS) * len(speedup.PLANNERS_OF_THE_PAPER)
    # Equal workers transfer in step, so the fair share of the cost model is what they get.
    assert equal["difference_percent"].abs().max() <= 1e-7  # type: ignore[operator]
    for row in equal.iter_rows(named=True):
        testbed = variant(row["workers"], row["bandwidth_mbps"])
        plan = PLANNERS[row["planner"]](testbed.costs(row["model"], row["batch_size"]))
        predicted = testbed.speedup(row["model"], row["batch_size"], plan)
        assert row["predicted_speedup"] == pytest.approx(predicted, rel=1e-12)
    ratio = 100 * (frame["speedup"] / frame["predicted_speedup"] - 1)
    assert frame["difference_percent"].to_list() == pytest.approx(ratio.to_list())


def test_model_bounds_unequal_workers_who_get_more_than_their_share(kept: Stored) -> None:
    frame, most = kept.frames["fig11_simulated"], max(COUNTS)
    assert most > paper_testbed().servers  # so that they share the servers' interfaces
    unequal = frame.filter(case="unequal")
    assert set(unequal.filter(workers=most)["slowest"]) == {speedup.SLOWEST}
    assert unequal["difference_percent"].min() >= -1e-7  # type: ignore[operator]
    gained = dict(unequal.filter(workers=most).select("planner", "difference_percent").iter_rows())
    assert gained["sequential"] > 1
    alone = unequal.filter(workers=1).drop("case")
    assert alone.equals(frame.filter(case="equal", workers=1).drop("case"))


def test_one_iteration_is_enough() -> None:
    frame = speedup.FIG11_SIMULATED.frame("smoke", counts=(1,), iterations=1)
    assert frame["difference_percent"].abs().max() <= 1e-7  # type: ignore[operator]
