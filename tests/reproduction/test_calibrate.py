"""The search for constants, where what is best is known."""

from __future__ import annotations

import math

import pytest

from workbench.reproduction.calibrate import Search, Values

STEP = 1.25 ** (1 / 12)
SEARCH = Search({"speed": (0.1, 10.0), "rate": (1.0, 100.0)}, population=12, step=STEP, steps=12)


def misses(values: Values) -> float:
    """Nothing is missed from 0.9 to 1.1 of a speed, and above 1.2, up to a rate of 30."""
    speed, rate = values["speed"], values["rate"]
    return float(not (0.9 <= speed <= 1.1 or speed > 1.2) or rate > 30)


def test_an_interval_ends_where_more_is_missed_or_the_search_does() -> None:
    begun = {"speed": 0.91, "rate": 10.0}
    low, high = SEARCH.plateau(begun, "speed", misses)
    assert 0.9 <= low <= 0.9 * STEP
    assert 1.1 / STEP <= high <= 1.1
    assert SEARCH.plateau(begun, "rate", misses) == pytest.approx((8.0, 12.5))
    edge = begun | {"speed": 0.1}  # misses as many all around, down to the range's end
    assert SEARCH.plateau(edge, "speed", misses) == pytest.approx((0.1, 0.125))


def test_each_constant_goes_to_the_middle_of_its_interval() -> None:
    centre = SEARCH.centred({"speed": 0.91, "rate": 10.0}, misses)
    assert centre["speed"] == pytest.approx(math.sqrt(0.9 * 1.1), rel=STEP - 1)
    assert centre["rate"] == 10.0


def test_the_least_misfit_is_found_to_three_digits() -> None:
    def misfit(values: Values) -> float:
        return math.log(values["speed"] / 2.5) ** 2 + math.log(values["rate"] / 40) ** 2

    best = SEARCH.least(misfit)
    assert best == {name: float(f"{value:.3g}") for name, value in best.items()}
    assert best == pytest.approx({"speed": 2.5, "rate": 40.0}, rel=0.02)
    assert SEARCH.least(misfit) == best
