"""What the cases learn from: a few samples, since only time and equal weights are looked at."""

from __future__ import annotations

from functools import lru_cache

from workbench import datasets
from workbench.datasets import Dataset


@lru_cache
def digits(count: int, shape: tuple[int, ...] = (1, 28, 28)) -> Dataset:
    """As many training samples, in the shape that a model takes, and few to test with."""
    return datasets.load("digits").fitted(shape).limit(train=count, test=16)
