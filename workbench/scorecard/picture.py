"""The scorecard as a picture: each system's claims by verdict, and each number over the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import figures
from workbench.claims import MET, VERDICTS
from workbench.figures import PALETTE
from workbench.scorecard.scorecard import Row, Scorecard
from workbench.systems import TITLES
from workbench.utils.checks import UserError

if TYPE_CHECKING:
    import altair as alt
    from altair.typing import ChartType

    from workbench.notebook import Drawing, Results

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
WIDEST = 4.0
"""Ratio at the end of the axis; marks of larger ones stand there."""


def picture(card: Scorecard, *, timed: bool = True) -> Any:
    """Draw a scorecard: a bar for each system with its claims by verdict, and a mark a number.

    The marks below show ours over the paper's, where both have the same sign.

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
    judged = [row for row in card.rows if row.verdict != "input"]
    if not judged:
        raise UserError("no claim has a number or an ordering to draw")
    decided = [row for row in judged if timed or not row.timed]
    views: list[ChartType] = [_bars(judged, decided)]
    if ratios := [(row, ratio) for row in decided if (ratio := _ratio(row)) is not None]:
        views.append(_ratios(ratios))
    met = sum(row.verdict in MET for row in decided)
    title = [
        f"{met} of {len(decided)} claims of the papers are met",
        "bars: all claims by verdict; marks: numbers, ours over the paper's",
        *(["timed: left to each machine"] if len(decided) < len(judged) else []),
    ]
    return figures.stacked(*views, title=title, independent=())


def write(card: Scorecard, path: Path) -> Path:
    """Draw the claims that are the same on every machine to an SVG file."""
    if path.is_dir() or path.suffix.lower() != ".svg":
        raise UserError(f"{path}: the picture is SVG; give a file that ends in .svg")
    return figures.save(picture(card, timed=False), path)


def show(card: Scorecard, results: Results) -> Drawing:
    """Keep a notebook's scorecard and draw it."""
    results.keep("scorecard", card.frame)
    return results.draw("scorecard", picture(card), timings=True)


def _bars(judged: Sequence[Row], decided: Sequence[Row]) -> ChartType:
    """Claims of each system by verdict, and how many are met of how many."""
    import altair as alt
    import polars as pl

    claims = pl.DataFrame(
        {
            "system": [TITLES[row.system] for row in judged],
            "verdict": [row.verdict if row in decided else TIMED for row in judged],
        }
    )
    counts = claims.group_by("system", "verdict", maintain_order=True).len("claims")
    counts = counts.with_columns(
        order=pl.col("verdict").replace_strict(SHOWN, range(len(SHOWN)), return_dtype=pl.Int64)
    )
    is_met, is_decided = pl.col("verdict").is_in(MET), pl.col("verdict") != TIMED
    totals = claims.group_by("system", maintain_order=True).agg(
        pl.len().alias("claims"),
        pl.format("{} of {}", is_met.sum(), is_decided.sum()).alias("met"),
    )
    x = alt.X("claims:Q", title="claims")
    bars = alt.Chart(counts).mark_bar().encode(x, _systems(judged), order="order:O")
    ends = alt.Chart(totals).mark_text(align="left", dx=5, fontWeight="bold")
    return alt.layer(
        bars.encode(color=_by_verdict(alt.Color, COLOURS)),
        ends.encode(x, _systems(judged), text="met"),
        height=22 * totals.height,
    )


def _ratios(ratios: Sequence[tuple[Row, float]]) -> alt.Chart:
    """A mark for each number, in a row for each verdict of a system."""
    import altair as alt
    import polars as pl

    rows = [row for row, _ in ratios]
    frame = pl.DataFrame(
        {
            "claim": [row.id for row in rows],
            "system": [TITLES[row.system] for row in rows],
            "verdict": [row.verdict for row in rows],
            "ratio": [ratio for _, ratio in ratios],
        }
    )
    ends = {1 / WIDEST: f"≤ {1 / WIDEST:g}", WIDEST: f"≥ {WIDEST:g}"}
    axis = alt.Axis(
        values=[1 / WIDEST, 0.5, 0.8, 1, 1.25, 2, WIDEST],
        labelExpr=f"{ends}[datum.value] || datum.label",
        format="~g",
        grid=True,
    )
    scale = alt.Scale(type="log", domain=[1 / WIDEST, WIDEST], clamp=True, nice=False)
    chart: alt.Chart = (
        alt.Chart(frame)
        .mark_point()
        .encode(
            alt.X("ratio:Q", scale=scale, axis=axis, title="ours / the paper's"),
            _systems(rows, axis=alt.Axis(grid=True, tickBand="extent")),
            alt.YOffset("verdict:N", sort=list(SHOWN)),
            color=_by_verdict(alt.Color, COLOURS),
            shape=_by_verdict(alt.Shape, SHAPES),
        )
        .properties(height=44 * frame["system"].n_unique())
    )
    return chart


def _ratio(row: Row) -> float | None:
    """Ours over the paper's number; None where there is no positive one."""
    if not isinstance(row.paper, float) or row.ours is None or row.ours * row.paper <= 0:
        return None
    return row.ours / row.paper


def _systems(rows: Sequence[Row], **options: Any) -> alt.Y:
    import altair as alt

    order = [TITLES[system] for system in dict.fromkeys(row.system for row in rows)]
    return alt.Y("system:N", sort=order, title=None, **options)


def _by_verdict(channel: type, values: dict[str, str]) -> Any:
    """Colour or shape by verdict, with one legend over both panels."""
    import altair as alt

    scale = alt.Scale(domain=list(values), range=list(values.values()))
    return channel("verdict:N", title=None, scale=scale)
