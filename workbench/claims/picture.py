"""The scorecard as a picture: the papers' numbers against ours, and below them the orderings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import atomic, figures
from workbench.claims.rule import VERDICTS, tolerance
from workbench.claims.scorecard import Row, Scorecard
from workbench.errors import UserError
from workbench.figures import PALETTE
from workbench.widgets import Explorer

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

    from workbench.results import Results

COLOURS = dict(zip(VERDICTS[:4], (PALETTE[0], PALETTE[4], PALETTE[1], PALETTE[2]), strict=True))
SHAPES = dict(zip(VERDICTS[:4], ("circle", "square", "triangle-up", "diamond"), strict=True))
FITTED_OPACITY = 0.4

_GREY, _BAND = "#777777", "#d5dbe6"
_LABELLED = ("trend", "not reproduced")
_APART = {"row": 88, "column": 56}  # room for axes and titles
_PLOT_PX, _HEIGHT_PX, _ROW_PX, _LABEL_PX = 230, 190, 22, 100


@dataclass(frozen=True, eq=False)
class _Panel:
    """A plot of the claims of some units.

    `units` maps each unit to the factor of its values; the band is the first one's.
    """

    title: str
    units: dict[str, float]
    log: bool


_PANELS = (
    _Panel("%, points", {"percent": 1.0, "percentage points": 1.0}, log=False),
    _Panel("x, counts", {"x": 1.0, "samples": 1.0, "exponent": 1.0, "count": 1.0}, log=True),
    _Panel("seconds", {"s": 1.0, "ms": 1e-3}, log=True),
)


def picture(card: Scorecard, *, timed: bool = True) -> alt.ConcatChart:
    """Draw a scorecard: one mark per claim, colour and shape by verdict, its name as a tooltip.

    Numbers are at the paper's value and ours, pale where constants were fitted on them; the band
    around the diagonal is the tolerance of `near`. Bounds hold on or below (above) the diagonal.
    Orderings are dots, filled where they hold; so are the few claims of a unit that is alone.
    Recorded results, where there are any, are open marks.

    Parameters
    ----------
    card
        Claims that are inputs of the model are left out.
    timed
        Whether to show claims about measured times, which differ from run to run.

    Raises
    ------
    ValueError
        There is no number and no ordering to draw.
    """
    import altair as alt

    rows = [row for row in card.rows if row.verdict != "input" and (timed or not row.timed)]
    plots = {panel: _numbers(panel, rows) for panel in _PANELS}
    views: list[Any] = [_plot(panel, shown) for panel, shown in plots.items() if len(shown) > 1]
    alone = [shown[0][0] for shown in plots.values() if len(shown) == 1]
    dots = [row for row in rows if row.check == "order" or row in alone]
    if dots:
        views.append(_dots(dots, numbers=bool(alone)))
    if not views:
        raise UserError("no claim has a number or an ordering to draw")
    return alt.concat(*views, columns=2, bounds="flush", spacing=_APART, title=_title(card, rows))


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
    atomic.write_text(path, titled)
    return path


def show(card: Scorecard, results: Results) -> Explorer:
    """Keep a notebook's scorecard and draw it, with names as tooltips where widgets are shown."""
    import ipywidgets

    from workbench.live_chart import LiveChart

    kept = results.show("scorecard", card.frame, lambda _: picture(card), timings=True)
    figures.theme()
    chart = LiveChart()
    chart.show(picture(card))
    return Explorer({}, chart, ipywidgets.HTML(), ipywidgets.VBox([chart]), kept)


def _title(card: Scorecard, rows: Sequence[Row]) -> alt.TitleParams:
    import altair as alt

    counts = [
        f"{count} {verdict}"
        for verdict in VERDICTS
        if (count := sum(row.verdict == verdict for row in rows))
    ]
    scales = " and ".join(sorted(set(card.scales.values())))
    lines = [f"{len(rows)} claims{f' at {scales} scale' if scales else ''}:"]
    lines += figures.wrapped(", ".join(counts))
    lines.append("band: near; pale: fitted on" + ("; open: recorded" if card.has_recorded else ""))
    judged = [row for row in card.rows if row.verdict != "input"]
    if len(rows) < len(judged):
        lines.append(f"left out: {len(judged) - len(rows)} timed on this machine")
    return alt.TitleParams("The papers' values and ours", subtitle=lines)


