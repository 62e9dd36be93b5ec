"""Charts of all settings as one value of JSON: what differs between them, each thing once.

A chart is split into template, rows and signals as for JupyterLab (`widgets.live_chart`). Rows are
kept by columns; a column or a signal that several charts share stands once in the ``pool``. Numbers
are written in full, so that a browser reads the same doubles. A long column of numbers, such as the
starts of a timeline's spans, is written as steps from one row to the next of the same lane: most
are the seconds of a layer, which stand in many charts and so compress well.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

LONG = 32
"""Rows from which on a column of numbers is written as steps, exact to `EXACT` of each number."""
EXACT = 1e-6

Split = tuple[dict[str, Any], dict[str, list[dict[str, Any]]], dict[str, Any]]
"""Template, rows by data set, and signals, as `widgets.live_chart.parts` returns them."""


def payload(charts: Iterable[Split]) -> dict[str, Any]:
    """Return ``templates, pool, points``.

    A template is ``template, data, signals``: the columns of each data set, and names. A point is
    the place of its template, then the place in the pool of each column and signal, in this order.
    """
    templates: dict[str, int] = {}
    pool: dict[str, int] = {}
    points = []
    for template, data, signals in charts:
        columns = {name: list(rows[0]) if rows else [] for name, rows in data.items()}
        whole = _text({"template": template, "data": columns, "signals": list(signals)})
        point = [templates.setdefault(whole, len(templates))]
        for name, rows in data.items():
            lanes: list[Any] = []  # the first column, which is always written in full
            for column in columns[name]:
                values = [row[column] for row in rows]
                written = _text(_written(values, lanes) if lanes else values)
                point.append(pool.setdefault(written, len(pool)))
                lanes = lanes or values
        point += (pool.setdefault(_text(value), len(pool)) for value in signals.values())
        points.append(point)
    return {
        "templates": [json.loads(text) for text in templates],
        "pool": [json.loads(text) for text in pool],
        "points": points,
    }


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _written(column: Sequence[Any], lanes: Sequence[Any]) -> object:
    """Return a column as it is, or as its steps, `per` of them to a unit, from one row to the next.

    They are counted from 0 in every lane: rows that share the value of the data set's first column.
    """
    numbers = all(isinstance(value, float) for value in column)
    largest = max(map(abs, column)) if numbers and len(column) >= LONG else 0.0
    if not largest:
        return list(column)
    # Nine to twelve digits of the largest; powers of 1000, that steps of charts be alike.
    per = 1000.0 ** (3 - math.floor(math.log(largest, 1000)))
    last: dict[Any, float] = {}
    reached: dict[Any, int] = {}
    steps = []
    for lane, value in zip(lanes, column, strict=True):
        step = round((value - last.get(lane, 0.0)) * per)
        last[lane], reached[lane] = value, reached.get(lane, 0) + step
        if abs(reached[lane] / per - value) > EXACT * abs(value):
            return list(column)
        steps.append(step)
    return {"per": per, "steps": steps}
