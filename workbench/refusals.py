"""Telling a refusal of the user's input from a fault of this package.

Both may be a ValueError. A refusal was raised by a `raise` statement of the package; a fault comes
from elsewhere, such as ``int("seven")``, or is no ValueError at all.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")

PACKAGE = Path(__file__).parent


def is_refusal(error: ValueError) -> bool:
    """Whether this package refused something, here or in a process beside (`marking_refusals`)."""
    if getattr(error, "refused_elsewhere", False):
        return True
    last: TracebackType | None = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    code = last.tb_frame.f_code
    ours = Path(code.co_filename).is_relative_to(PACKAGE)
    return ours and code.co_code[last.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def marking_refusals(function: Callable[..., T], *arguments: object) -> T:
    """Call a function; a refusal stays one when it is pickled, which loses its traceback."""
    try:
        return function(*arguments)
    except ValueError as error:
        if is_refusal(error):
            error.refused_elsewhere = True  # type: ignore[attr-defined]  # pickled with the error
        raise
