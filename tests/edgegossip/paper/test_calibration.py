"""The stored constant is what the fit gives, and rests on the mean speed-up alone."""

from statistics import fmean

import pytest

from workbench.clusters import load_calibration
from workbench.edgegossip.paper.calibration import (
    EXPLANATIONS,
    FITTED_ON,
    speedups,
    to_toml,
)
from workbench.edgegossip.paper.testbed import EXPLANATION, Constants, Testbed, settings
from workbench.reproduction.claims import paper_value
from workbench.utils import files

STORED = load_calibration("edgegossip")


def test_one_claim_was_fitted_on() -> None:
    assert STORED["fitted_on"] == [FITTED_ON] == ["edgegossip.speedup"]
    assert paper_value(FITTED_ON) == 2.7


def test_settings_are_the_papers() -> None:
    found = list(settings())
    assert len(found) == 12
    assert {model for model, platforms in found if platforms == 4} == {
        "lenet5",
        "alexnet_cifar",
        "squeezenet_cifar",
        "mobilenet_v2_cifar",
    }
    assert {model for model, platforms in found if platforms > 4} == {"lenet5", "alexnet_cifar"}


def test_the_file_is_what_the_constants_give() -> None:
    stored = {name: Constants.load(name) for name in EXPLANATIONS}
    assert (files.DATA / "calibration" / "edgegossip.toml").read_text() == to_toml(stored)


@pytest.mark.parametrize("explanation", EXPLANATIONS)
def test_each_explanation_frees_one_constant(explanation: str) -> None:
    one, stored = EXPLANATIONS[explanation], Constants.load(explanation)
    low, high = one.between
    assert low < getattr(stored, one.constant) < high
    assert one.constants(getattr(stored, one.constant)) == stored


@pytest.mark.parametrize("explanation", EXPLANATIONS)
def test_each_explanation_meets_the_speed_up(explanation: str) -> None:
    assert STORED["residuals"][explanation][FITTED_ON] == 0  # to two digits


def test_a_constant_a_little_aside_misses_on_either_side() -> None:
    stored = Constants.load(EXPLANATION)
    wanted = paper_value(FITTED_ON)
    less, exact, more = (
        fmean(speedups(Testbed(Constants(factor * stored.host_ms))).values())
        for factor in (0.9, 1.0, 1.1)
    )
    assert exact == pytest.approx(wanted, abs=0.01)
    assert less > wanted + 0.03  # a faster host leaves more to gain
    assert more < wanted - 0.03
