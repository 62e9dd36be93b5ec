"""The input data aggregator: a few points that stand for many similar ones.

>>> from workbench import datasets
>>> from workbench.edgegossip import aggregation
>>> digits = datasets.load("digits")
>>> made = aggregation.aggregate(digits.x_train, digits.y_train, "hash_kmeans", ratio=10)
>>> made.points.shape
(144, 1, 8, 8)
>>> len(made.members)
1442
"""

from workbench.edgegossip.aggregation.aggregate import (
    AggregationTimes,
    aggregate,
    timed_aggregate,
)
from workbench.edgegossip.aggregation.aggregation import Aggregation
from workbench.edgegossip.aggregation.costs import operations
from workbench.edgegossip.aggregation.dividers import Divider
from workbench.edgegossip.aggregation.reducers import Reducer
from workbench.edgegossip.aggregation.techniques import TECHNIQUES, Technique

__all__ = [
    "TECHNIQUES",
    "Aggregation",
    "AggregationTimes",
    "Divider",
    "Reducer",
    "Technique",
    "aggregate",
    "operations",
    "timed_aggregate",
]
