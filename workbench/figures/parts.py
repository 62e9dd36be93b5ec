"""Parts that charts of several systems share: titles, lines, facets, accuracies over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from workbench.figures.style import CONFIG, INK, PALETTE, SHAPES, series

if TYPE_CHECKING:
    import altair as alt
    import polars as pl
    from altair.typing import ChartType

    View = ChartType | Mapping[str, Any]

APART_PX: Final = 24
"""Space between facets: the outermost labels of axes stay apart."""

GREY: Final = "#888888"
"""Colour of marks to compare with: the paper's value, an ideal, a bound."""


def paper_rings(base: alt.Chart, **encoding: Any) -> alt.Chart:
    """Return a layer of rings at what the paper states, on the axes of `base`.

    `encoding` places them, such as ``x="paper:Q"``; where a row has no value there is no ring.
    """
    rings: alt.Chart = base.mark_point(
        shape="circle", size=42, filled=False, fill="white", color=INK, strokeWidth=1.25
    ).encode(**encoding)
    return rings


def rings_title(drawn: pl.DataFrame, what: str = "the paper's") -> list[str]:
    """Return a line of a title that says what rings at ``paper`` are; none where no ring is."""
    return [f"rings: {what}"] if drawn["paper"].count() else []


def titled(frame: pl.DataFrame, **titles: Mapping[str, str]) -> pl.DataFrame:
    """Replace names by their titles in those columns that exist; other values stay as they are."""
    import polars as pl

    return frame.with_columns(
        pl.col(column).replace(dict(title_of))
        for column, title_of in titles.items()
        if column in frame.columns
    )


def present(names: pl.Series, titles: Mapping[str, str]) -> list[str]:
    """Return the titles of the names that occur, in the titles' order; then names without one."""
    unique = names.unique(maintain_order=True).to_list()
    known = [title for name, title in titles.items() if name in unique]
    return known + [name for name in unique if name not in titles]


def colour(field: str, order: Sequence[str], *, skip: int = 0, **options: Any) -> alt.Color:
    """Encode a category by the palette, in this order, after the first `skip` colours."""
    import altair as alt

    scale = alt.Scale(domain=list(order), range=list(PALETTE[skip : skip + len(order)]))
    return alt.Color(f"{field}:N", scale=scale, **{"title": None, **options})


def shape(field: str, order: Sequence[str]) -> alt.Shape:
    """Encode a category by `SHAPES`, in this order."""
    import altair as alt

    scale = alt.Scale(domain=list(order), range=list(SHAPES[: len(order)]))
    return alt.Shape(f"{field}:N", title=None, scale=scale)


def log_axis(field: str, title: str, **axis: Any) -> dict[str, Any]:
    """Return the arguments of `alt.X` or `alt.Y` for a logarithmic axis."""
    import altair as alt

    return {
        "shorthand": f"{field}:Q",
        "scale": alt.Scale(type="log"),
        "title": title,
        "axis": alt.Axis(format="~g", **axis),
    }


def lines(
    frame: pl.DataFrame, x: alt.X, y: alt.Y, field: str, order: Sequence[str], **properties: Any
) -> alt.Chart:
    """Draw `y` against `x`, a line with points for each value of `field`, in this order.

    `properties` are those of the chart, such as ``height`` and ``title``.
    """
    import altair as alt

    marks = alt.Chart(frame).mark_line(point=True)
    chart: alt.Chart = marks.encode(x=x, y=y, **series(field, order)).properties(**properties)
    return chart


def over_time(drawn: pl.DataFrame, field: str, order: Sequence[str], **axis: Any) -> alt.Chart:
    """Draw ``percent`` correct against ``at_s``, virtual seconds, a line per value of `field`.

    `drawn` has a row per line and epoch; `axis` are options of the time's `alt.Axis`.
    """
    import altair as alt

    x = alt.X("at_s:Q", title="virtual seconds", scale=alt.Scale(zero=True))
    return lines(drawn, x.axis(**axis) if axis else x, alt.Y("percent:Q"), field, order)


