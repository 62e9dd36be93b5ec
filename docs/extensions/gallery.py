"""The gallery: every committed figure with the cell that makes it, a page for each notebook."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from extensions import notebooks


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page, the index last."""
    index = ["# Gallery", "", "Every figure, with the cell that makes it. They come as files, too:"]
    index += ["[figures for a paper](../../how-to/figures.md).", ""]
    listed = []
    for notebook in notebooks.names():
        drawn = notebooks.drawn(notebook)
        if not drawn:
            continue
        listed.append(notebook)
        yield notebook, _page(notebook, drawn)
        index += [f"## {notebooks.title(notebook)}", "", "::::{container} gallery"]
        for one in drawn:
            index += [
                f":::{{image}} ../../../figures/{one.path.name}",
                f":alt: {one.section}",
                f":target: {notebook}.html#{one.path.stem.replace('_', '-')}",
                ":::",
            ]
        index += ["::::", ""]
    index += [":::{toctree}", ":hidden:", "", *listed, ":::"]
    yield "index", "\n".join(index) + "\n"


def _page(notebook: str, drawn: list[notebooks.Drawn]) -> str:
    lines = [f"# Figures: {notebooks.title(notebook)}", ""]
    lines += [f"Made by the notebook [{notebook}](../notebooks/{notebook}.ipynb).", ""]
    for section, figures in groupby(drawn, lambda one: one.section):
        lines += [f"## {section}", ""]
        for source, group in groupby(figures, lambda one: one.source):
            for one in group:
                lines += [f"({one.path.stem.replace('_', '-')})=", ""]
                lines += [f":::{{image}} ../../../figures/{one.path.name}"]
                lines += [f":alt: {one.section}, {one.path.stem}", ":::", ""]
            lines += ["```python", source, "```", ""]
    return "\n".join(lines)
