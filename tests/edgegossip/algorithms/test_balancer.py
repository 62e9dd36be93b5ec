"""The balancer against the printed pseudo-code, and what balance means."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.oracles import edgegossip as oracle
from tests.refusals import refusals
from workbench.edgegossip import TooManyFailedError, balance
from workbench.edgegossip.algorithms.failures import Handover

RATE = st.one_of(st.floats(0.002, 1e5), st.integers(1, 9).map(float))
WITH_FAILURES = st.lists(
    st.tuples(st.integers(1, 10**6), st.one_of(RATE, st.sampled_from((0.0, 1e-4, 0.001)))),
    min_size=1,
    max_size=12,
)
Platforms = list[tuple[int, float]]


@given(platforms=WITH_FAILURES, failed_share=st.sampled_from((0.0, 0.1, 0.5, 1.0)))
def test_is_algorithm_1(platforms: Platforms, failed_share: float) -> None:
    points, rates = map(list, zip(*platforms, strict=True))
    try:
        expected = oracle.algorithm_1(points, rates, 0.001, failed_share)
    except oracle.HaltedError:
        with pytest.raises(TooManyFailedError):
            balance(points, rates, failed_share=failed_share)
        return
    if not expected:  # all failed, and all may: the pseudo-code returns nothing
        with pytest.raises(TooManyFailedError, match="nobody"):
            balance(points, rates, failed_share=failed_share)
        return
    found = balance(points, rates, failed_share=failed_share)
    for platform in range(len(points)):
        assert found.failed[platform] == (platform not in expected)
        # Two divisions and an inverse against one division.
        assert found.ratios[platform] == pytest.approx(expected.get(platform, 0.0), rel=1e-15)


@pytest.mark.parametrize(
    ("points", "throughput", "options", "ratios"),
    [
        ((7,), (0.5,), {}, (1.0,)),
        ((1, 1), (0.001, 1), {"failed_share": 0}, (0.001, 1.0)),  # the threshold is no failure
        ([10] * 10, [0.0] + [1.0] * 9, {}, (0.0,) + (1.0,) * 9),  # the share is allowed
        ([10] * 10, [0.0] + [1.0] * 9, {"on_failures": "reassign"}, (0.0,) + (1.0,) * 9),
        ((0, 10, 20), (5, 1, 1), {}, (1.0, 1.0, 0.5)),  # without points not the fastest
        ([100, 100, 0], [1, 0, 1], {"failed_share": 0.5, "ranking_share": 0.1}, (1.0, 0.0, 1.0)),
    ],
)
def test_ratios_by_hand(
    points: Any, throughput: Any, options: dict[str, Any], ratios: tuple[float, ...]
) -> None:
    found = balance(points, throughput, **options)
    assert found.ratios == ratios
    assert found.failed == tuple(not ratio for ratio in ratios)
    assert found.points == tuple(points)  # of failed platforms left out, not handed over
    assert found.handovers == ()


def test_stops_with_a_report() -> None:
    with pytest.raises(TooManyFailedError, match=r"2 of 3 .*: 0 \(0 points/s, 5 points\), 2 \("):
        balance((5, 6, 7), (0, 1, 0.0005))


class TestReassign:
    @given(platforms=WITH_FAILURES)
    def test_every_point_of_a_failed_platform_goes_to_one_survivor(
        self, platforms: Platforms
    ) -> None:
        points, rates = map(list, zip(*platforms, strict=True))
        failed = [rate < 0.001 for rate in rates]
        assume(not all(failed))
        found = balance(points, rates, failed_share=0, on_failures="reassign")
        assert sum(found.points) == sum(points)
        total = sum(rate for rate, out in zip(rates, failed, strict=True) if not out)
        for platform, out in enumerate(failed):
            mine = [one for one in found.handovers if one.source == platform]
            if not out:
                assert not mine
                took = sum(
                    one.stop - one.first for one in found.handovers if one.target == platform
                )
                assert found.points[platform] == points[platform] + took
                continue
            assert found.points[platform] == 0
            assert found.ratios[platform] == 0
            covered = [at for one in mine for at in (one.first, one.stop)]
            assert covered[0] == 0
            assert covered[-1] == points[platform]
            assert covered[1:-1:2] == covered[2:-1:2]  # one begins where the other ends
            for one in mine:
                assert not failed[one.target]
                exact = points[platform] * rates[one.target] / total
                assert 0 < one.stop - one.first < exact + 1

    def test_by_hand(self) -> None:
        found = balance((100, 10, 50), (3, 0, 1), on_failures="reassign")
        # 7.5 and 2.5 of the ten points: the first of the two gets the odd one.
        assert [(one.source, one.target, one.first, one.stop) for one in found.handovers] == [
            (1, 0, 0, 8),
            (1, 2, 8, 10),
        ]
        assert found.points == (108, 0, 52)
        assert found.epoch_s == (36.0, math.inf, 52.0)
        assert found.ratios == (1.0, 0.0, 36 / 52)

    def test_nobody_left(self) -> None:
        with pytest.raises(TooManyFailedError, match="all 2 platforms"):
            balance((1, 2), (0, 0), on_failures="reassign")


def test_points_are_taken_over_by_rates_that_all_know() -> None:
    """However fast this platform believes the others to be at present."""
    rates, known = (10.0, 50.0, 0.0), (100.0, 50.0, 100.0)
    found = balance((80, 80, 80), rates, on_failures="reassign", taking_over=known)
    assert found.points == (133, 107, 0)
    assert found.handovers == (Handover(2, 0, 0, 53), Handover(2, 1, 53, 80))


test_balance_refused = refusals(
    balance,
    {"points": (1, 2), "throughput": (1, 1)},
    {
        "points": {
            "1 platforms by points, 2 by throughput": [(1,)],
            "0 platforms by points": [()],
            "points is": [(1, -2), (1.5, 1), None, 3],
        },
        "throughput": {"throughput is": [(math.nan, 1), (math.inf, 1), (-1, 1), ("fast", 1), 3]},
        "taking_over": {
            "2 by throughput, 1 by taking_over": [(1,)],
            "taking_over is": [(math.nan, 1), (-1, 1), (0, 0), ("fast", 1), 3],
        },
        "threshold": {"threshold": [0, -1, math.nan, math.inf]},
        "failed_share": {"failed_share": [-0.1, 1.1, math.nan]},
        "on_failures": {"stop, reassign": ["ignore", None]},
        "ranking_share": {"ranking_share": [-0.1, math.nan, math.inf, "0.1"]},
    },
)


@given(
    st.lists(st.tuples(st.integers(1, 10_000), st.floats(0.01, 1e4)), min_size=1, max_size=8),
    st.floats(0, 0.5),
)
def test_ranking_and_learning_take_all_as_long_as_the_fastest(
    platforms: list[tuple[int, float]], share: float
) -> None:
    points, rates = zip(*platforms, strict=True)
    found = balance(points, rates, ranking_share=share)
    fastest_s = min(n / rate for n, rate in platforms)
    for n, rate, ratio in zip(points, rates, found.ratios, strict=True):
        assert 0 < ratio <= 1
        taken_s = (ratio + share) * n / rate
        if ratio > 1 / n:
            assert taken_s == pytest.approx((1 + share) * fastest_s)
        else:  # ranking alone takes as long, or all but one point of it
            assert taken_s >= (1 + share) * fastest_s * (1 - 1e-9)
    assert 1.0 in found.ratios
    literal = balance(points, rates)
    assert balance(points, rates, ranking_share=0.0) == literal
    assert all(
        a <= b or a == 1 / n for a, b, n in zip(found.ratios, literal.ratios, points, strict=True)
    )
