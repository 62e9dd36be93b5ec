"""The documentation: built without a warning in a fresh clone, and read without a network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser

from tests.conftest import Clone, copy_repository

LINKS = "[...document.querySelectorAll('main a[href]')].map(link => link.href)"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone in which no notebook has been run."""
    return copy_repository(tmp_path_factory.mktemp("docs") / "clone")


@pytest.fixture(scope="module")
def site(clone: Clone) -> Path:
    folder = clone.root / "docs" / "_build" / "html"
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    built = subprocess.run(
        [*command, "--conf-dir", "docs", ".", folder],
        cwd=clone.root,
        env=clone.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (built.returncode, built.stderr) == (0, ""), built.stderr
    return folder


def test_the_site_opens_from_disk_without_a_network(site: Path, browser: Browser) -> None:
    with browser.new_context(offline=True) as context:
        page, asked, problems = context.new_page(), list[str](), list[str]()
        page.on("request", lambda request: asked.append(request.url))
        page.on("requestfailed", lambda request: problems.append(request.url))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto((site / "index.html").as_uri())
        page.wait_for_url("**/docs/index.html")
        page.evaluate("document.fonts.ready")
        assert problems == []
        assert {urlsplit(url).scheme for url in asked} <= {"file", "data"}
        links = [urlsplit(link) for link in page.evaluate(LINKS)]
        here = [Path(unquote(link.path)) for link in links if link.scheme == "file"]
        assert len(here) > 10
        assert [path for path in here if not path.exists()] == []


def test_every_figure_is_in_the_gallery(site: Path, clone: Clone) -> None:
    gallery = (site / "docs" / "generated" / "gallery.html").read_text("utf-8")
    figures = {path.name for path in (clone.root / "figures").glob("*.svg")}
    assert figures - set(re.findall(r"_images/([^\"]+)", gallery)) == {"scorecard.svg"}
