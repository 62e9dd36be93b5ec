"""A platform under load says so, and learns t_0 from what epochs took."""

from __future__ import annotations

import pytest

from workbench.edgegossip import Platform, Predictor
from workbench.edgegossip.costs.load import Load
from workbench.edgegossip.prediction.contention import Contention
from workbench.edgegossip.prediction.predictor import Baseline

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
        found = BUSY.throughput(Baseline(baseline_s), now_s, window_s)
        assert found == pytest.approx(1 / (baseline_s * slowdown))


def test_speed_is_what_the_load_leaves() -> None:
    for at_s, core in ((0.0, 0.0), (99.0, 0.0), (100.0, 0.5), (140.0, 1.0), (1e6, 1.0)):
        assert BUSY.speed.at(at_s) == pytest.approx(1 / (1 + 2 * core))


def test_t_0_is_followed_with_the_load_taken_off() -> None:
    # Twenty samples in 0.8 s under half a load, which doubles t: 0.02 s each without.
    after = BUSY.observe(Baseline(0.01), 20, 0.8, 130.0)
    assert after.seconds == pytest.approx(0.75 * 0.01 + 0.25 * 0.02)
    assert after.observed == 1


@pytest.mark.parametrize(("samples", "seconds"), [(0, 1.0), (5, 0.0)])
def test_an_epoch_without_learning_tells_nothing(samples: int, seconds: float) -> None:
    assert BUSY.observe(Baseline(0.01, 3), samples, seconds, 10.0) == Baseline(0.01, 3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"predictor": None}, "predictor of x is None; give a Predictor"), ({"load": 5}, "a Load")],
)
def test_what_is_no_predictor_or_load_is_refused(changed: dict[str, object], message: str) -> None:
    predictor = Predictor("linear", 4, 1.0, 1.0, (1.0, 1.0, 1.0), 0.01)
    with pytest.raises(ValueError, match=message):
        Platform(**{"name": "x", "predictor": predictor, **changed})  # type: ignore[arg-type]
