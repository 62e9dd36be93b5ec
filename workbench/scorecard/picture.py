"""The scorecard as a picture: claims by verdict, orderings, and each number over the paper's."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import figures
from workbench.claims import MET, MISSES, VERDICTS
from workbench.figures import INK, PALETTE
from workbench.scorecard.scorecard import Row, Scorecard
from workbench.systems import SYSTEMS
from workbench.utils import files
from workbench.utils.checks import UserError
from workbench.widgets import Explorer

if TYPE_CHECKING:
    import altair as alt

    from workbench.notebook import Results

TIMED = "timed"
"""In place of a verdict that depends on how fast this machine is."""

SHOWN = (*VERDICTS[:-1], TIMED)
COLOURS = dict(
    zip(
        SHOWN,
        (PALETTE[0], PALETTE[4], PALETTE[1], PALETTE[2], "#c9c9c9", "#ececec"),
        strict=True,
    )
)
SHAPES = dict(
    zip(SHOWN, ("circle", "square", "triangle-up", "diamond", "cross", "cross"), strict=True)
)

_LIGHT = {"trend", "not run", TIMED}  # whose counts are written in ink
_NAMED = 2  # of a system's worst misses
_WIDEST, _NARROWEST = 4.0, 1.25  # ends of an axis of ratios, and one over them
_TICKS = (0.25, 0.5, 0.8, 1, 1.25, 2, 4)
_BARS_PX, _DOTS_PX, _RATIOS_PX = 330, 150, 540
_LABELS_PX, _ROW_PX, _MARK_PX = 70, 20, 7
_LETTER_PX, _LINE, _HEIGHTS = 5.6, 1.9, 40  # of labels; a line in heights of marks, and halves
_POINT = 30
_NO_RATIO = 0.035  # of an axis, left of it


def picture(card: Scorecard, *, timed: bool = True) -> Any:
    """Draw a scorecard: one mark per claim, colour and shape by verdict, its name as a tooltip.

    Above, a bar for each system with its claims by verdict, beside it a dot for each ordering.
    Below, each number as ours over the paper's, on an axis of its own for each system; what lies
    beyond is at the axis's end, and what has no ratio, since one of the two is zero or the other
    one's sign differs, left of it. The worst misses are named.

    Parameters
    ----------
    card
        Claims that are inputs of the model are left out.
    timed
        Whether to show verdicts on times that this machine measured, which differ from run to run.

    Raises
    ------
    ValueError
        There is no claim to draw.
    """
    import altair as alt

    judged = [row for row in card.rows if row.verdict != "input"]
    if not judged:
        raise UserError("no claim has a number or an ordering to draw")
    shown = [row for row in judged if timed or not row.timed]
    systems = list(dict.fromkeys(row.system for row in judged))
    above = alt.hconcat(_bars(judged, shown, systems), _dots(shown, systems), spacing=14)
    with_numbers = [system for system in systems if any(_has_number(row, system) for row in shown)]
    strips = [_ratios(shown, system, last=system == with_numbers[-1]) for system in with_numbers]
    return alt.vconcat(above, *strips, spacing=10, title=_title(shown)).resolve_scale(
        color="shared", shape="shared"
    )


def write(card: Scorecard, path: Path) -> Path:
    """Draw the claims that are the same on every machine to an SVG file, with names as tooltips."""
    if path.is_dir() or path.suffix.lower() != ".svg":
        raise UserError(f"{path}: the picture is SVG; give a file that ends in .svg")
    drawn = figures.svg(picture(card, timed=False))
    titled = re.sub(
        r'(<path aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="point"[^>]*)/>',
        r"\1><title>\2</title></path>",
        drawn,
    )
    files.write_text(path, titled)
    return path


def show(card: Scorecard, results: Results) -> Explorer:
    """Keep a notebook's scorecard and draw it, with names as tooltips where widgets are shown."""
    import ipywidgets

    from workbench.widgets.live_chart import LiveChart

    results.keep("scorecard", card.frame)
    kept = results.draw("scorecard", picture(card), timings=True)
    figures.theme()
    chart = LiveChart()
    chart.show(picture(card))
    return Explorer({}, chart, ipywidgets.HTML(), ipywidgets.VBox([chart]), kept)


