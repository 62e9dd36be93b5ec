"""Random problems and policies, the awkward ones included."""

import math
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from tests.oracles.hiertrain import Choice, Given
from workbench.clusters import Link
from workbench.hiertrain import TIERS, Chain, Hybrid, Problem
from workbench.hiertrain.costs import PAIRS

# Whole numbers make ties and zeros frequent; floats make sums round; sizes go far apart.
NUMBERS = st.one_of(
    st.integers(0, 4).map(float),
    st.floats(0, 10, allow_subnormal=False),
    st.floats(1e-6, 1e4),
)
OVERHEADS = st.sampled_from([0.0, 0.0, 0.01, 1.0, 30.0])


@st.composite
def problems(
    draw: st.DrawFn,
    max_layers: int,
    max_batch: int,
    *,
    numbers: st.SearchStrategy[float] = NUMBERS,
    bandwidths: st.SearchStrategy[float] | None = None,
    overheads: st.SearchStrategy[float] = OVERHEADS,
) -> Problem:
    """Problems of 1 to `max_layers` layers; a byte takes from 1e-4 to 1e3 seconds."""
    layers = draw(st.integers(1, max_layers))
    bandwidths = st.floats(8e-3, 8e4) | st.just(math.inf) if bandwidths is None else bandwidths

    def vector() -> list[float]:
        return draw(st.lists(numbers, min_size=layers, max_size=layers))

    return Problem(
        layer_s={tier: list(zip(vector(), vector(), strict=True)) for tier in TIERS},
        update_s={tier: vector() for tier in TIERS},
        param_bytes=vector(),
        output_bytes=vector(),
        sample_bytes=draw(numbers),
        links={pair: Link(draw(bandwidths), draw(overheads)) for pair in PAIRS},
        batch=draw(st.integers(1, max_batch)),
    )


# All times are then multiples of a power of two, so that equal durations are equal in floats.
def exact_problems(max_layers: int, max_batch: int) -> st.SearchStrategy[Problem]:
    return problems(
        max_layers,
        max_batch,
        numbers=st.integers(0, 3).map(float),
        bandwidths=st.sampled_from([4.0, 8.0, 16.0, math.inf]),
        overheads=st.sampled_from([0.0, 1.0]),
    )


def any_problem(layers: int, batch: int, *, layer_s: float = 1e-3) -> Problem:
    """For what does not depend on times, such as weights."""
    times = np.arange(1, layers + 1)
    return Problem(
        layer_s={
            tier: np.stack([k * layer_s * times, 2 * k * layer_s * times], 1)
            for k, tier in enumerate(TIERS, 1)
        },
        update_s=dict.fromkeys(TIERS, layer_s * times),
        param_bytes=1e3 * times,
        output_bytes=1e2 * times,
        sample_bytes=256,
        links={pair: Link(bps) for pair, bps in zip(PAIRS, (8e6, 4e6, 2e6), strict=True)},
        batch=batch,
    )


@st.composite
def hybrids(draw: st.DrawFn, problem: Problem) -> Hybrid:
    """Any legal hybrid policy of a problem."""
    m_s, m_l = sorted(draw(st.integers(0, problem.layers)) for _ in range(2))
    b_s = draw(st.integers(0, problem.batch)) if m_s else 0
    b_l = draw(st.integers(0, problem.batch - b_s)) if m_l else 0
    order = tuple(draw(st.permutations(TIERS)))
    return Hybrid(order, m_s, m_l, problem.batch - b_s - b_l, b_s, b_l)  # type: ignore[arg-type]


@st.composite
def chains(
    draw: st.DrawFn, problem: Problem, bits: Sequence[int | None] = (None, 1, 8, 16, 32)
) -> Chain:
    """Any legal chain of a problem."""
    tiers = draw(st.lists(st.sampled_from(TIERS), min_size=problem.layers, max_size=problem.layers))
    return Chain(tuple(tiers), problem.batch, draw(st.sampled_from(bits)))


def choice_of(policy: Hybrid) -> Choice:
    """A policy as the oracle takes it."""
    return policy.order, policy.m_s, policy.m_l, policy.b_o, policy.b_s, policy.b_l


def bps_of(link: Link) -> float:
    """Bandwidth of a link whose bandwidth is constant."""
    assert isinstance(link.bandwidth, float)
    return link.bandwidth


def given_of(problem: Problem) -> Given:
    """A problem as the oracle takes it."""
    return Given(
        forward_s={tier: problem.layer_s[tier][:, 0].tolist() for tier in TIERS},
        backward_s={tier: problem.layer_s[tier][:, 1].tolist() for tier in TIERS},
        update_s={tier: problem.update_s[tier].tolist() for tier in TIERS},
        param_bytes=problem.param_bytes.tolist(),
        output_bytes=problem.output_bytes.tolist(),
        sample_bytes=problem.sample_bytes,
        bandwidth_bps={frozenset(pair): bps_of(link) for pair, link in problem.links.items()},
        batch=problem.batch,
        overhead_s={frozenset(pair): link.overhead_s for pair, link in problem.links.items()},
    )
