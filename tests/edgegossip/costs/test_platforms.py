"""What co-runs with a platform: drawn by seed, averaged, turned into a speed and a prediction."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refusals import refusals
from workbench.edgegossip import Contention, Load, Platform, Predictor
from workbench.edgegossip.costs.platforms import draw_load
from workbench.edgegossip.paper.testbed import STATED

SLOWS = Predictor("linear", 4, 1.0, 1.0, (2.0, 1.0, 1.0), baseline_s=0.01, memory=0.75)
# Nobody until 100 s, then half of the cores until 140 s, then all of them.
BUSY = Platform(
    "busy", SLOWS, Load((0.0, 100.0, 140.0), (Contention(), Contention(0.5), Contention(1.0)))
)


@pytest.mark.parametrize(
    ("now_s", "window_s", "core"),
    [
        (90.0, 60.0, 0.0),
        (130.0, 60.0, 0.25),  # half of a minute under half a load
        (160.0, 60.0, 2 / 3),  # two thirds of a minute half, a third whole
        (160.0, 20.0, 1.0),
        (160.0, 0.0, 1.0),
    ],
)
def test_throughput_is_predicted_from_the_mean_of_a_window(
    now_s: float, window_s: float, core: float
) -> None:
    slowdown = 1 + 2 * core
    for baseline_s in (0.01, 0.04):
        found = BUSY.throughput(baseline_s, now_s, window_s)
        assert found == pytest.approx(1 / (baseline_s * slowdown))


def test_speed_is_what_the_load_leaves() -> None:
    for at_s, core in ((0.0, 0.0), (99.0, 0.0), (100.0, 0.5), (140.0, 1.0), (1e6, 1.0)):
        assert BUSY.speed.at(at_s) == pytest.approx(1 / (1 + 2 * core))


def test_t_0_is_followed_with_the_load_taken_off() -> None:
    # Twenty samples in 0.8 s under half a load, which doubles t: 0.02 s each without.
    after_s = BUSY.observe(0.01, 20, 0.8, 130.0)
    assert after_s == pytest.approx(0.75 * 0.01 + 0.25 * 0.02)


@pytest.mark.parametrize(("samples", "seconds"), [(0, 1.0), (5, 0.0)])
def test_an_epoch_without_learning_tells_nothing(samples: int, seconds: float) -> None:
    assert BUSY.observe(0.01, samples, seconds, 10.0) == 0.01


EMPTY, HALF_BUSY = Load(), Load((0.0,), (Contention(0.5),))  # slowdowns of 1 and 2


def test_platform_of_several_executors_has_their_throughputs_together() -> None:
    three = Platform("three", SLOWS, (EMPTY, HALF_BUSY, *BUSY.executors), slower=2.0)
    for now_s, window_s in ((50.0, 20.0), (130.0, 60.0), (200.0, 60.0)):
        expected = 0.0  # each executor's, as if it were a platform of its own
        for load in three.executors:
            expected += Platform("one", SLOWS, load).throughput(0.02, now_s, window_s)
        assert three.throughput(0.02, now_s, window_s) == pytest.approx(expected)
    assert three.alone == pytest.approx(3 / 0.02)
    for at_s in (0.0, 99.0, 120.0, 1e6):
        expected = sum(Platform("one", SLOWS, load).speed.at(at_s) for load in three.executors)
        assert three.speed.at(at_s) == pytest.approx(expected / 2)


def test_t_0_of_several_executors_is_followed_by_what_they_learn_together() -> None:
    two = Platform("two", SLOWS, (EMPTY, HALF_BUSY))
    rate = two.throughput(0.02, 130.0, 60.0)  # as if t_0 were 0.02 s
    after_s = two.observe(0.01, 30, 30 / rate, 130.0)
    assert after_s == pytest.approx(0.75 * 0.01 + 0.25 * 0.02)


FACTS = STATED["co_runners"]
HALF = Load((0.0, 10.0, 30.0), (Contention(), Contention(0.5, 10.0, 20.0), Contention()))


def test_means_by_hand() -> None:
    assert HALF.mean(0, 10) == Contention()  # at 10 s it has had none
    assert HALF.mean(0, 20) == Contention(0.25, 5.0, 10.0)
    assert HALF.mean(20, 40) == Contention(0.25, 5.0, 10.0)
    assert HALF.mean(-50, 20) == HALF.mean(0, 20)  # nothing is known of before
    assert HALF.mean(15, 15) == Contention(0.5, 10.0, 20.0)


@given(st.integers(0, 1000), st.integers(0, 30))
def test_a_drawn_load_is_the_same_each_time_and_within_what_jobs_use(
    seed: int, platform: int
) -> None:
    load = draw_load(seed, platform, FACTS, 500.0)
    assert load == draw_load(seed, platform, FACTS, 500.0)
    assert all(start_s < 500 + 5 + 100 for start_s in load.starts_s)
    assert load.contentions[-1] == Contention()  # the last job ends
    most = max(FACTS[job]["core"][1] for job in ("wordcount", "sort")) * (1 + FACTS["jitter"])
    assert all(one.core <= most for one in load.contentions)
    assert load != draw_load(seed, platform + 1, FACTS, 500.0)


def test_a_longer_load_begins_as_a_shorter_one() -> None:
    short, long = (draw_load(1, 0, FACTS, until_s) for until_s in (200.0, 900.0))
    assert len(long.starts_s) > len(short.starts_s)
    assert long.starts_s[: len(short.starts_s)] == short.starts_s


def test_no_intensity_is_no_load() -> None:
    assert draw_load(1, 0, FACTS, 500.0, intensity=0.0) == Load()


test_load_refused = refusals(
    Load,
    {"contentions": (Contention(), Contention()), "starts_s": (0.0, 1.0)},
    {
        "starts_s": {"not in order": [(0.0, 0.0)], "starts_s is .*; give seconds": [None, 3]},
        "contentions": {
            "2 starts for 1 contentions": [(Contention(),)],
            "contentions? is .*; give a Contention for each start": [None, 3, [0.5, 0.5]],
        },
    },
)
test_platform_refused = refusals(
    Platform,
    {"name": "x", "predictor": SLOWS},
    {
        "predictor": {"predictor of x is None; give a Predictor": [None]},
        "load": {"load of x is .*; give a Load, or a tuple": [5, (), (5,)]},
        "slower": {"slower": [0.0, -1.0, math.inf, math.nan, "2"]},
    },
)
