"""Parts that charts of several systems share: titles, wrapping, legends, facets."""

from __future__ import annotations

import textwrap
from typing import Final

TITLE_CHARACTERS: Final = 46
"""Of a line of a title that a single column has room for."""


def wrapped(*sentences: str) -> list[str]:
    """Break sentences into lines that a single column has room for, each on a line of its own."""
    return [line for one in sentences for line in textwrap.wrap(one, TITLE_CHARACTERS)]
