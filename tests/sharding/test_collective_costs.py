"""A ring of all-reduce in closed form: by hand, and against a simulated all-reduce."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.sharding.test_collectives import averaged, mesh
from workbench.sharding.collective_costs import Bucket, buckets, overlapped_s, ring_s
from workbench.utils.checks import UserError


def test_ring_takes_what_a_simulated_all_reduce_over_the_same_uplinks_takes() -> None:
    simulated = averaged(mesh(4, 1e12, uplink_bps=8e6), 1e6)
    assert ring_s(1e6, 4, 1e6) == pytest.approx(max(simulated.results.values()), rel=1e-9)


def test_ring_by_hand() -> None:
    """Three workers: four steps of a third each, at 10 bytes a second and 0.5 s a step."""
    assert ring_s(60, 3, 10, 0.5) == pytest.approx(4 * (2 + 0.5))
    assert ring_s(60, np.array([1, 2]), 10) == pytest.approx([0, 2 * 3])


def test_buckets_hold_whole_layers_from_the_last() -> None:
    assert buckets([5, 30, 10, 4], [1, 1, 1, 1], bucket_bytes=20, first_bytes=3) == [
        Bucket(4, 0.25),
        Bucket(40, 0.75),
        Bucket(5, 1.0),
    ]


def test_overlapped_step_by_hand() -> None:
    """Gradients from 2 s on: the first bucket is known at 4 s, the second at 6 s."""
    parts = [Bucket(10, 0.5), Bucket(10, 1.0)]
    step = partial(overlapped_s, 6.0, 2.0, parts)
    assert step(lambda size: np.array(size / 10)) == pytest.approx(7)  # 4 to 5 s, 6 to 7 s
    assert step(lambda size: np.array(size / 2)) == pytest.approx(14)  # 4 to 9 s, 9 to 14 s
    assert step(lambda _: np.array(0.0)) == pytest.approx(6)


def test_overlap_is_never_slower_than_averaging_afterwards() -> None:
    parts = buckets([3e6] * 20, [1] * 20, bucket_bytes=8e6)
    reduce_s = partial(ring_s, workers=4, bytes_per_s=1e8)
    compute_s = np.linspace(0.1, 3, 20)
    step_s = overlapped_s(compute_s, compute_s / 3, parts, reduce_s)
    assert (step_s <= compute_s + reduce_s(60e6) + 1e-12).all()
    assert (step_s >= np.maximum(compute_s, reduce_s(60e6))).all()


@pytest.mark.parametrize(
    "change",
    [
        *({"workers": count} for count in (-1, 0, [2, 0], "three", float("nan"))),
        *({"bytes_per_s": 0}, {"size_bytes": -1.0}, {"overhead_s": -0.1}),
    ],
)
def test_rings_of_no_workers_or_rates_are_refused(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {"size_bytes": 60, "workers": 3, "bytes_per_s": 10}
    ((name, _),) = change.items()
    with pytest.raises(UserError, match=f"^{name} is .*"):
        ring_s(**{**good, **change})
