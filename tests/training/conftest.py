"""Small models are fastest with one thread, and results then hang on nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from workbench.training import fixed_threads


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Give PyTorch one thread."""
    with fixed_threads(1):
        yield