def _title(shown: Sequence[Row]) -> alt.TitleParams:
    import altair as alt

    met = sum(row.verdict in MET for row in shown)
    return alt.TitleParams(
        f"{met} of {len(shown)} claims of the papers are met",
        frame="bounds",
        subtitle=[
            "Left: all claims; right: those that state an order; below: numbers,",
            "ours over the paper's, the worst by name. Timed: left to each machine.",
        ],
    )


def _bars(judged: Sequence[Row], shown: Sequence[Row], systems: Sequence[str]) -> Any:
    """Claims of each system by verdict, and how many are met of how many."""
    import altair as alt
    import polars as pl

    records, ends = list[dict[str, Any]](), list[dict[str, Any]]()
    for system in systems:
        counts = Counter(row.verdict for row in shown if row.system == system)
        judged_here, total = counts.total(), sum(row.system == system for row in judged)
        counts[TIMED] = total - judged_here
        at = 0
        for verdict in SHOWN:
            count = counts[verdict]
            record = {"system": SYSTEMS[system].title, "verdict": verdict, "count": count}
            records.append(record | {"from": at, "to": at + count, "middle": at + count / 2})
            at += count
        met = sum(counts[verdict] for verdict in MET)
        ends.append({"system": SYSTEMS[system].title, "at": at, "text": f"{met} of {judged_here}"})
    most = max(end["at"] for end in ends)
    room = most * 1.2  # for the text at a bar's end
    scale = alt.Scale(domain=[0, room], nice=False)
    y = _systems(systems, labels=True)
    wide = room * 15 / _BARS_PX  # what a count of two digits takes
    bars = alt.Chart(pl.DataFrame([record for record in records if record["count"]])).encode(y=y)
    ends_of = alt.Chart(pl.DataFrame(ends)).encode(y=y)
    counts_in = alt.datum["count"] > wide
    light = alt.FieldOneOfPredicate(field="verdict", oneOf=sorted(_LIGHT))
    return alt.layer(
        bars.mark_bar(height=14, aria=False).encode(
            x=alt.X("from:Q", scale=scale, axis=None), x2="to:Q", **_by_verdict(shape=False)
        ),
        bars.mark_text(aria=False)
        .encode(
            x="middle:Q",
            text="count:Q",
            color=alt.when(light).then(alt.value(INK)).otherwise(alt.value("white")),
        )
        .transform_filter(counts_in),
        ends_of.mark_text(align="left", dx=5, fontWeight="bold", aria=False).encode(
            x="at:Q", text="text:N"
        ),
    ).properties(width=_BARS_PX, height=_ROW_PX * len(systems))


def _dots(shown: Sequence[Row], systems: Sequence[str]) -> Any:
    """A mark for each ordering, in rows beside the bars."""
    import altair as alt
    import polars as pl

    records, most = [], 1
    for system in systems:
        rows = [row for row in shown if row.system == system and row.check == "order"]
        rows.sort(key=lambda row: SHOWN.index(row.verdict))
        most = max(most, len(rows))
        records += [_hover(row) | {"at": at} for at, row in enumerate(rows)]
    frame = pl.DataFrame(records, schema=None if records else {"system": pl.String, "at": pl.Int64})
    x = alt.X("at:Q", scale=alt.Scale(domain=[-0.7, max(most, 10)], nice=False), axis=None)
    return (
        alt.Chart(frame)
        .mark_point(filled=True, size=2 * _POINT)
        .encode(x=x, y=_systems(systems, labels=False), **_of_claim(), **_by_verdict())
        .properties(width=_DOTS_PX, height=_ROW_PX * len(systems))
    )


