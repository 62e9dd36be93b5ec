"""Values of a sweep's parameters as a user writes them, and the points that they make.

Several values stand between commas, ``10,100,1000``; ``1..5`` are the whole numbers from 1 to 5. A
value that holds a comma stands in double quotes, as in a CSV file. What may be a decimal comma,
``1,5`` for a parameter that is not a whole number, is refused.
"""

from __future__ import annotations

import csv
import itertools
import math
import re
from collections.abc import Mapping, Sequence

from workbench.parameters import Parameter, Value
from workbench.reproduce.notebooks import Notebook, check_declared, resolve
from workbench.utils.checks import UserError

MOST_POINTS = 10_000
_DECIMAL = re.compile(r"\s*[+-]?\d+,\d*[1-9]\s*", re.ASCII)  # ``10,100`` would not end in 0
_THOUSANDS = re.compile(r"\d,0\d", re.ASCII)
_RANGE = re.compile(r"\s*([+-]?\d{1,18})\s*\.\.\s*([+-]?\d{1,18})\s*", re.ASCII)


def points(
    notebook: Notebook, scale: str | None, given: Mapping[str, str]
) -> list[tuple[dict[str, Value], dict[str, Value]]]:
    """Return each point's parameters: those given, and all of the notebook; the last changes first.

    `given` is what the user wrote for each parameter.

    Raises UserError: a parameter that the notebook lacks, a value that is not allowed, or given
    twice; no parameter, or more than `MOST_POINTS` points.
    """
    if not given:
        raise UserError("nothing varies: give values as in -p seed=1..5 -p batch_size=16,32")
    for name in given:
        check_declared(name, [notebook])
    if scale is not None and "scale" in given:
        raise UserError("the scale is given twice: by --scale and by -p scale=…")
    everywhere = resolve([notebook], scale, {})[notebook.name]
    axes = {name: values_of(notebook.parameters[name], text) for name, text in given.items()}
    count = math.prod(map(len, axes.values()))
    if count > MOST_POINTS:
        raise UserError(f"these are {count:,} points; a sweep has at most {MOST_POINTS:,}")
    varied = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    return [(point, {**everywhere, **point}) for point in varied]


def values_of(parameter: Parameter, text: str) -> list[Value]:
    """Return the values that a text writes, each once and checked."""
    decimal = parameter.kind is float and _DECIMAL.fullmatch(text)
    if decimal or (parameter.kind in (int, float) and _THOUSANDS.search(text)):
        raise UserError(
            f"{parameter.name}={text}: one number or two? Write decimals with a point, as in 1.5, "
            "thousands without a mark, as in 1500, and two numbers with a space, as in '1, 5'"
        )
    values: list[Value] = []
    for part in _parts(parameter, text):
        whole = _RANGE.fullmatch(part) if parameter.kind in (int, float) else None
        values += _range(parameter, part, int(whole[1]), int(whole[2])) if whole else []
        values += [] if whole else [parameter.parse(part)]
    for at, value in enumerate(values):
        if value in values[:at]:
            raise UserError(f"{parameter.name}={text}: {value} is given twice")
    return values


def _parts(parameter: Parameter, text: str) -> Sequence[str]:
    try:
        parts = next(csv.reader([text], skipinitialspace=True, strict=True)) or [""]
    except csv.Error:
        raise UserError(
            f"{parameter.name}={text}: a quotation mark is missing; write a value with a comma as "
            f'"a,b"'
        ) from None
    if len(parts) > 1 and not all(part.strip() for part in parts):
        raise UserError(f"{parameter.name}={text}: a value is missing beside a comma")
    return parts


def _range(parameter: Parameter, text: str, first: int, last: int) -> list[Value]:
    if last < first:
        raise UserError(f"{parameter.name}={text}: give the smaller number first, {last}..{first}")
    if last - first >= MOST_POINTS:
        raise UserError(
            f"{parameter.name}={text}: these are {last - first + 1:,} values; "
            f"a sweep has at most {MOST_POINTS:,} points"
        )
    return [parameter.parse(str(number)) for number in range(first, last + 1)]
