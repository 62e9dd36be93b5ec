"""The notebooks as they were run, or with the committed figures where they have not been.

Also which cell of which notebook makes each figure.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from workbench import results
from workbench.experiments.figure import Figure
from workbench.utils.files import ROOT

FIGURES = ROOT / "figures"
EXPLORERS = ROOT / "docs" / "pages" / "explorers"
_NOT_SHARED = (
    "can stand here as well, as [pages that need no kernel](../../how-to/share.md): they are drawn "
    "in about ten minutes, so only when asked for."
)
_DRAWN = re.compile(r'results\.(?:show\((\w+)\.(\w+)|draw\("(\w+)")')
_LEFT_OUT = ("image/png", "application/vnd.jupyter.widget-view+json")


@dataclass(frozen=True)
class Drawn:
    """A committed figure: its file, the notebook and the cell that makes it, and the section."""

    path: Path
    notebook: str
    source: str
    section: str


def names() -> list[str]:
    """Return the names of all notebooks."""
    return sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))


@cache
def stored(notebook: str) -> dict[str, Any]:
    """Return a notebook as it is committed, without outputs."""
    text = (ROOT / "notebooks" / f"{notebook}.ipynb").read_text("utf-8")
    return dict(json.loads(text))


def title(notebook: str) -> str:
    """Return the first heading of a notebook."""
    return source(stored(notebook)["cells"][0]).partition("\n")[0].removeprefix("# ")


def source(cell: dict[str, Any]) -> str:
    """Return a cell's text."""
    return "".join(cell["source"])


def figures_of(notebook: str, cell: dict[str, Any]) -> list[Path]:
    """Return the committed figures that a cell makes."""
    if cell["cell_type"] != "code":
        return []
    system = results.system_of(notebook)
    found = []
    for module, constant, name in _DRAWN.findall(source(cell)):
        drawn = name or _figure(f"workbench.{system}.paper.{module}", constant).id
        found.append(FIGURES / f"{system}_{drawn}.svg")
    return [path for path in found if path.is_file()]


def _figure(module: str, name: str) -> Figure:
    figure = getattr(import_module(module), name)
    assert isinstance(figure, Figure)
    return figure


def drawn(notebook: str) -> list[Drawn]:
    """Return the figures of a notebook in their order."""
    found, section = [], title(notebook)
    for cell in stored(notebook)["cells"]:
        text = source(cell)
        if cell["cell_type"] == "markdown":
            section = (re.findall(r"^#+ (.+)$", text, re.MULTILINE) or [section])[-1]
        found += [Drawn(path, notebook, text, section) for path in figures_of(notebook, cell)]
    return found


def section(notebook: str, heading: str) -> str:
    """Return the text below a heading of a notebook, without it; empty if there is none."""
    for cell in stored(notebook)["cells"]:
        if cell["cell_type"] == "markdown" and source(cell).startswith(f"## {heading}\n"):
            return re.split(r"^## .+$", source(cell), flags=re.MULTILINE)[1].strip()
    return ""


def index() -> str:
    """Return the page that lists the notebooks."""
    lines = [
        "# Notebooks",
        "",
        "`make lab` opens them with sliders, `make reproduce` runs them all.",
    ]
    lines += ["", *(f"- [{title(name)}]({name}.ipynb)" for name in names())]
    if shared := sorted(path.stem for path in EXPLORERS.glob("*.html")):
        lines += ["", "Their explorers, with sliders that need no kernel:", ""]
        lines += [f'- <a href="../../explorers/{name}.html">{name}</a>' for name in shared]
    else:
        lines += ["", f"Their explorers {_NOT_SHARED}"]
    return "\n".join([*lines, "", ":::{toctree}", ":hidden:", "", *names(), ":::", ""])


def page(notebook: str) -> str:
    """Return the notebook that the site shows: as executed, else with the committed figures."""
    executed = results.default_folder(ROOT) / notebook / f"{notebook}.ipynb"
    if executed.is_file():
        shown = json.loads(executed.read_text("utf-8"))
        note = "As the last `make reproduce` here ran it."
    else:
        shown = json.loads(json.dumps(stored(notebook)))
        note = "Not run here yet: the committed figures stand below the cells that make them."
        for cell in shown["cells"]:
            if paths := figures_of(notebook, cell):
                cell["outputs"] = [_svg(path) for path in paths]
    shown["cells"] = [cell for cell in map(_for_the_site, shown["cells"]) if cell is not None]
    path = f"notebooks/{notebook}.ipynb"
    text = f"```{{note}}\n{note} To run it yourself: `make lab`, then `{path}`.\n```\n"
    shown["cells"].insert(
        1, {"cell_type": "markdown", "id": "site-note", "metadata": {}, "source": text}
    )
    return json.dumps(shown, indent=1, sort_keys=True)


def _svg(path: Path) -> dict[str, Any]:
    data = {"image/svg+xml": path.read_text("utf-8"), "text/plain": f"{path.stem} (figure)"}
    return {"output_type": "display_data", "metadata": {}, "data": data}


def _for_the_site(cell: dict[str, Any]) -> dict[str, Any] | None:
    """A cell without pictures and widgets that its SVG replaces; None for papermill's own."""
    if "injected-parameters" in cell["metadata"].get("tags", ()):
        return None
    for output in cell.get("outputs", ()):
        if "image/svg+xml" in output.get("data", {}):
            for kind in _LEFT_OUT:
                output["data"].pop(kind, None)
    return cell