def accuracy(title: str = "validation accuracy, %", least: float = 0.0) -> alt.Y:
    """Return the axis of an accuracy, ``percent`` of 0 to 100.

    Where the `least` that is drawn is 80 or more, it begins at the ten below.
    """
    import altair as alt

    begins = 10 * int(least // 10) if least >= 80 else 0
    return alt.Y("percent:Q", title=title, scale=alt.Scale(domain=[begins, 100]))


def trained(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Return the rows of trainings that ended well, and a line of a title about the others."""
    import polars as pl

    failed = frame["reason"].count()
    ended = frame.filter(pl.col("reason").is_null())
    return ended, [f"left out: {failed} training{'s' * (failed > 1)} that failed"] if failed else []


def samples(frame: pl.DataFrame) -> str:
    """Write how many samples a training of these rows uses for training and for validation."""
    run = frame.row(0, named=True)
    return f"{run['train_samples']:,} training, {run['test_samples']:,} validation samples"


def facets(
    chart: alt.Chart | alt.LayerChart | alt.FacetChart,
    field: str,
    order: Sequence[str],
    title: Sequence[str] | str,
    columns: int | None = None,
) -> alt.FacetChart:
    """Lay a chart out in panels, one for each value of `field`, in this order.

    Three panels stand in a row by default, others two by two.
    """
    import altair as alt

    columns = columns or (3 if len(order) == 3 else 2)
    panels: alt.FacetChart = chart.facet(
        facet=alt.Facet(f"{field}:N", sort=list(order), title=None),
        columns=columns,
        title=title if isinstance(title, str) else list(title),
        spacing=APART_PX,
    )
    # Axes at the foot of a column would stand under the empty places of the last row, too.
    return panels.resolve_axis(x="independent") if len(order) % columns else panels


def stacked(
    *views: View,
    title: Sequence[str] = (),
    how: Literal["vconcat", "hconcat"] = "vconcat",
    independent: Sequence[str] = ("color",),
    **properties: Any,
) -> dict[str, Any]:
    """Join views into one specification, drawn by the project's theme.

    As ``alt.vconcat`` does, but without its copies of every view, which take longer than the rest
    of an explorer's answer. Nothing is checked against altair's schema.

    Parameters
    ----------
    views
        From top to bottom, or from left to right: charts of altair, or what this returns.
    independent
        Channels whose scales and legends belong to each view alone.
    """
    datasets: dict[str, Any] = {}
    context = {"datasets": datasets, "top_level": False}
    joined = []
    for view in views:
        if isinstance(view, Mapping):
            datasets.update(view["datasets"])
            joined.append({key: view[key] for key in view if key not in ("config", "datasets")})
        else:
            joined.append(view.to_dict(validate=False, context=context))
    return {
        how: joined,
        **({"title": list(title)} if title else {}),
        "resolve": {"scale": dict.fromkeys(independent, "independent")},
        **properties,
        "config": CONFIG,
        "datasets": datasets,
    }


def verdicts(frame: pl.DataFrame, prefix: str, titles: Mapping[str, str]) -> alt.LayerChart:
    """Draw the verdict on each claim under each explanation, and our number where there is one.

    `frame` has ``explanation, claim, ours, verdict``; claims are shown without their `prefix`.
    """
    import altair as alt
    import polars as pl

    drawn = frame.with_columns(
        explanation=pl.col("explanation").replace(titles).str.replace_all("_", " "),
        claim=pl.col("claim").str.strip_prefix(prefix),
        text=pl.col("ours").round(1).cast(pl.String).fill_null(""),
    )
    explanations, claims = (
        drawn[name].unique(maintain_order=True).to_list() for name in ("explanation", "claim")
    )
    tilted = alt.Axis(labelAngle=-30)
    base = alt.Chart(drawn).encode(
        x=alt.X("explanation:N", sort=explanations, title=None, axis=tilted),
        y=alt.Y("claim:N", sort=claims, title=None),
    )
    dark = {"near": PALETTE[0], "holds": PALETTE[4]}
    shades = {**dark, "trend": PALETTE[5], "not reproduced": "#ffffff"}
    scale = alt.Scale(domain=list(shades), range=list(shades.values()))
    cells = base.mark_rect(stroke=GREY).encode(
        color=alt.Color("verdict:N", title=None, scale=scale)
    )
    is_dark = alt.FieldOneOfPredicate(field="verdict", oneOf=list(dark))
    numbers = base.mark_text().encode(
        text="text:N",
        color=alt.when(is_dark).then(alt.value("white")).otherwise(alt.value(INK)),
    )
    chart: alt.LayerChart = cells + numbers
    return chart
