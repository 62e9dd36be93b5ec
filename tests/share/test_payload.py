"""What a page has of its charts: each thing once, and all of it as it was."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from workbench.share.payload import EXACT, LONG, Split, payload

NUMBERS = st.floats(0, 1e6, allow_subnormal=False).map(lambda value: value + 0.0)


def read(written: Any, lanes: Sequence[Any]) -> list[Any]:
    """Read a column as the page does."""
    if isinstance(written, list):
        return written
    reached: dict[Any, int] = {}
    values = []
    for lane, step in zip(lanes, written["steps"], strict=True):
        reached[lane] = reached.get(lane, 0) + step
        values.append(reached[lane] / written["per"])
    return values


def charts(kept: dict[str, Any]) -> list[Split]:
    """Make the charts of a page's data again, without reusing what wrote them."""
    made = []
    for which, *places in kept["points"]:
        known = kept["templates"][which]
        values = [kept["pool"][place] for place in places]
        data = {}
        for name, columns in known["data"].items():
            written = [values.pop(0) for _ in columns]
            rows = [read(one, written[0]) for one in written]
            data[name] = [dict(zip(columns, row, strict=True)) for row in zip(*rows, strict=True)]
        made.append((known["template"], data, dict(zip(known["signals"], values, strict=True))))
    return made


def chart(rows: list[dict[str, Any]], title: str = "a title") -> Split:
    return {"mark": "bar"}, {"rows_0": rows, "rows_1": []}, {"signal_0": [title]}


def of_lanes(values: Sequence[tuple[Any, float]]) -> list[dict[str, Any]]:
    return [{"lane": lane, "start": value, "turn": 0} for lane, value in values]


LANES = st.sampled_from("ab") | NUMBERS


@given(st.lists(st.lists(st.tuples(LANES, NUMBERS), max_size=2 * LONG), max_size=4))
def test_charts_come_back(several: list[list[tuple[Any, float]]]) -> None:
    given = [chart(of_lanes(values), f"ü {len(values)}") for values in several]
    back = charts(json.loads(json.dumps(payload(given))))
    assert len(back) == len(given)
    for ours, theirs in zip(back, given, strict=True):
        assert (ours[0], ours[2]) == (theirs[0], theirs[2])
        for row, was in zip(ours[1]["rows_0"], theirs[1]["rows_0"], strict=True):
            exact = 0.0 if len(theirs[1]["rows_0"]) < LONG else EXACT
            assert row | {"start": 0} == was | {"start": 0}
            assert math.isclose(row["start"], was["start"], rel_tol=exact)
        assert ours[1]["rows_1"] == []


def test_what_charts_share_stands_once() -> None:
    values = [("a", 0.1), ("b", 0.2)]
    kept = payload([chart(of_lanes(values), title) for title in ("one", "two", "one")])
    assert len(kept["templates"]) == 1
    assert kept["pool"] == [["a", "b"], [0.1, 0.2], [0, 0], ["one"], ["two"]]
    assert kept["points"] == [[0, 0, 1, 2, 3], [0, 0, 1, 2, 4], [0, 0, 1, 2, 3]]


def test_a_timeline_is_written_by_the_seconds_of_its_layers() -> None:
    values = [("ab"[at % 2], 0.25 + 0.125 * at) for at in range(LONG)]
    kept = payload([chart(of_lanes(values))])
    (steps,) = [one for one in kept["pool"] if isinstance(one, dict)]
    per = steps["per"]
    assert steps["steps"] == [per / 4, per * 3 / 8, *[per / 4] * (LONG - 2)]


def test_numbers_of_many_magnitudes_are_written_in_full() -> None:
    values = [("a", 10.0 ** (at - 24)) for at in range(LONG)]
    assert [one["start"] for one in charts(payload([chart(of_lanes(values))]))[0][1]["rows_0"]] == [
        value for _, value in values
    ]
