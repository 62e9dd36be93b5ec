from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.harness import (
    CHROMIUM_ARGUMENTS,
    Lab,
    NoChromiumError,
    Server,
    find_chromium,
    jupyterlab,
    opened,
)
from workbench.paths import ROOT

OpenLab = Callable[[Path], AbstractContextManager[Lab]]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for a module's tests; none on this machine is a failure, not a skip.

    Not for all tests: as long as Playwright drives one, an event loop runs in this thread, where
    other tests do not expect it.
    """
    with sync_playwright() as playwright:
        try:
            path = find_chromium(playwright)
        except NoChromiumError as error:
            pytest.fail(str(error), pytrace=False)
        chromium = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One JupyterLab for a process's tests; each opens a notebook in a folder of its own."""
    folder, state = tmp_path_factory.mktemp("notebooks"), tmp_path_factory.mktemp("state")
    with jupyterlab(folder, state) as server:
        yield server


@pytest.fixture
def open_lab(browser: Browser, server: Server) -> OpenLab:
    """Open a notebook's copy in JupyterLab: ``with open_lab(path) as lab: ...``."""
    return lambda notebook: opened(browser, server, notebook)


@pytest.fixture
def at_smoke_scale(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy, at smoke scale, of the notebook that the test's module calls NAME."""
    name: str = request.module.NAME
    source = (ROOT / "notebooks" / name).read_text(encoding="utf-8")
    smaller = source.replace(r"scale: str = \"default\"", r"scale: str = \"smoke\"")
    assert smaller != source
    path = tmp_path / name
    path.write_text(smaller, encoding="utf-8")
    return path
