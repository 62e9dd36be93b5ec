"""Seconds of aggregating, by the operations of Table 3 (Han et al. 2021)."""

from __future__ import annotations

from workbench.edgegossip.aggregation import operations


def generation_s(
    technique: str,
    points: float,
    features: int,
    ratio: float,
    operations_per_s: float,
    *,
    classes: int = 10,
) -> float:
    """Seconds of reducing and dividing: the operations of Table 3 over a rate."""
    counted = operations(technique, max(1, round(points)), features, ratio, classes)
    return sum(counted) / operations_per_s
