from collections.abc import Iterator

import pytest

from workbench.experiments import finished


@pytest.fixture(autouse=True)
def nothing_in_memory() -> Iterator[None]:
    finished.forget()
    yield
    finished.forget()
