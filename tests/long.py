"""Which cases of a test `make test` tries; `make test-long` tries all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def usually(usual: Iterable[object], all_cases: Iterable[object]) -> list[Any]:
    """Return all cases as parameters, those that are not among the `usual` marked as long."""
    known = list(usual)
    cases = list(all_cases)
    assert all(one in cases for one in known), known
    return [one if one in known else pytest.param(one, marks=pytest.mark.long) for one in cases]
