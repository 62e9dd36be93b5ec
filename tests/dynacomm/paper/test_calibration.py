"""The stored constants are what the fit gives, rest on batch size 32 alone, and predict 16."""

from dataclasses import replace

import pytest

from workbench.clusters import load_calibration
from workbench.dynacomm.paper.calibration import (
    RANGES,
    SPEEDUP_CLAIM,
    errors,
    mean_absolute,
    reductions,
    to_toml,
)
from workbench.dynacomm.paper.testbed import Constants, paper_testbed, stated_testbed
from workbench.dynacomm.planners import PLANNERS
from workbench.utils import files

STORED = load_calibration("dynacomm")
CONSTANTS = Constants.load()


def test_claims_are_taken_apart() -> None:
    fitted, predicted = reductions(32), reductions(16)
    assert (len(fitted), len(predicted)) == (18, 12)
    assert set(fitted["direction"]) == {"forward", "backward", "iteration"}
    row = fitted.filter(fitted["id"] == "dynacomm.fwd32.inception_v4.ibatch").row(0)
    assert row[1:] == ("forward", "inception_v4", "ibatch", 24.22)


def test_no_claim_for_batch_size_16_was_fitted_on() -> None:
    assert set(STORED["fitted_on"]) == {*reductions(32)["id"], SPEEDUP_CLAIM}


def test_predicts_within_two_points() -> None:
    assert len(STORED["constants"]["key_granularity"]) == 5
    assert mean_absolute(errors(paper_testbed(), 16)) <= 2.0


def test_the_file_is_what_the_constants_give() -> None:
    stored = (files.DATA / "calibration" / "dynacomm.toml").read_text(encoding="utf-8")
    assert stored == to_toml(CONSTANTS)


def test_no_constant_fits_better_a_little_aside() -> None:
    def squared_error(tried: Constants) -> float:
        return sum(error**2 for error in errors(stated_testbed(tried), 32).values())

    best = squared_error(CONSTANTS)
    for name in RANGES:
        for factor in (0.97, 1.03):
            aside = replace(CONSTANTS, **{name: getattr(CONSTANTS, name) * factor})
            assert squared_error(aside) > best, f"{name} × {factor}"


def test_aggregation_meets_the_one_speed_up_it_was_fitted_on() -> None:
    testbed = paper_testbed()
    plan = PLANNERS["dynacomm"](testbed.costs("resnet152", 32))
    assert testbed.speedup("resnet152", 32, plan) == pytest.approx(7.2, abs=0.01)
