"""What aggregating costs: the operations that Table 3 counts, at a rate (Han et al. 2021)."""

from __future__ import annotations

from workbench.edgegossip.aggregation import operations


def generation_s(
    technique: str, points: float, features: int, ratio: float, operations_per_s: float
) -> float:
    """Seconds of aggregating: the operations of reducing and dividing as Table 3 counts them."""
    return sum(operations(technique, max(1, round(points)), features, ratio)) / operations_per_s
