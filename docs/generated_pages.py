"""The gallery and the causes of missed claims, written before a build; notebooks as they ran."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby
from pathlib import Path

from sphinx.application import Sphinx

from workbench.reproduction import results, systems
from workbench.reproduction.claims import CAUSES
from workbench.utils.files import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
GENERATED = ROOT / "docs" / "generated"
EXPLORERS = ROOT / "docs" / "pages" / "explorers"


def gallery() -> Iterator[str]:
    """Yield the lines of the page of all committed figures, by notebook."""
    yield "# Gallery\n\nEvery figure, by the notebook that draws it; how to get them as files:"
    yield "[figures for a paper](../how-to/figures.md).\n"
    for notebook in NOTEBOOKS:
        figures = (ROOT / "figures").glob(f"{results.system_of(notebook.stem)}_*.svg")
        first, *_ = json.loads(notebook.read_text("utf-8"))["cells"]
        yield f"#{''.join(first['source']).splitlines()[0]}\n\n:::{{container}} gallery"
        for figure in sorted(figures, key=_by_number):
            yield f"[![{figure.stem}](/figures/{figure.name})](/notebooks/{notebook.name})\n"
        yield ":::\n"
    if explorers := sorted(EXPLORERS.glob("*.html")):
        yield "## Explorers\n\nWith sliders that need no kernel:\n"
        yield from (
            f'- <a href="../../explorers/{page.name}">{page.stem}</a>' for page in explorers
        )


def _by_number(figure: Path) -> list[tuple[str, int]]:
    """Sort `fig9` before `fig10`."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D+)(\d*)", figure.stem)]


def causes() -> Iterator[str]:
    """Yield the lines of a text on known causes, by system: what figures say of their claims."""
    for system, title in systems.TITLES.items():
        yield f"## {title}\n"
        known = [item for figure in systems.judged(system) for item in figure.causes.items()]
        known.sort(key=lambda item: (item[1].kind, item[1].why))
        for cause, claims in groupby(known, key=lambda item: item[1]):
            names = ", ".join(f"`{claim}`" for claim, _ in claims)
            yield f"{names}\n: {CAUSES[cause.kind].capitalize()}: {cause.why.removesuffix('.')}.\n"


def write(app: Sphinx) -> None:
    """Write the pages that have changed, so that the others are not built again."""
    GENERATED.mkdir(exist_ok=True)
    for page in (gallery, causes):
        path, text = GENERATED / f"{page.__name__}.md", "\n".join(page()) + "\n"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
    named = (ROOT / "docs" / "reference" / "python.md").read_text("utf-8").split()
    for path in (GENERATED / "api").glob("*.rst"):
        if path.stem not in named:  # since the last build
            path.unlink()


def skip_elsewhere(app: Sphinx, _kind: str, name: str, value: object, *_: object) -> bool | None:
    """Describe a class or function only in its own room, not in those that offer it as well."""
    room = app.env.docname.rpartition("/")[2]
    rooms = [path.stem for path in (GENERATED / "api").glob("*.rst")]
    module = getattr(value, "__module__", "")
    home = max((one for one in rooms if f"{module}.".startswith(f"{one}.")), key=len, default=room)
    elsewhere = room in rooms and home != room and hasattr(import_module(home), name)
    return True if elsewhere else None


def as_run(app: Sphinx, page: str, source: list[str]) -> None:
    """Show a notebook with the results of `make reproduce`, where it has run."""
    folder, _, name = page.partition("/")
    if folder == "notebooks":
        executed = results.default_folder(ROOT) / name / f"{name}.ipynb"
        app.env.note_dependency(executed)
        if executed.is_file():
            source[0] = executed.read_text("utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect these functions to Sphinx."""
    app.connect("builder-inited", write)
    app.connect("autodoc-skip-member", skip_elsewhere)
    app.connect("source-read", as_run)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