def _ratios(shown: Sequence[Row], system: str, *, last: bool) -> Any:
    """A system's numbers over the paper's, side by side and above each other."""
    import altair as alt
    import polars as pl

    rows = [row for row in shown if _has_number(row, system)]
    ratios = {row.id: _ratio(row) for row in rows}
    known = [ratio for ratio in ratios.values() if ratio is not None]
    end = min(_WIDEST, max([_NARROWEST, *(1.08 * max(ratio, 1 / ratio) for ratio in known)]))
    beside = len(known) < len(rows)  # what has no ratio stands left of the axis's end
    least = math.exp(-math.log(end) * (1 + 4 * _NO_RATIO * beside))

    def at(row: Row) -> float:
        ratio = ratios[row.id]
        return least if ratio is None else min(max(ratio, 1 / end), end)

    px = {row.id: _RATIOS_PX * math.log(at(row) / least) / math.log(end / least) for row in rows}
    levels = _beside_each_other(px, middle=_RATIOS_PX * math.log(1 / least) / math.log(end / least))
    labels = {row.id: ".".join(row.name.split(".")[-2:]) for row in _worst(rows, ratios)}
    sides = {name: "left" if px[name] > _RATIOS_PX / 2 else "right" for name in labels}
    lines = _lines(labels, sides, px, levels)
    top = max([level + 0.8 for level in levels.values()] + [line + 1 for line in lines.values()])
    frame = pl.DataFrame(
        [
            _hover(row)
            | {"ratio": at(row), "level": float(levels[row.id]), "line": lines.get(row.id, 0.0)}
            | {"label": labels[row.id] if row.id in lines else "", "side": sides.get(row.id, "")}
            for row in rows
        ]
    )
    texts = {tick: f"{tick:g}" for tick in _TICKS if 1 / end <= tick <= end}
    texts |= {least: "no ratio"} if beside else {}
    texts |= {1 / end: f"≤ {1 / end:g}"} if any(ratio < 1 / end for ratio in known) else {}
    texts |= {end: f"≥ {end:g}"} if any(ratio > end for ratio in known) else {}
    x = alt.X(
        "ratio:Q",
        scale=alt.Scale(type="log", domain=[least / 1.02, end * 1.02], nice=False),
        axis=alt.Axis(
            values=list(texts),
            labelExpr=f"{list(texts.values())}[indexof({list(texts)}, datum.value)]",
            title="ours / the paper's" if last else None,
            grid=False,
        ),
    )
    y = alt.Y(
        "level:Q",
        scale=alt.Scale(domain=[-0.8, top], nice=False),
        title=None,
        axis=alt.Axis(
            values=[0],
            labelExpr=f"'{SYSTEMS[system].title}'",
            grid=False,
            minExtent=_LABELS_PX,
            maxExtent=_LABELS_PX,
        ),
    )
    base = alt.Chart(frame).encode(x=x)
    named = base.transform_filter(alt.FieldOneOfPredicate("label", list(labels.values())))
    parity = alt.Chart(pl.DataFrame({"ratio": [1.0]})).mark_rule(color="#9a9a9a", aria=False)
    layers: list[Any] = [
        parity.encode(x=x),
        named.mark_rule(color="#9a9a9a", strokeWidth=0.5, aria=False).encode(y=y, y2="line:Q"),
        base.mark_point(filled=True, size=_POINT).encode(y=y, **_of_claim(), **_by_verdict()),
    ]
    for side, dx in (("right", 3), ("left", -3)):
        align: Any = "left" if side == "right" else "right"
        here = named.transform_filter(alt.datum.side == side)
        text = here.mark_text(align=align, dx=dx, baseline="middle", aria=False)
        layers.append(text.encode(y=alt.Y("line:Q"), text="label:N"))
    return alt.layer(*layers).properties(width=_RATIOS_PX, height=_MARK_PX * (top + 0.8))


def _has_number(row: Row, system: str) -> bool:
    return row.system == system and isinstance(row.paper, float) and row.ours is not None


def _ratio(row: Row) -> float | None:
    """Ours over the paper's; None where that is no positive number."""
    assert isinstance(row.paper, float)
    assert row.ours is not None
    return row.ours / row.paper if row.ours * row.paper > 0 else None


