"""Systems as values: what they wait for, and what is no system."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import pytest

from workbench.dlion import Batching, Bounded, Progress, System, Transfer
from workbench.dlion.algorithms import ALGORITHMS, COMPARED, SYSTEMS, WEIGHTINGS
from workbench.dlion.algorithms.baseline import whole
from workbench.dlion.algorithms.hop import all_but_the_backup
from workbench.dlion.algorithms.synchronisation import asynchronous, delivered, synchronous


def test_catalogue() -> None:
    assert set(COMPARED) <= SYSTEMS.keys()
    assert ALGORITHMS["systems"] is SYSTEMS
    assert len({system.title for system in SYSTEMS.values()}) == len(SYSTEMS)


@pytest.mark.parametrize("iteration", range(1, 9))
def test_who_waits_for_whom(iteration: int) -> None:
    for newest in product((0, iteration - 1, iteration, iteration + 3), repeat=3):
        of = Progress(iteration, dict(enumerate(newest)))
        missing = sorted(iteration - one for one in newest)  # positive: that many behind
        assert synchronous(of) == (missing[-1] <= 0)
        assert Bounded(0)(of) == synchronous(of)
        assert Bounded(5)(of) == (missing[-1] <= 5)
        assert all_but_the_backup(of) == (missing[-2] <= 0 and missing[-1] <= 5)
        assert asynchronous(of)
        assert delivered(of)
    assert not delivered(Progress(1, {1: 1}, undelivered=1))


def test_nobody_waits_for_nobody() -> None:
    for system in SYSTEMS.values():
        assert system.synch_training(Progress(9, {}))


def test_weights_of_gradients() -> None:
    """Eqs. 4 and 7: three workers, batches 2, 4 and 6."""
    assert WEIGHTINGS["equal"](2, 6, 12, 3) == 1 / 3
    assert WEIGHTINGS["dynamic"](2, 6, 12, 3) == pytest.approx(1 / 9)
    assert WEIGHTINGS["dynamic"](6, 2, 12, 3) == 1
    assert sum(WEIGHTINGS["by_samples"](one, 2, 12, 3) for one in (2, 4, 6)) == 1


class NotCallable:
    pass


class Callable:
    def __call__(self, *arguments: Any) -> dict[int, Any]:
        return {}


def test_functions_and_classes() -> None:
    for hook in (whole, partial(whole), Callable, Callable()):
        assert System("mine", hook).generate_partial_gradients is hook


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"generate_partial_gradients": None}, "mine needs one of generate_partial_gradients"),
        ({"exchange_models": whole}, "mine needs one of generate_partial_gradients"),
        ({"generate_partial_gradients": "max_n"}, "of mine is 'max_n'; give a function"),
        ({"generate_partial_gradients": NotCallable}, r"of mine is <class .*NotCallable'>; give a"),
        ({"synch_training": 5}, "synch_training of mine is 5; give a function"),
        ({"title": 3}, "title is 3; give the system a name"),
        ({"title": ""}, "title is ''; give the system a name"),
        ({"acknowledged": "no"}, "acknowledged is 'no'; give True or False"),
        ({"synch_training": None}, "synch_training of mine is None; give a function"),
    ],
)
def test_no_hook(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        System(**{"title": "mine", "generate_partial_gradients": whole, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batching": True}, "batching is True; give a Batching, or None"),
        ({"transfer": 100}, "transfer is 100; give a Transfer, or None"),
    ],
)
def test_no_technique(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        System(**{"title": "mine", "generate_partial_gradients": whole, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"period": 0}, "period is 0"),
        ({"sizes": (4,)}, r"sizes are \(4,\); time batches of at least two sizes"),
        ({"sizes": (4, 4)}, "at least two sizes"),
        ({"sizes": (0, 4)}, "sizes is 0"),
        ({"sizes": 4}, r"sizes is 4; give batch sizes, such as \(4, 8, 16\)"),
        ({"sizes": {4, 8}}, "where order counts"),
        ({"weighting": "dynamik"}, "Did you mean 'dynamic'"),
    ],
)
def test_no_batching(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Batching(**changes)


def test_no_growth() -> None:
    with pytest.raises(TypeError, match="growth is 2; give a Growth"):
        Batching(growth=2)  # type: ignore[arg-type]


@pytest.mark.parametrize("staleness", [-1, 1.5, "5", None])
def test_no_bound(staleness: Any) -> None:
    with pytest.raises(ValueError, match="staleness is"):
        Bounded(staleness)


def test_equal_values_are_equal() -> None:
    assert Batching(sizes=[4, 8]) == Batching(sizes=(4, 8))  # type: ignore[arg-type]
    assert hash(Transfer()) == hash(Transfer(period=100))