_Mark = tuple[Row, float, float | None, float | None]
"""A row with the paper's number, ours and the recorded one; one of the two is there."""


def _numbers(panel: _Panel, rows: Iterable[Row]) -> list[_Mark]:
    found = []
    for row in rows:
        there = row.ours is not None or row.recorded is not None
        if row.unit in panel.units and isinstance(row.paper, float) and there:
            factor = panel.units[row.unit]
            ours = None if row.ours is None else factor * float(row.ours)
            recorded = None if row.recorded is None else factor * float(row.recorded)
            found.append((row, factor * row.paper, ours, recorded))
    return found


def _plot(panel: _Panel, shown: Sequence[_Mark]) -> Any:
    import altair as alt
    import polars as pl

    values = [one for _, *numbers in shown for one in numbers if one is not None]
    low, high = _domain(values, log=panel.log)
    scale = alt.Scale(
        type="log" if panel.log else "linear", domain=[low, high], nice=False, clamp=True
    )
    axis = alt.Axis(tickCount=4, grid=False, format="~g" if panel.log else alt.Undefined)
    x = alt.X("paper:Q", scale=scale, axis=axis, title=f"paper, {panel.title}")

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=scale, axis=axis, title=f"ours, {panel.title}")

    band = alt.Chart(_band(panel, low, high)).encode(x=x)
    frame = pl.DataFrame(
        [_of_mark(*one) for one in shown],
        schema_overrides={"ours": pl.Float64, "recorded_value": pl.Float64},
        infer_schema_length=None,
    )
    base = alt.Chart(frame).encode(x=x, tooltip=_TOOLTIP, description="claim:N")
    fitted = alt.FieldEqualPredicate(field="role", equal="fit")
    opacity = alt.when(fitted).then(alt.value(FITTED_OPACITY)).otherwise(alt.value(1.0))
    layers = [
        band.mark_area(color=_BAND, aria=False).encode(y=y("least"), y2="most:Q"),
        band.mark_line(color=_GREY, strokeWidth=0.75, aria=False).encode(y=y("paper")),
        base.mark_point(filled=True, size=45).encode(
            y=y("ours"), opacity=opacity, **_by_verdict("verdict")
        ),
    ]
    if frame["recorded_value"].is_not_null().any():
        recorded = base.mark_point(filled=False, size=90)
        layers.append(recorded.encode(y=y("recorded_value"), **_by_verdict("recorded_verdict")))
    away: dict[str, Any] = {"right": ("left", 6), "left": ("right", -6)}  # from the diagonal
    for side, (align, dx) in away.items():
        here = base.transform_filter(alt.FieldEqualPredicate(field="side", equal=side))
        texts = here.mark_text(align=align, dx=dx, limit=_LABEL_PX)
        layers.append(texts.encode(y=y("labelled"), text="label:N"))
    return alt.layer(*layers).properties(width=_PLOT_PX, height=_HEIGHT_PX)


def _of_mark(
    row: Row, paper: float, ours: float | None, recorded: float | None
) -> dict[str, float | str | None]:
    """A row of the chart's data; labelled beside our number, else beside the recorded one."""
    labelled, verdict = (recorded, row.recorded_verdict) if ours is None else (ours, row.verdict)
    assert labelled is not None
    name = ".".join(row.name.split(".")[-2:])
    return {
        **_hover(row),
        "paper": paper,
        "ours": ours,
        "recorded_value": recorded,
        "labelled": labelled,
        "label": name if verdict in _LABELLED else "",
        "side": "left" if labelled > paper else "right",
    }


