"""Tables and sentences in a terminal, by rich."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def table(
    title: str = "",
    *,
    texts: Sequence[str] = (),
    numbers: Sequence[str] = (),
    padding: tuple[int, int] | tuple[int, int, int, int] | int = (0, 1),
) -> Table:
    """Return an empty table with a line below its head; columns of numbers are never wrapped."""
    from rich import box
    from rich.table import Table

    empty = Table(
        box=box.SIMPLE_HEAD,
        title=title or None,
        title_justify="left",
        caption_justify="left",
        padding=padding,
    )
    for heading in texts:
        empty.add_column(heading, overflow="fold")
    for heading in numbers:
        empty.add_column(heading, justify="right", no_wrap=True)
    return empty


def console() -> Console:
    """Return a console for standard output that prints ``:x:`` and ``[x]`` as they are."""
    from rich.console import Console

    output = Console(emoji=False, markup=False, highlight=False)
    if not output.is_terminal:
        output.width = 160  # a file or pipe takes whole rows
    return output


def show(what: Table | str) -> None:
    """Print a table, or a sentence, which wraps in a terminal alone."""
    output = console()
    output.print(what, soft_wrap=isinstance(what, str) and not output.is_terminal)
