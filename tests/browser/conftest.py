from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.harness import (
    CHROMIUM_ARGUMENTS,
    Lab,
    NoChromiumError,
    find_chromium,
    opened,
)

OpenLab = Callable[[Path], AbstractContextManager[Lab]]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests; none on this machine is a failure, not a skip."""
    with sync_playwright() as playwright:
        try:
            path = find_chromium(playwright)
        except NoChromiumError as error:
            pytest.fail(str(error), pytrace=False)
        chromium = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_lab(browser: Browser, tmp_path: Path) -> OpenLab:
    """Open a notebook's copy in JupyterLab: ``with open_lab(path) as lab: ...``."""
    return lambda notebook: opened(browser, notebook, tmp_path / "lab")
