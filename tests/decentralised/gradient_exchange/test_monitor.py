"""What a node measures of its links."""

from __future__ import annotations

import pytest

from workbench.decentralised.gradient_exchange.gradient import LATEST, Monitor
from workbench.runtime import Transfer


def test_bytes_over_seconds_of_the_latest_on_each_link() -> None:
    seen: list[Transfer] = []
    monitor = Monitor(0, seen)
    assert monitor.bandwidth_bps([1, 2]) == {1: None, 2: None}
    seen += [Transfer(0, 1, "gradient", 100.0 * at, 0.0, 1.0) for at in range(1, LATEST + 3)]
    seen += [
        Transfer(1, 0, "gradient", 1e9, 0.0, 1.0),  # towards this node
        Transfer(0, 2, "power", 0.0, 0.0, 1.0),  # without a size
        Transfer(0, 2, "gradient", 10.0, 1.0, 1.0),  # without a time
    ]
    latest = sum(100.0 * at for at in range(3, LATEST + 3))
    assert monitor.bandwidth_bps([1, 2]) == {1: pytest.approx(8 * latest / LATEST), 2: None}
    assert seen == []
    assert monitor.bandwidth_bps([1, 3]) == {1: pytest.approx(8 * latest / LATEST), 3: None}
