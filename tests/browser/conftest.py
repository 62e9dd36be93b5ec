from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.chromium import find_chromium
from tests.browser.harness import CHROMIUM_ARGUMENTS, Lab, jupyterlab


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One Chromium for this folder's tests; none on this machine is a failure, not a skip.

    Not for all tests: as long as Playwright drives one, an event loop runs in this thread, where
    other tests do not expect it.
    """
    with sync_playwright() as playwright:
        path = find_chromium(playwright)
        if path is None:
            pytest.fail(
                "no Chromium runs here: install one (on Debian, as root: apt-get install chromium) "
                "or give its path as WORKBENCH_CHROMIUM",
                pytrace=False,
            )
        chromium = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="package")
def lab(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One JupyterLab and one page, in which this folder's tests open one notebook after another."""
    folder, state = tmp_path_factory.mktemp("notebooks"), tmp_path_factory.mktemp("state")
    with jupyterlab(folder, state) as server:
        yield Lab(browser.new_page(viewport={"width": 1400, "height": 1000}), server)
