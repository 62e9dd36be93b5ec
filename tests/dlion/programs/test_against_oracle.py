"""Whole trainings against synchronous gradient descent in plain loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.dlion.trainings import DIGITS, RATE, batches, batching, first_weights, setup
from tests.oracles import dlion_parts, dlion_training
from workbench.dlion import Batching, Growth, Setup, System, Trained, synchronous, train
from workbench.dlion.algorithms import SYSTEMS
from workbench.dlion.algorithms.baseline import whole
from workbench.dlion.algorithms.max_n import MaxN
from workbench.training import Sgd

X, Y = DIGITS.x_train, DIGITS.y_train
Weight = Callable[[int, int, Sequence[int]], float]


def mean(sender: int, receiver: int, sizes: Sequence[int]) -> float:
    """Eq. 4."""
    return 1 / len(sizes)


def by_batches(sender: int, receiver: int, sizes: Sequence[int]) -> float:
    """Eq. 7."""
    return sizes[sender] / sizes[receiver] / len(sizes)


def by_samples(sender: int, receiver: int, sizes: Sequence[int]) -> float:
    return sizes[sender] / sum(sizes)


WEIGHTS: dict[str, Weight] = {"equal": mean, "dynamic": by_batches, "by_samples": by_samples}


def check(
    of: Setup,
    system: System | str,
    sizes: Sequence[Sequence[int]],
    weight: Weight = mean,
    selected: Any = None,
) -> Trained:
    """The training's weights and losses are the oracle's."""
    found = train(of, system)
    models, losses = dlion_training.synchronous(
        first_weights(of), batches(of, sizes), X, Y, rate=RATE, weight=weight, selected=selected
    )
    np.testing.assert_allclose(found.weights, np.stack(models), rtol=1e-5, atol=1e-6)
    rows = found.iterations.sort("iteration", "node")
    np.testing.assert_allclose(rows["loss"], np.ravel(losses), rtol=1e-5)
    assert rows["samples"].to_list() == [one for row in sizes for one in row]
    return found


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_equal_batches_are_one_large_batch(workers: int) -> None:
    of = setup(*[1.0] * workers, first_weights="shared")
    sizes = [[8] * workers] * 10
    found = check(of, "baseline", sizes)
    union = [np.concatenate(row) for row in batches(of, sizes)]
    alone = dlion_training.alone(first_weights(of)[0], union, X, Y, RATE)
    for weights in found.weights:
        np.testing.assert_allclose(weights, alone, rtol=1e-5, atol=1e-6)


def test_own_first_weights() -> None:
    of = setup(1, 2, 4, evaluate_every=1)  # which changes nothing
    first = first_weights(of)
    assert not np.allclose(first[0], first[1])
    found = check(of, "baseline", [[8] * 3] * 10)
    assert not np.allclose(found.weights[0], found.weights[1])  # nothing brings them together


@pytest.mark.parametrize("weighting", WEIGHTS)
@pytest.mark.parametrize("speeds", [(1, 2, 3), (3, 1), (1, 1)])
def test_weighted_update(weighting: str, speeds: tuple[float, ...]) -> None:
    """Cores in whole proportions, so that Eq. 5 needs no rounding."""
    of = setup(*speeds)
    sizes = [int(one) for one in dlion_parts.exact_shares(8 * len(speeds), speeds)]
    system = System("weighted", whole, synchronous, batching=batching(weighting, period=3))
    check(of, system, [sizes] * 10, WEIGHTS[weighting])


@pytest.mark.parametrize("weighting", WEIGHTS)
def test_a_growing_global_batch(weighting: str) -> None:
    """12, then 18 and 24 samples in the warm-up, then 48, always in the cores' proportions."""
    growth = Growth(6, 2.0, 1, 2, 0.25, 0.5)
    of = setup(1, 2, 3, local_batch=4, iterations=24)
    expected = dlion_parts.global_batches(
        12, 96, 24, add=6, factor=2.0, every=96, warm_up=192, warm_up_most=24, speed_up_most=48
    )
    assert {size for size, _ in expected} == {12, 18, 24, 48}
    sizes = [[size // 6, size // 3, size // 2] for size, _ in expected]
    system = System("growing", whole, synchronous, batching=Batching(growth, weighting=weighting))
    found = check(of, system, sizes, WEIGHTS[weighting])
    globals_ = found.iterations.filter(node=0)["global_batch"].to_list()
    assert globals_ == [size for size, _ in expected]


def test_max_n() -> None:
    own = System("mine", MaxN(10), synchronous)

    def selected(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        cut = [values[:640].tolist(), values[640:].tolist()]
        return np.array([one for part in cut for one in dlion_parts.max_n(part, Fraction(10))])

    for system in (replace(SYSTEMS["max10"], synch_training=synchronous), own):
        check(setup(1, 2, 4), system, [[8] * 3] * 10, selected=selected)


@pytest.mark.parametrize("host_s", [0.0, 1.5])
def test_batches_are_in_proportion_to_speed_whatever_an_iteration_takes_beside(
    host_s: float,
) -> None:
    system = System("x", whole, synchronous, batching=batching())
    of = setup(1, 2, 4, local_batch=14, host_s=host_s)
    found = train(of, system).iterations.filter(iteration=3).sort("node")
    assert found["samples"].to_list() == [6, 12, 24]


@pytest.mark.parametrize("workers", [2, 3])
def test_replicas_that_begin_equal_stay_so_with_top_k(workers: int) -> None:
    """But for the order of sums."""
    found = train(setup(*[1.0] * workers, first_weights="shared", iterations=20), "top_k")
    for weights in found.weights[1:]:
        np.testing.assert_allclose(weights, found.weights[0], rtol=1e-6, atol=1e-7)
    first = first_weights(setup(*[1.0] * workers, first_weights="shared"))[0]
    assert (found.weights[0] != first).mean() < 0.01 * 20 * workers + 0.01


def test_gradients_all_arrive_in_the_end() -> None:
    """From equal weights, what is not sent is what differs.

    Ako has sent all; what Gaia has not is below 1 % of the weight of before at either worker.
    """
    of = setup(1, 1, first_weights="shared", iterations=12, sgd=Sgd(0.01))
    ako, gaia = (train(of, name).weights for name in ("ako", "gaia"))
    np.testing.assert_allclose(ako[0], ako[1], atol=1e-6)
    apart, moved = np.abs(gaia[0] - gaia[1]), np.abs(gaia - first_weights(of)[0]).max()
    assert (apart <= 0.01 * (np.abs(gaia).sum(0) + 2 * moved) + 1e-6).all()
    assert apart.max() > 0.1 * moved
