"""The documentation: built without a warning in a fresh clone, and read without a network."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.conftest import Clone, Smoke, copy_repository
from workbench import scorecard
from workbench.claims import MISSES
from workbench.systems import SYSTEMS

ASKED = {
    "plan for own model": "how-to/own_model.html",
    "own model": "how-to/own_model.html",
    "holds": "explanation/scorecard.html",
    "add a system": "how-to/own_system.html",
    "run on three machines": "three_machines.html",
    "why is Hop missed": "explanation/missed.html",
}
"""What a stranger looks for, and where it stands."""
FIRST = 1
"""Of a search's results, among which it is."""
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""What a page loads by itself, by element; a link that a reader follows may lead elsewhere."""


class Page(HTMLParser):
    """What a page loads, where its links lead, and what they may lead to in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.loaded, self.links, self.places = list[str](), list[str](), {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        self.places.add(of.get("id") or "")
        if tag in LOADED and of.get("rel") not in ("next", "prev", "index", "search", "canonical"):
            self.loaded += filter(None, [of.get(LOADED[tag])])
        if tag == "a":
            self.links.append(of.get("href") or "")

    def target(self, link: str) -> Path:
        return (self.path.parent / unquote(urlsplit(link).path)).resolve()


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone in which no notebook has been run."""
    return copy_repository(tmp_path_factory.mktemp("docs") / "clone")


@pytest.fixture(scope="module")
def site(clone: Clone) -> Path:
    folder = clone.root / "docs" / "_build" / "html"
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    built = subprocess.run(
        [*command, "docs", folder],
        cwd=clone.root,
        env=clone.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (built.returncode, built.stderr) == (0, ""), built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    own = (path for path in site.rglob("*.html") if "_static" not in path.parts)
    return {path.resolve(): Page(path) for path in own}


@pytest.fixture
def offline(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(offline=True)
    yield context
    context.close()


def test_links_lead_somewhere(pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for link in page.links:
            if urlsplit(link).scheme in ("http", "https", "mailto"):
                continue
            target, place = page.target(link), urlsplit(link).fragment
            known = not urlsplit(link).path or target.exists()
            within = pages.get(path if not urlsplit(link).path else target)
            if not known or (within and unquote(place) not in within.places):
                broken.append(f"{path.name}: {link}")
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for link in page.loaded:
            assert link.startswith("data:") or page.target(link).is_file(), f"{path.name}: {link}"
    for style in site.rglob("*.css"):
        loads = re.findall(r"url\(\s*[\"']?(?!data:|#)([^)\"']+)", style.read_text("utf-8"))
        assert not [link for link in loads if urlsplit(link).scheme or link.startswith("//")], style


def test_every_figure_is_in_the_gallery(clone: Clone, pages: dict[Path, Page]) -> None:
    gallery = [page for path, page in pages.items() if path.parent.name == "gallery"]
    shown = {Path(link).name for page in gallery for link in page.loaded}
    figures = {path.name for path in (clone.root / "figures").glob("*.svg")}
    assert figures - shown == {"scorecard.svg"}  # which no notebook makes alone


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_missed_claim_is_listed(system: str, site: Path, clone: Clone) -> None:
    text = (site / "generated" / "papers" / f"{system}.html").read_text("utf-8")
    text = text.replace("’", "'")
    rows = scorecard.of_results(clone.results, system).rows
    missed = [row for row in rows if row.verdict in MISSES]
    assert missed or system == "olpb"  # all of its figures are made here
    for row in missed:
        assert f">{row.name}<" in text
        assert row.cause
        assert escape(row.cause.why[1:30], quote=False) in text, row.name


@pytest.mark.parametrize(
    "name", ["index", "tutorial", "generated/notebooks/04_dlion", "generated/api/runtime"]
)
def test_a_page_opens_from_disk(name: str, site: Path, offline: BrowserContext) -> None:
    page, problems = offline.new_page(), list[str]()
    page.on("requestfailed", lambda request: problems.append(request.url))
    page.on("pageerror", lambda error: problems.append(str(error)))
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / f"{name}.html").as_uri())
    page.evaluate("document.fonts.ready")
    assert problems == []
    assert {urlsplit(url).scheme for url in asked} <= {"file", "data"}
    for width in (1400, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("asked", ASKED)
def test_the_search_finds_it(asked: str, site: Path, offline: BrowserContext) -> None:
    page = offline.new_page()
    page.goto(f"{(site / 'search.html').as_uri()}?q={asked.replace(' ', '+')}")
    page.wait_for_selector("#search-results > p:has-text('finished')")
    found = page.locator("#search-results ul.search li > a").all()[:FIRST]
    assert ASKED[asked] in [urlsplit(str(one.get_attribute("href"))).path for one in found]


def test_notebooks_stand_as_they_were_run(smoke: Smoke, clone: Clone) -> None:
    code = "import sys; sys.path.insert(0, 'docs'); from extensions import notebooks\n"
    code += "print(notebooks.page('01_dynacomm'))"
    made = {}
    for root in (smoke.root, clone.root):
        environment = {**clone.environment, "PYTHONPATH": str(root)}
        command = [sys.executable, "-c", code]
        text = subprocess.check_output(command, cwd=root, env=environment, text=True)
        outputs = [one for cell in json.loads(text)["cells"] for one in cell.get("outputs", ())]
        made[root] = [kind for one in outputs for kind in one.get("data", ())]
    assert "text/html" in made[smoke.root]
    assert made[clone.root].count("image/svg+xml") >= 10
    for kinds in made.values():
        assert "application/vnd.jupyter.widget-view+json" not in kinds
