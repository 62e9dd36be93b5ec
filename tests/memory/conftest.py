"""Searches for garbage, of which every fit makes one, look at what a test made alone."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn

from workbench import memory


@pytest.fixture(scope="module", autouse=True)
def _little_to_search() -> None:
    """Leave out what PyTorch imports as it traces as well."""
    memory.fit(nn.Linear(2, 2), torch.randn(2, 2), "1MB")
    gc.collect()
    gc.freeze()
