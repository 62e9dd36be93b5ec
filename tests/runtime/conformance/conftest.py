"""Each test of conformance runs simulated and measured."""

from __future__ import annotations

import pytest

from tests.runtime.runtimes import Runtime, arbitrated
from workbench.runtime import simulate
from workbench.runtime.measured import measure


@pytest.fixture(params=["simulated", "measured", "arbitrated"])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    """All, one after the other."""
    if request.param == "simulated":
        return Runtime(simulate, exact=True)
    request.getfixturevalue("ray_session")
    return Runtime(measure if request.param == "measured" else arbitrated, exact=False)
