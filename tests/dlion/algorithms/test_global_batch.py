"""The global batch against loops that count every sample."""

from __future__ import annotations

import math

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


def test_a_size_beyond_all_numbers_ends_at_its_share() -> None:
    growth = Growth(0, 1e308, 1, 0, 0.0, 0.5)
    assert states(9, growth, 40, 12)[-1].size == 20
    assert states(9, Growth(every_epochs=1e308), 40, 12)[-1].size == 9
