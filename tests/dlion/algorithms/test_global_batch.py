"""The global batch against loops that count every sample."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import dlion_parts as oracle
from workbench.dlion.algorithms.global_batch import CONSTANT, DOUBLING, GlobalBatch, Growth, step

SHARES = st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0])


def states(first: int, growth: Growth, samples: int, iterations: int) -> list[GlobalBatch]:
    found = [GlobalBatch(first)]
    while len(found) < iterations:
        found.append(step(found[-1], growth, samples))
    return found


@given(
    first=st.integers(1, 200),
    samples=st.integers(1, 400),
    iterations=st.integers(1, 60),
    add=st.integers(0, 20),
    factor=st.sampled_from([1.0, 1.5, 2.0, 10.0]),
    every=st.integers(1, 1600),
    warm_up=st.integers(0, 2400),
    warm_share=SHARES,
    share=SHARES,
)
def test_counts_as_loops_do(
    *,
    first: int,
    samples: int,
    iterations: int,
    add: int,
    factor: float,
    every: int,
    warm_up: int,
    warm_share: float,
    share: float,
) -> None:
    growth = Growth(add, factor, every / samples, warm_up / samples, warm_share, share)
    found = states(first, growth, samples, iterations)
    expected = oracle.global_batches(
        first, samples, iterations, add=add, factor=factor, every=every, warm_up=warm_up,
        warm_up_most=math.floor(warm_share * samples), speed_up_most=math.floor(share * samples),
    )  # fmt: skip
    assert [(one.size, one.epoch) for one in found] == expected
    sizes = [one.size for one in found]
    assert sizes == sorted(sizes)
    for one in found:
        learnt = one.epoch * samples + one.learnt
        limit = warm_share if learnt <= warm_up else max(warm_share, share)
        assert one.size <= max(first, limit * samples)
        assert learnt == sum(sizes[: found.index(one)])


def test_the_papers_limits() -> None:
    found = states(192, DOUBLING, 60_000, 6000)
    assert max(one.size for one in found if one.epoch <= DOUBLING.warm_up_epochs) <= 600
    assert max(one.size for one in found) == 6000
    assert states(192, CONSTANT, 600, 500)[-1].size == 192
    assert states(7000, DOUBLING, 60_000, 500)[-1].size == 7000  # never shrinks


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"warm_up_add": -1}, "warm_up_add is -1"),
        ({"warm_up_add": 1.5}, r"warm_up_add is 1\.5"),
        ({"speed_up_factor": 0.5}, r"speed_up_factor is 0\.5; it must be at least 1"),
        ({"speed_up_factor": float("inf")}, "speed_up_factor is inf"),
        ({"speed_up_factor": float("nan")}, "speed_up_factor is nan"),
        ({"speed_up_factor": "2"}, "speed_up_factor is '2'; give a number"),
        ({"every_epochs": 0}, "every_epochs is 0"),
        ({"warm_up_epochs": -1}, "warm_up_epochs is -1"),
        ({"warm_up_share": 1.1}, r"warm_up_share is 1\.1; it is a share"),
        ({"speed_up_share": -0.1}, r"speed_up_share is -0\.1"),
        ({"speed_up_share": float("nan")}, "speed_up_share is nan"),
    ],
)
def test_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Growth(**changes)  # type: ignore[arg-type]
