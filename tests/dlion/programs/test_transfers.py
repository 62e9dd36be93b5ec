"""Knowledge transfer in recorded runs: who had the best weights, who got them, what they became."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean

import numpy as np
import polars as pl
import pytest

from tests.dlion.trainings import setup
from workbench.dlion import System, Trained, Transfer, asynchronous, synchronous, train
from workbench.dlion.algorithms.baseline import whole


def nothing(gradient: object, links: object) -> Mapping[int, None]:
    return {}


def system(transfer: Transfer, hook: object = whole) -> System:
    return System("transfers", hook, synchronous, transfer=transfer)  # type: ignore[arg-type]


def moved(found: Trained) -> list[tuple[int, int, int]]:
    """Iteration, source and target of each transfer of weights."""
    weights = found.transfers.filter(topic="weights").sort("iteration", "target")
    return weights.select("iteration", "source", "target").rows()


def mean_losses(found: Trained, iteration: int, latest: int) -> dict[int, float]:
    return {
        node: fmean(
            found.iterations.filter(pl.col("node") == node, pl.col("iteration") <= iteration).sort(
                "iteration"
            )["loss"][-latest:]
        )
        for node in range(3)
    }


@pytest.mark.parametrize("whom", ["all", "worst"])
@pytest.mark.parametrize("losses", [1, 3, 20])
def test_the_best_hands_over_when_losses_are_compared(whom: str, losses: int) -> None:
    transfer = Transfer(period=4, losses=losses, whom=whom, early_until=6, early_period=2)
    found = train(setup(1, 1, 1, iterations=13), system(transfer))
    expected = []
    for due in (2, 4, 6, 8, 12):
        means = mean_losses(found, due, losses)
        best, worst = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
        to = [worst] if whom == "worst" else [node for node in range(3) if node != best]
        expected += [(best, node) for node in to]
    assert [(source, target) for _, source, target in moved(found)] == expected
    sizes = found.transfers.filter(topic="weights")
    assert set(sizes["bytes"]) == {2600}
    assert set(sizes["values"]) == {650}


def test_equal_losses_ask_the_first() -> None:
    """All learn the same from one sample."""
    of = setup(1, 1, 1, first_weights="shared", shards=[[5] * 8] * 3, iterations=3)
    for whom, expected in (("all", [(0, 1), (0, 2)]), ("worst", [(0, 2)])):
        found = train(of, system(Transfer(period=2, losses=1, whom=whom)))
        assert len(set(mean_losses(found, 2, 1).values())) == 1
        assert [pair[1:] for pair in moved(found)] == expected


@pytest.mark.parametrize("mbps", [0.05, 10])
@pytest.mark.parametrize("iterations", [8, 9, 12])
def test_what_was_asked_for_arrives_before_the_end(iterations: int, mbps: float) -> None:
    one = replace(system(Transfer(period=4)), synch_training=asynchronous)
    found = train(setup(1, 1, 0.1, iterations=iterations, mbps=mbps), one)
    assert len(moved(found)) == 2 * (iterations // 4)
    assert found.transfers["bytes"].sum() == found.run.bytes
    assert sum(use.lost for use in found.run.links) == 0


@pytest.mark.parametrize("share", [0.0, 0.25, 0.75, 1.0])
def test_lambda(share: float) -> None:
    """Sec. 3.4: w_local - lambda * (w_local - w_best)."""
    of = setup(1, 1, iterations=4)
    alone = train(of, System("alone", nothing, synchronous))  # type: ignore[arg-type]
    found = train(of, system(Transfer(period=4, share=share), nothing))
    ((_, best, other),) = moved(found)
    before = alone.weights
    assert np.array_equal(found.weights[best], before[best])
    expected = before[other] - share * (before[other] - before[best])
    np.testing.assert_allclose(found.weights[other], expected, rtol=1e-5, atol=1e-7)
