"""What co-runs: drawn by seed, averaged over time, and turned into a speed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.edgegossip.costs.load import Load, draw_load
from workbench.edgegossip.paper.testbed import STATED
from workbench.edgegossip.prediction.contention import Contention
from workbench.edgegossip.prediction.predictor import Predictor

FACTS = STATED["co_runners"]
HALF = Load((0.0, 10.0, 30.0), (Contention(), Contention(0.5, 10.0, 20.0), Contention()))
LINEAR = Predictor("linear", 4, 1.0, 1.0, (2.0, 0.0, 0.0), 0.01)


def test_means_by_hand() -> None:
    assert HALF.mean(0, 10) == Contention()  # at 10 s it has had none
    assert HALF.mean(0, 20) == Contention(0.25, 5.0, 10.0)
    assert HALF.mean(20, 40) == Contention(0.25, 5.0, 10.0)
    assert HALF.mean(-50, 20) == HALF.mean(0, 20)  # nothing is known of before
    assert HALF.mean(15, 15) == Contention(0.5, 10.0, 20.0)


def test_the_speed_is_the_inverse_of_the_slowdown() -> None:
    speed = HALF.speed(LINEAR)
    assert (speed.at(5), speed.at(10), speed.at(29), speed.at(31)) == (1.0, 0.5, 0.5, 1.0)


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


def test_a_longer_load_begins_as_a_shorter_one() -> None:
    short, long = (draw_load(1, 0, FACTS, until_s) for until_s in (200.0, 900.0))
    assert len(long.starts_s) > len(short.starts_s)
    assert long.starts_s[: len(short.starts_s)] == short.starts_s


def test_platforms_have_loads_of_their_own() -> None:
    assert draw_load(1, 0, FACTS, 500.0) != draw_load(1, 1, FACTS, 500.0)


def test_no_intensity_is_no_load() -> None:
    assert draw_load(1, 0, FACTS, 500.0, intensity=0.0) == Load()


def test_a_negative_intensity_is_refused() -> None:
    with pytest.raises(ValueError, match="intensity is -1"):
        draw_load(1, 0, FACTS, 500.0, intensity=-1.0)


def test_starts_without_contentions_are_refused() -> None:
    with pytest.raises(ValueError, match="2 starts for 1 contentions"):
        Load((0.0, 1.0), (Contention(),))
    with pytest.raises(ValueError, match="not in order"):
        Load((0.0, 0.0), (Contention(), Contention()))
