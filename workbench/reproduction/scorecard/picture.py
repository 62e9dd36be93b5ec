"""The scorecard as a picture: each system's claims by verdict, and each number over the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import figures
from workbench.figures import PALETTE
from workbench.reproduction.claims import MET, VERDICTS
from workbench.reproduction.scorecard.card import Row, Scorecard
from workbench.reproduction.systems import TITLES
from workbench.utils.checks import UserError

if TYPE_CHECKING:
    import altair as alt
    import polars as pl
    from altair.typing import ChartType

    from workbench.reproduction.notebook import Drawing, Results

TIMED = "timed"
"""In place of a verdict that depends on how fast this machine is."""

SHOWN = [*VERDICTS[:-1], TIMED]
COLOURS = [PALETTE[0], PALETTE[4], PALETTE[1], PALETTE[2], "#c9c9c9", "#ececec"]
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "cross"]
WIDEST = 4.0
"""Ratio at the end of the axis; marks of larger ones stand there."""


def picture(card: Scorecard, *, timed: bool = True) -> Any:
    """Draw a scorecard: a bar for each system with its claims by verdict, and a mark a number.

    The marks below show ours over the paper's, where both have the same sign. Inputs of the model
    are left out, and, unless `timed`, verdicts on times that this machine measured, which differ
    from run to run. Raises UserError: there is no claim to draw.
    """
    import polars as pl

    judged = [row for row in card.rows if row.verdict != "input"]
    if not judged:
        raise UserError("no claim has a number or an ordering to draw")
    claims = pl.DataFrame(
        {
            "claim": [row.claim.id for row in judged],
            "system": [TITLES[row.claim.system] for row in judged],
            "verdict": [TIMED if row.answer.timed and not timed else row.verdict for row in judged],
            "ratio": [_ratio(row) for row in judged],
        },
        schema_overrides={"ratio": pl.Float64},
    )
    decided = claims.filter(pl.col("verdict") != TIMED)
    ratios = decided.drop_nulls("ratio")
    met = decided["verdict"].is_in(MET).sum()
    title = [
        f"{met} of {decided.height} claims of the papers are met",
        "bars: all claims by verdict; marks: numbers, ours over the paper's",
        *(["timed: left to each machine"] if decided.height < claims.height else []),
    ]
    views: list[ChartType] = [_bars(claims), *([_marks(ratios)] if ratios.height else [])]
    return figures.stacked(*views, title=title, independent=())


def check_picture(path: Path) -> None:
    """Refuse a file for the picture that is not SVG."""
    if path.is_dir() or path.suffix.lower() != ".svg":
        raise UserError(f"{path}: the picture is SVG; give a file that ends in .svg")


def write(card: Scorecard, path: Path) -> Path:
    """Draw the claims that are the same on every machine to an SVG file."""
    check_picture(path)
    return figures.save(picture(card, timed=False), path)


def show(card: Scorecard, results: Results) -> Drawing:
    """Keep a notebook's scorecard and draw it."""
    results.keep("scorecard", card.frame)
    return results.draw("scorecard", picture(card), timings=True)


def _ratio(row: Row) -> float | None:
    """Return ours over the paper's number; None where there is no positive one."""
    paper, ours = row.claim.paper, row.answer.ours
    if isinstance(paper, str) or ours is None or ours * paper <= 0:
        return None
    return ours / paper


def _bars(claims: pl.DataFrame) -> ChartType:
    """Draw claims of each system by verdict, and how many are met of how many."""
    import altair as alt
    import polars as pl

    verdict = pl.col("verdict")
    counts = claims.group_by("system", "verdict", maintain_order=True).len("claims")
    counts = counts.with_columns(
        order=verdict.replace_strict(SHOWN, range(len(SHOWN)), return_dtype=pl.Int64)
    )
    totals = claims.group_by("system", maintain_order=True).agg(
        claims=pl.len(),
        met=pl.format("{} of {}", verdict.is_in(MET).sum(), (verdict != TIMED).sum()),
    )
    x, y = alt.X("claims:Q", title="claims"), _by_system(claims)
    bars = alt.Chart(counts).mark_bar().encode(x, y, _colour(), order="order:O")
    ends = alt.Chart(totals).mark_text(align="left", dx=5, fontWeight="bold")
    return alt.layer(bars, ends.encode(x, y, text="met"), height=22 * totals.height)


def _marks(ratios: pl.DataFrame) -> alt.Chart:
    """Draw a mark for each number, in a row for each verdict of a system."""
    import altair as alt

    ends = {1 / WIDEST: f"≤ {1 / WIDEST:g}", WIDEST: f"≥ {WIDEST:g}"}
    axis = alt.Axis(
        values=[1 / WIDEST, 0.5, 0.8, 1, 1.25, 2, WIDEST],
        labelExpr=f"{ends}[datum.value] || datum.label",
        format="~g",
        grid=True,
    )
    scale = alt.Scale(type="log", domain=[1 / WIDEST, WIDEST], clamp=True, nice=False)
    shapes = alt.Scale(domain=SHOWN, range=SHAPES)
    chart: alt.Chart = (
        alt.Chart(ratios, height=44 * ratios["system"].n_unique())
        .mark_point()
        .encode(
            alt.X("ratio:Q", scale=scale, axis=axis, title="ours / the paper's"),
            _by_system(ratios, axis=alt.Axis(grid=True, tickBand="extent")),
            alt.YOffset("verdict:N", sort=SHOWN),
            _colour(),
            alt.Shape("verdict:N", title=None, scale=shapes),
        )
    )
    return chart


def _by_system(claims: pl.DataFrame, **options: Any) -> alt.Y:
    import altair as alt

    order = claims["system"].unique(maintain_order=True).to_list()
    return alt.Y("system:N", sort=order, title=None, **options)


def _colour() -> alt.Color:
    import altair as alt

    return alt.Color("verdict:N", title=None, scale=alt.Scale(domain=SHOWN, range=COLOURS))