def _worst(rows: Sequence[Row], ratios: dict[str, float | None]) -> list[Row]:
    """The misses that are most times too large or too small."""

    def times_off(row: Row) -> float:
        ratio = ratios[row.id]
        return 0.0 if ratio is None else -abs(math.log(ratio))

    missed = [row for row in rows if row.verdict in MISSES and ratios[row.id] is not None]
    return sorted(missed, key=times_off)[:_NAMED]


def _beside_each_other(px: dict[str, float], middle: float) -> dict[str, int]:
    """The lowest level at which each mark touches no other; those nearest to the middle first."""
    taken: dict[int, list[float]] = {}
    levels = {}
    for name, at in sorted(px.items(), key=lambda item: abs(item[1] - middle)):
        level = 0
        while any(abs(at - other) < _MARK_PX for other in taken.get(level, ())):
            level += 1
        taken.setdefault(level, []).append(at)
        levels[name] = level
    return levels


def _lines(
    labels: dict[str, str], sides: dict[str, str], px: dict[str, float], levels: dict[str, int]
) -> dict[str, float]:
    """The lowest height for each label at which it lies on no mark, no label and no line to one.

    A label for which there is none is left out.
    """
    lines: dict[str, float] = {}

    def box(name: str) -> tuple[float, float]:
        wide = _LETTER_PX * len(labels[name])
        return (px[name] - wide, px[name]) if sides[name] == "left" else (px[name], px[name] + wide)

    def is_free(name: str, line: float) -> bool:
        low, high = box(name)
        marks = (abs(levels[other] - line) < 1.4 and low - 6 < px[other] < high + 6 for other in px)
        others = (
            (low < box(other)[1] and box(other)[0] < high and abs(there - line) < _LINE)
            or (low <= px[other] <= high and levels[other] < line < there)
            or (box(other)[0] <= px[name] <= box(other)[1] and levels[name] < there < line)
            for other, there in lines.items()
        )
        return not (any(marks) or any(others))

    for name in sorted(labels, key=lambda at: abs(px[at] - _RATIOS_PX / 2)):  # inner ones lower
        heights = (levels[name] + 1.5 + 0.5 * step for step in range(_HEIGHTS))
        line = next((height for height in heights if is_free(name, height)), None)
        if line is not None:
            lines[name] = line
    return lines


def _systems(systems: Sequence[str], *, labels: bool) -> alt.Y:
    import altair as alt

    axis = alt.Axis(domain=False, ticks=False, minExtent=_LABELS_PX, maxExtent=_LABELS_PX)
    order = [SYSTEMS[system].title for system in systems]
    scale = alt.Scale(domain=order)
    return alt.Y("system:N", sort=order, scale=scale, title=None, axis=axis if labels else None)


def _hover(row: Row) -> dict[str, str]:
    return {
        "claim": row.id,
        "system": SYSTEMS[row.system].title,
        "states": row.metric,
        "stated": row.paper_text,
        "found": row.ours_text,
        "verdict": row.verdict,
        "cause": row.cause,
        "evidence": row.evidence,
        "beside": row.beside_text,
        "role": row.role,
    }


def _of_claim() -> dict[str, Any]:
    """The tooltip of a mark, and its name in an SVG."""
    shown = ("claim", "states", "stated", "found", "verdict", "cause", "evidence", "beside", "role")
    return {"tooltip": [f"{field}:N" for field in shown], "description": "claim:N"}


def _by_verdict(*, shape: bool = True) -> dict[str, Any]:
    """Colour and shape by verdict, with one legend over all panels."""
    import altair as alt

    def channel(kind: type, values: dict[str, str]) -> Any:
        scale = alt.Scale(domain=list(values), range=list(values.values()))
        return kind("verdict:N", title=None, scale=scale)

    colour = {"color": channel(alt.Color, COLOURS)}
    return colour | {"shape": channel(alt.Shape, SHAPES)} if shape else colour
