"""The stored constants are what the fit gives, rest on batch size 32 alone, and predict 16."""

from dataclasses import replace

import pytest

from workbench.clusters import load_calibration, load_testbed
from workbench.dynacomm.algorithms import PLANNERS
from workbench.dynacomm.paper.calibration import (
    EXPLANATIONS,
    SPEEDUP_CLAIM,
    errors,
    mean_absolute,
    reductions,
    to_toml,
)
from workbench.dynacomm.paper.testbed import (
    EXPLANATION,
    Constants,
    paper_testbed,
    stated_testbed,
)
from workbench.utils import files

STORED = load_calibration("dynacomm")


def test_claims_are_taken_apart() -> None:
    fitted, predicted = reductions(32), reductions(16)
    assert (len(fitted), len(predicted)) == (18, 12)
    assert set(fitted["direction"]) == {"forward", "backward", "iteration"}
    row = fitted.filter(fitted["id"] == "dynacomm.fwd32.inception_v4.ibatch").row(0)
    assert row[1:] == ("forward", "inception_v4", "ibatch", 24.22)


def test_no_claim_for_batch_size_16_was_fitted_on() -> None:
    assert set(STORED["fitted_on"]) == {*reductions(32)["id"], SPEEDUP_CLAIM}


def test_at_most_five_constants() -> None:
    assert len(STORED["constants"][EXPLANATION]) <= 5


def test_predicts_within_two_points() -> None:
    predicted = mean_absolute(errors(paper_testbed(), 16))
    assert predicted <= 2.0
    assert STORED["mean_absolute_error"][EXPLANATION]["predicted"] == pytest.approx(
        predicted, abs=0.005
    )


def test_the_file_is_what_the_constants_give() -> None:
    assert (files.DATA / "calibration" / "dynacomm.toml").read_text() == to_toml(
        {name: Constants.load(name) for name in EXPLANATIONS}
    )


@pytest.mark.parametrize("explanation", EXPLANATIONS)
def test_no_constant_fits_better_a_little_aside(explanation: str) -> None:
    constants = Constants.load(explanation)

    def squared_error(tried: Constants) -> float:
        return sum(error**2 for error in errors(stated_testbed(tried), 32).values())

    best = squared_error(constants)
    for name in EXPLANATIONS[explanation]:
        for factor in (0.97, 1.03):
            aside = replace(constants, **{name: getattr(constants, name) * factor})
            assert squared_error(aside) > best, f"{name} × {factor}"


def test_the_explanation_in_use_was_chosen_without_a_look_at_batch_size_16() -> None:
    fitted = {
        name: mean_absolute(errors(stated_testbed(Constants.load(name)), 32))
        for name in EXPLANATIONS
    }
    assert min(fitted, key=fitted.__getitem__) == EXPLANATION


def test_overhead_agrees_with_the_window_that_table_1_states() -> None:
    stated = load_testbed("dynacomm")
    for model in ("vgg19", "googlenet", "inception_v4", "resnet152"):
        costs = paper_testbed().costs(model, 32)
        ours_ms = 1e3 * (costs.overhead_s + costs.pull_s[0])
        for window in ("last_push_ms", "first_pull_ms"):
            assert ours_ms == pytest.approx(stated[window][model], rel=0.1)


def test_aggregation_meets_the_one_speed_up_it_was_fitted_on() -> None:
    testbed = paper_testbed()
    plan = PLANNERS["dynacomm"](testbed.costs("resnet152", 32))
    assert testbed.speedup("resnet152", 32, plan) == pytest.approx(7.2, abs=0.01)
