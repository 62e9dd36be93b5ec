"""Explorers as pages: sliders and charts in one file of HTML that needs neither kernel nor network.

`share` writes that of a notebook::

    explorers.py    which explorers there are, and the values that a page's controls have
    payload.py      charts of all settings, what they share once
    page.py         the page: page.html, filled in; page.js moves it
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from workbench.share.explorers import EXPLORERS, described, grid
from workbench.share.page import render
from workbench.utils import files

__all__ = ["EXPLORERS", "share"]


def share(
    name: str,
    output: Path,
    given: Mapping[str, str] | None = None,
    processes: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Path:
    """Write a page of a notebook's explorer to `output`, which is returned.

    `given` are values of parameters as a user writes them, ``"10,100,1000"``: one fixes the
    parameter, several are what its control offers. `processes` draw beside each other, by default
    one for each core; `progress` is called with how many charts are drawn, of how many.

    Raises UserError: there is no such explorer or parameter, or the page would be too large.
    """
    explorer = described(name)
    values = grid(explorer, given or {})
    asked = "".join(f" -p {shlex.quote(f'{key}={text}')}" for key, text in (given or {}).items())
    made_by = f"workbench share {explorer.name}{asked} -o {shlex.quote(output.name)}"
    files.write_text(output, render(explorer, values, made_by, processes, progress))
    return output
