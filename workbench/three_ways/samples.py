"""What the cases learn from: a few samples, since only time and equal weights are looked at."""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from workbench import datasets
from workbench.datasets import Dataset
from workbench.profiles import profile_model


@lru_cache
def digits(count: int, model: str = "lenet5") -> Dataset:
    """As many training samples, in the shape that a model takes, and few to test with."""
    shape = cast("tuple[int, ...]", profile_model(model).input_shape)
    return datasets.load("digits").fitted(shape).limit(train=count, test=16)
