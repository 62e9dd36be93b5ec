"""A trace as a Gantt chart: who did what, when."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from workbench import figures
from workbench.utils.checks import UserError, check_name

if TYPE_CHECKING:
    import altair as alt

Row = tuple[str, str]
"""A node, and a lane or sub-lane on it."""

COLOURINGS: Final = ("lane", "label", "node", "kind")
"""Columns of a trace that can give the spans their colour."""

PHASES: Final = ("forward", "backward", "update", "pull", "push")
"""Of an iteration: each has one colour in the charts of all systems."""

_ROW_PX: Final = 24
_MOST_TEXTS: Final = 60
_CHARACTER_PX: Final = 5.6  # mean width of a character of 7 pt, with room to breathe
_UNITS: Final = ((1.0, 1.0, "s"), (1e-3, 1e3, "ms"), (0.0, 1e6, "µs"))


def gantt(
    frame: pl.DataFrame,
    *,
    colour: str = "lane",
    order: Sequence[str] = (),
    title: str | None = None,
    end_s: float | None = None,
) -> alt.LayerChart:
    """Draw a trace: a row for every lane of every node, a bar for every span, time on x.

    A lane on which spans overlap, as on a node of several cores, has as many rows as they need.
    A few spans are drawn with a border, and those with room bear their label. Many alternate,
    along a lane, between full and lighter colour, so that hundreds of layers remain countable.

    Parameters
    ----------
    colour
        By ``"lane"``, ``"label"``, ``"node"`` or ``"kind"``.
    order
        Values of it that take the first colours, whether they occur or not, so that they keep them
        from chart to chart; others follow as they occur. By default `PHASES`, where any occurs.
    end_s
        End of the axis in seconds, so that two charts can be compared; by default the trace's.
    """
    import altair as alt

    check_name("colouring", colour, COLOURINGS)
    width_px = figures.width_px()
    last = frame["end_s"].max()
    own_s = last if isinstance(last, float) else 0.0
    last_s = own_s if end_s is None else end_s
    if not last_s >= own_s or (end_s is not None and last_s <= 0):
        raise UserError(f"end_s is {end_s}, but the trace runs until {own_s} s: give a later end")
    scale, unit = next((factor, unit) for least, factor, unit in _UNITS if last_s >= least)
    spans, rows = _spans(frame, colour, scale)
    present = spans["colour"].unique(maintain_order=True).to_list()
    first = order or (PHASES if set(PHASES) & set(present) else ())
    kinds = list(dict.fromkeys([*first, *present]))
    end = last_s * scale or 1.0
    few, sized = len(spans) <= _MOST_TEXTS, bool((frame["bytes"] > 0).any())
    plot_px = max(width_px - _CHARACTER_PX * max(map(len, rows), default=0) - 20, 60.0)
    heading: dict[str, Any] = {} if title is None else {"title": title}
    chart = alt.Chart(spans).encode(y=_lane(rows))
    shown = [kind for kind in kinds if kind in present] if present != rows else []
    layers = [_bars(chart, kinds, end, unit, few=few, legend=shown, sized=sized)]
    if few:
        room = pl.col("label").str.len_chars() * (_CHARACTER_PX * end / plot_px)
        fitting = spans.filter(pl.col("end") - pl.col("start") > room)
        layers.append(_texts(alt.Chart(fitting).encode(y=_lane(rows)), kinds))
    return alt.LayerChart(layer=layers, height=_ROW_PX * max(len(rows), 1), **heading)


def _spans(frame: pl.DataFrame, colour: str, scale: float) -> tuple[pl.DataFrame, list[str]]:
    """Spans as they are drawn, and the rows from top to bottom."""
    one_node = frame["node"].n_unique() <= 1
    places, order = sublanes(frame)
    shown = {row: row[1] if one_node else " · ".join(row) for row in order}
    row = pl.Series("row", [shown[place] for place in places], dtype=pl.String)
    drawn = frame.with_columns(row).select(
        "row",
        pl.col(colour).alias("colour"),
        "node",
        "lane",
        "label",
        (pl.col("start_s") * scale).alias("start"),
        (pl.col("end_s") * scale).alias("end"),
        "bytes",
        (pl.int_range(pl.len()).over("row") % 2).alias("turn"),
    )
    return drawn, list(shown.values())


def _lane(rows: list[str]) -> alt.Y:
    import altair as alt

    return alt.Y(
        "row:N",
        title=None,
        scale=alt.Scale(domain=rows, paddingInner=0.2, paddingOuter=0.1),
        axis=alt.Axis(domain=False, labelLimit=180),
    )


def _bars(
    chart: alt.Chart,
    kinds: list[str],
    end: float,
    unit: str,
    *,
    few: bool,
    legend: list[str],
    sized: bool,
) -> alt.Chart:
    import altair as alt

    def number(name: str) -> alt.Tooltip:
        return alt.Tooltip(name, type="quantitative", title=f"{name} ({unit})", format=".4~g")

    # A border parts few bars well, but of a bar of half a pixel it would be all that is seen.
    border: dict[str, Any] = {} if few else {"strokeWidth": 0}
    shades = [1, 1] if few else [1, 0.72]
    has_legend = legend and len(kinds) <= len(figures.PALETTE)
    with_length = chart.mark_bar(**border).transform_calculate(length="datum.end - datum.start")
    bars: alt.Chart = with_length.encode(
        x=alt.X(
            "start:Q",
            title=f"time ({unit})",
            scale=alt.Scale(domain=[0, end], nice=False),
            axis=alt.Axis(grid=True, tickCount=8),
        ),
        x2=alt.X2("end:Q"),
        color=alt.Color(
            "colour:N",
            title=None,
            scale=alt.Scale(domain=kinds, range=_colours(len(kinds))),
            legend=alt.Legend(symbolType="square", values=legend) if has_legend else None,
        ),
        opacity=alt.Opacity("turn:N", scale=alt.Scale(domain=[0, 1], range=shades), legend=None),
        tooltip=[
            alt.Tooltip("label:N", title="what"),
            alt.Tooltip("lane:N"),
            alt.Tooltip("node:N"),
            *map(number, ("start", "end", "length")),
            *([alt.Tooltip("bytes:Q", format=",d")] if sized else []),
        ],
    )
    return bars


def _texts(chart: alt.Chart, kinds: list[str]) -> alt.Chart:
    """Labels in the middle of the bars, in the ink that shows."""
    import altair as alt

    inks = ["white" if _dark(colour) else figures.INK for colour in _colours(len(kinds))]
    ink = f"{json.dumps(dict(zip(kinds, inks, strict=True)))}[datum.colour]"
    texts: alt.Chart = (
        chart.mark_text(baseline="middle")
        .transform_calculate(middle="(datum.start + datum.end) / 2", ink=ink)
        .encode(x=alt.X("middle:Q"), text=alt.Text("label:N"), color=alt.Color("ink:N", scale=None))
    )
    return texts


def _colours(count: int) -> list[str]:
    palette = figures.PALETTE
    return [palette[n % len(palette)] for n in range(count)]


def _dark(colour: str) -> bool:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 128


def sublanes(frame: pl.DataFrame) -> tuple[list[Row], list[Row]]:
    """Distribute a trace's spans so that no two on one row overlap, on as few rows as that takes.

    Returns each span's row, and all rows: lanes as they first appear, each followed by its
    sub-lanes, ``lane, lane 2, lane 3, ...``.

    In the order of their starts, each span goes to the first row of its lane that is free. Times
    are compared in whole nanoseconds, so that spans which only rounding lets overlap share a row,
    as do those that touch. A span of no length overlaps those that begin before and end after it.
    """
    spans: dict[Row, list[int]] = {}
    for index, row in enumerate(frame.select("node", "lane").iter_rows()):
        spans.setdefault(row, []).append(index)
    start_ns, end_ns = (list(map(nanoseconds, frame[name])) for name in ("start_s", "end_s"))
    rows: list[Row] = [("", "")] * len(frame)
    order: list[Row] = []
    for (node, lane), members in spans.items():
        places = _places((start_ns[index], end_ns[index], index) for index in members)
        unused = (row for n in count(2) if (row := (node, f"{lane} {n}")) not in spans)
        names = [(node, lane), *islice(unused, max(places.values()))]
        order += names
        for index, place in places.items():
            rows[index] = names[place]
    return rows, order


def nanoseconds(seconds: float) -> int:
    """Round to whole nanoseconds, the resolution of trace viewers."""
    return round(seconds * 1e9)


def _places(spans: Iterable[tuple[int, int, int]]) -> dict[int, int]:
    """Place of each span: the first that is free when it starts, the shorter span first."""
    places: dict[int, int] = {}
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    for start_ns, end_ns, index in sorted(spans):
        while busy and busy[0][0] <= start_ns:
            heappush(free, heappop(busy)[1])
        places[index] = heappop(free) if free else len(busy)
        heappush(busy, (end_ns, places[index]))
    return places
