"""As in training's tests: one thread, so that sums are always split alike."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from workbench.training import fixed_threads


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with fixed_threads(1):
        yield
