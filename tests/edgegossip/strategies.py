"""Platforms, and random data sets, the awkward ones included: equal points, small classes."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from workbench.edgegossip import Aggregation, Platform, Predictor


def platforms(*sample_s: float) -> list[Platform]:
    """Platforms of these seconds for a sample, beside which nothing runs."""
    return [
        Platform(f"p{at}", Predictor("linear", 4, 1.0, 1.0, (1.0, 1.0, 1.0), seconds))
        for at, seconds in enumerate(sample_s)
    ]


@st.composite
def labelled_points(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.int64], float]:
    """Points, their classes, and a ratio that they allow."""
    count, features = draw(st.integers(1, 40)), draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    # Few levels make points equal; many, and scales far apart, make sums round.
    levels = draw(st.sampled_from((1, 2, 10**6)))
    scale = draw(st.sampled_from((1e-6, 1.0, 1e6)))
    x = rng.integers(-levels, levels, (count, features)) / levels * scale
    y = rng.choice(draw(st.lists(st.integers(-3, 12), min_size=1, max_size=5)), count)
    return x, y.astype(np.int64), draw(st.floats(1, count))


@st.composite
def aggregations(draw: st.DrawFn) -> Aggregation:
    """Points of one feature in any subsets."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=12))
    members = np.repeat(np.arange(len(sizes)), sizes)
    np.random.default_rng(draw(st.integers(0, 99))).shuffle(members)
    points = np.zeros((len(sizes), 1))
    return Aggregation(points, np.zeros(len(sizes), np.int64), members.astype(np.int64), 1.0)
