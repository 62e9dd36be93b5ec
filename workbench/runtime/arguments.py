"""Checks of what programs pass to their context."""

from __future__ import annotations

import inspect
import math
from typing import Any, NoReturn

from workbench.checks import is_number
from workbench.errors import UserError


def check_seconds(what: str, seconds: Any) -> None:
    """Refuse what is no finite number of seconds, at least 0."""
    if not (is_number(seconds) and 0 <= seconds < math.inf):
        raise UserError(f"{what} is {seconds!r}; it must be a finite number, not negative")


def refuse_endless(what: str) -> NoReturn:
    """Raise an OverflowError: something would end later than a float holds."""
    raise OverflowError(f"{what} would end after more seconds than a number holds")


def check_topic(topic: Any) -> None:
    """Refuse a topic to receive that is no text."""
    if not (topic is None or isinstance(topic, str)):
        raise TypeError(
            f"receive waits for topic {topic!r}, which no message has; give text, or sender=..."
        )


def check_work(work: Any, lane: Any, label: Any) -> None:
    """Refuse work that is no function, and a lane or label that is no text."""
    if not callable(work):
        raise TypeError(
            f"the work of compute is {work!r}, no function; give one without arguments, such as "
            "lambda: step(batch), without calling it"
        )
    if not (isinstance(lane, str) and isinstance(label, str)):
        raise TypeError(f"compute has lane {lane!r} and label {label!r}; give text")


def refuse_async(work: Any) -> NoReturn:
    """Raise a TypeError: work made a coroutine."""
    raise TypeError(
        f"the work of compute, {work!r}, made a coroutine; give a plain function, and await or "
        "spawn coroutines themselves"
    )


def check_spawned(work: Any, by: str = "spawn") -> None:
    """Refuse what cannot be awaited."""
    if not inspect.isawaitable(work):
        hint = f", called, as in context.{by}(work(context))" if callable(work) else ""
        if isinstance(work, list | tuple):
            hint = ", or several one by one" if by == "first" else ""
            for one in work:
                if inspect.iscoroutine(one):
                    one.close()  # Python would warn that nobody awaited it
        raise TypeError(f"{by} is given {work!r}; give a coroutine{hint}")
