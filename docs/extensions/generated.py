"""Writes ``generated/``, the pages that follow from code, figures and notebooks, before a build."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx

from extensions import api, command_line, gallery, notebooks, papers
from workbench.utils.files import ROOT

OF_ROOT = ("ARCHITECTURE", "ARTIFACT", "CHANGELOG", "CONTRIBUTING", "SECURITY")


def pages() -> Iterator[tuple[str, str]]:
    """Yield the file and the text of each page."""
    yield "front.md", _of_root("README.md", below="generated/")
    for name in OF_ROOT:
        yield f"{name.lower()}.md", _of_root(f"{name}.md")
    yield "command_line.md", command_line.page()
    yield "notebooks/index.md", notebooks.index()
    for name in notebooks.names():
        yield f"notebooks/{name}.ipynb", notebooks.page(name)
    for folder, made in (
        ("gallery", gallery.pages()),
        ("papers", papers.pages()),
        ("api", api.pages().items()),
    ):
        yield from ((f"{folder}/{name}.md", text) for name, text in made)


def _of_root(name: str, below: str = "") -> str:
    """A page of the repository's root, its links as they are from ``generated`` or where it is."""
    up, here = ("../", "") if not below else ("", below)
    text = (ROOT / name).read_text("utf-8").replace("](docs/", f"]({up}")
    for page in OF_ROOT:
        text = text.replace(f"]({page}.md", f"]({here}{page.lower()}.md")
    return re.sub(r"\]\((?=figures/|data/|CITATION|LICENSE)", f"]({up}../", text)


def write(app: Sphinx) -> None:
    """Write the pages that have changed, so that no other is built again; remove old ones."""
    folder = Path(app.srcdir) / "generated"
    texts = dict(pages())
    for path in folder.rglob("*.*"):
        if str(path.relative_to(folder)) not in texts:
            path.unlink()
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write them once Sphinx has its settings and before it looks for pages."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