def _domain(values: Sequence[float], *, log: bool) -> tuple[float, float]:
    """Ends of both axes, a little beyond the values; percent begin at 0 or below."""
    if log:
        low, high = math.log(min(values)), math.log(max(values))
        margin = max(0.08 * (high - low), 0.2)
        return math.exp(low - margin), math.exp(high + margin)
    low, high = min(0.0, *values), max(values)
    margin = 0.06 * (high - low)
    return low - margin, high + margin


def _band(panel: _Panel, low: float, high: float, points: int = 50) -> pl.DataFrame:
    """The tolerance of `near` along the diagonal, within the axes."""
    import polars as pl

    unit, factor = next(iter(panel.units.items()))
    ends = (math.log(low), math.log(high)) if panel.log else (low, high)
    steps = [ends[0] + (ends[1] - ends[0]) * at / points for at in range(points + 1)]
    papers = [math.exp(one) for one in steps] if panel.log else steps
    rows = []
    for paper in papers:
        near = factor * tolerance(unit, paper / factor)
        rows.append((paper, max(paper - near, low), min(paper + near, high)))
    return pl.DataFrame(rows, schema=["paper", "least", "most"], orient="row")


def _dots(rows: Sequence[Row], *, numbers: bool) -> Any:
    """A row of dots per system: filled where the claim holds, empty where not, small if not run."""
    import altair as alt
    import polars as pl

    seen: dict[str, int] = {}
    records = []
    for row in rows:
        seen[row.system] = seen.get(row.system, 0) + 1
        records.append(_hover(row) | {"at": seen[row.system]})
    frame = pl.DataFrame(records, infer_schema_length=None)
    most = max(seen.values())
    base = alt.Chart(frame).encode(
        x=alt.X(
            "at:Q",
            scale=alt.Scale(domain=[0.5, max(most, 10) + 0.5], nice=False),
            axis=None,
        ),
        y=alt.Y("system:N", sort=list(seen), title=None, axis=alt.Axis(domain=False, ticks=False)),
        tooltip=_TOOLTIP,
        description="claim:N",
    )

    def dots(field: str, verdict: str, **mark: Any) -> Any:
        here = alt.FieldEqualPredicate(field=field, equal=verdict)
        return base.mark_point(color=COLOURS.get(verdict, _GREY), **mark).transform_filter(here)

    layers = [
        dots("verdict", "not run", filled=True, size=12),
        dots("verdict", "not reproduced", filled=False, size=50, strokeWidth=2),
        *(dots("verdict", one, filled=True, size=50) for one in ("near", "holds", "trend")),
    ]
    if any(row.recorded_verdict for row in rows):
        layers += [
            dots("recorded_verdict", one, filled=False, size=130, strokeWidth=1) for one in COLOURS
        ]
    return alt.layer(*layers).properties(
        width=_PLOT_PX,
        height=_ROW_PX * len(seen),
        title=alt.TitleParams(
            "Orderings and single numbers" if numbers else "Orderings",
            subtitle=["filled: holds; empty: does not;", "small: not run"],
        ),
    )


def _hover(row: Row) -> dict[str, str]:
    return {
        "claim": row.id,
        "system": row.system,
        "states": row.metric,
        "stated": row.paper_text,
        "found": row.ours_text,
        "recorded": row.recorded_text,
        "recorded_verdict": row.recorded_verdict,
        "verdict": row.verdict,
        "role": row.role,
    }


_TOOLTIP = [
    "claim:N",
    "states:N",
    "stated:N",
    "found:N",
    "verdict:N",
    "recorded:N",
    "role:N",
]


def _by_verdict(field: str) -> dict[str, Any]:
    """Colour and shape by a verdict, with a legend over all panels."""
    import altair as alt

    def channel(kind: type, values: dict[str, str]) -> Any:
        scale = alt.Scale(domain=list(values), range=list(values.values()))
        return kind(f"{field}:N", title=None, scale=scale)

    return {"color": channel(alt.Color, COLOURS), "shape": channel(alt.Shape, SHAPES)}
