"""What tracing imports at its first use is imported before the tests of this room."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn

from workbench import memory


@pytest.fixture(scope="package", autouse=True)
def _imported() -> None:
    """Leave these imports out of each later search for garbage, of which every fit makes one."""
    memory.fit(nn.Linear(2, 2), torch.randn(2, 2), "1MB")
    gc.collect()
    gc.freeze()
