"""Which runs the machine disturbed."""

from __future__ import annotations

import polars as pl
import pytest

from workbench.runtime.measured import MeasuredRun

ROW = {"node": "a", "median_s": 0.0, "p95_s": 0.0, "worst_s": 0.0}


def run(late: int = 0, late_s: float = 0.0, steal: float = 0.0, kind: str = "wake") -> MeasuredRun:
    """Ten seconds with 100 transfers and waits, of which some are late."""
    rows = [
        ROW | {"kind": "transfer", "count": 50, "late": 0, "total_s": 0.0},
        ROW | {"kind": kind, "count": 50, "late": late, "total_s": late_s},
    ]
    return MeasuredRun(10.0, "done", {}, {}, None, 0, (), pl.DataFrame(rows), steal, 0.0, 0)


@pytest.mark.parametrize(
    ("found", "disturbed"),
    [
        (run(), False),
        (run(late=10), False),
        (run(late=11), True),
        (run(late=1, late_s=0.5), False),
        (run(late=1, late_s=0.51), True),
        (run(steal=0.02), False),
        (run(steal=0.021), True),
        (run(late=50, late_s=5.0, kind="work"), False),  # its own work, not the machine
    ],
)
def test_run_is_disturbed_beyond_what_the_rule_allows(found: MeasuredRun, disturbed: bool) -> None:
    assert found.disturbed is disturbed
