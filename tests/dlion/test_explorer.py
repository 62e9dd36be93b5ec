"""What is DLion's own in its explorer; what all share is in `tests.test_explorers`."""

from __future__ import annotations

import pytest

from tests.long import usually
from workbench.dlion.costs.iteration import iteration
from workbench.dlion.explorer import Setting, cluster_of, workload_of


@pytest.mark.parametrize("workers", usually([3, 6], [3, 6, 12]))
def test_regions_of_any_number_of_workers_are_as_far_apart(workers: int) -> None:
    """Whole gradients take less over faster links between them."""
    slow_s, fast_s = (
        max(iteration(cluster_of(setting), workload_of(setting), "baseline").iteration_s)
        for setting in (
            Setting(environment="regions", workers=workers, bandwidth_mbps=mbps)
            for mbps in (20.0, 200.0)
        )
    )
    assert slow_s > 2 * fast_s
