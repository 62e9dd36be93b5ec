"""Parts that charts of several systems share: titles, legends, facets, accuracies over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from workbench.figures.palette import INK, PALETTE, SHAPES, series

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

APART_PX: Final = 24
"""Between facets, so that the axes' outermost labels stay apart."""

GREY: Final = "#888888"
"""Of marks to compare with: the paper's value, an ideal, a bound."""


def titled(frame: pl.DataFrame, **titles: Mapping[str, str]) -> pl.DataFrame:
    """Replace names by their titles in those columns that exist; other values stay as they are."""
    import polars as pl

    return frame.with_columns(
        pl.col(column).replace(dict(new))
        for column, new in titles.items()
        if column in frame.columns
    )


def present(names: pl.Series, titles: Mapping[str, str]) -> list[str]:
    """Return the titles of the names that occur, in the titles' order; then names without one."""
    found = names.unique(maintain_order=True).to_list()
    return [titles[name] for name in titles if name in found] + [
        name for name in found if name not in titles
    ]


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


def facets(
    chart: alt.Chart | alt.LayerChart | alt.FacetChart,
    field: str,
    order: Sequence[str],
    title: Sequence[str] | str,
    columns: int | None = None,
) -> alt.FacetChart:
    """Lay a chart out in panels, one for each value of `field`, in this order.

    In `columns`; by default three panels stand in a row, others two by two.
    """
    import altair as alt

    columns = columns or (3 if len(order) == 3 else 2)
    found: alt.FacetChart = chart.facet(
        facet=alt.Facet(f"{field}:N", sort=list(order), title=None),
        columns=columns,
        title=title if isinstance(title, str) else list(title),
        spacing=APART_PX,
    )
    # Axes at the foot of a column would stand under the empty places of the last row, too.
    return found.resolve_axis(x="independent") if len(order) % columns else found


def log_axis(field: str, title: str, **axis: Any) -> dict[str, Any]:
    """Return the arguments of `alt.X` or `alt.Y` for a logarithmic axis."""
    import altair as alt

    return {
        "shorthand": f"{field}:Q",
        "scale": alt.Scale(type="log"),
        "title": title,
        "axis": alt.Axis(format="~g", **axis),
    }


def accuracy(title: str = "validation accuracy, %", least: float = 0.0) -> alt.Y:
    """Return the axis of an accuracy, ``percent`` of 0 to 100.

    Where the `least` that is drawn is 80 or more, it begins at the ten below.
    """
    import altair as alt

    begins = 10 * int(least // 10) if least >= 80 else 0
    return alt.Y("percent:Q", title=title, scale=alt.Scale(domain=[begins, 100]))


def over_time(drawn: pl.DataFrame, field: str, order: Sequence[str], **axis: Any) -> alt.Chart:
    """Draw ``percent`` correct against ``at_s``, virtual seconds, a line per value of `field`.

    `drawn` has a row per line and epoch; `axis` are options of the time's `alt.Axis`.
    """
    import altair as alt

    x = alt.X("at_s:Q", title="virtual seconds")
    percent = alt.Y("percent:Q")
    return lines(drawn, x.axis(**axis) if axis else x, percent, field, order)


def trained(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Return the rows of trainings that ended well; and, for a title, how many others there are."""
    import polars as pl

    failed = frame["reason"].count()
    ended = frame.filter(pl.col("reason").is_null())
    return ended, [f"left out: {failed} training{'s' * (failed > 1)} that failed"] if failed else []


def samples(frame: pl.DataFrame) -> str:
    """Write how many samples a training of these rows uses for training and for validation."""
    run = frame.row(0, named=True)
    return f"{run['train_samples']:,} training, {run['test_samples']:,} validation samples"


VERDICTS: Final = ("holds", "near", "trend", "not reproduced")


def verdicts(frame: pl.DataFrame, prefix: str, titles: Mapping[str, str]) -> alt.LayerChart:
    """The verdict on each claim under each explanation, and our number where there is one.

    From ``explanation, claim, ours, verdict``; claims are named without their prefix.
    """
    import altair as alt
    import polars as pl

    drawn = frame.with_columns(
        explanation=pl.col("explanation").replace(titles).str.replace_all("_", " "),
        claim=pl.col("claim").str.strip_prefix(prefix),
        text=pl.when(pl.col("ours").is_not_null())
        .then(pl.col("ours").round(1).cast(pl.String))
        .otherwise(pl.lit("")),
    )
    base = alt.Chart(drawn).encode(
        x=alt.X(
            "explanation:N",
            sort=drawn["explanation"].unique(maintain_order=True).to_list(),
            title=None,
            axis=alt.Axis(labelAngle=-30),
        ),
        y=alt.Y("claim:N", sort=drawn["claim"].unique(maintain_order=True).to_list(), title=None),
    )
    colours = dict(zip(VERDICTS, ("#17315f", "#2a7f74", "#f2dd9c", "#ffffff"), strict=True))
    cells = base.mark_rect(stroke=GREY).encode(
        color=alt.Color(
            "verdict:N",
            title=None,
            scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        )
    )
    dark = alt.FieldOneOfPredicate(field="verdict", oneOf=list(VERDICTS[:2]))
    numbers = base.mark_text().encode(
        text="text:N",
        color=alt.when(dark).then(alt.value("white")).otherwise(alt.value(INK)),
    )
    chart: alt.LayerChart = cells + numbers
    return chart
