"""Where a cost model is exact, the simulation takes what it predicts."""

from __future__ import annotations

import pytest

from workbench.three_ways import Case, edgegossip, olpb
from workbench.three_ways.dlion import hetero_sys_a

EXACT = [*edgegossip.cases(), *olpb.cases(), hetero_sys_a("baseline")]


@pytest.mark.parametrize("case", EXACT, ids=lambda case: case.name)
def test_simulated_is_predicted(case: Case) -> None:
    assert case.simulated.iteration_s == pytest.approx(case.predicted_s, rel=1e-9)


def test_balancing_is_faster_where_platforms_are_unequal() -> None:
    plain, balanced = (edgegossip.case(choice, 20.0) for choice in ("plain", "balanced"))
    assert balanced.predicted_s < 0.6 * plain.predicted_s


def test_scan_runs_again() -> None:
    case = olpb.by_arithmetic("blelloch")
    assert case.run("simulated").iteration_s == case.run("simulated").iteration_s
