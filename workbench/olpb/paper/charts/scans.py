"""Charts of Table I, Figs. 9 to 12 and of what the scan pays: frame to altair chart."""

from __future__ import annotations

import altair as alt
import polars as pl

from workbench import figures
from workbench.claims import load_claims
from workbench.figures import parts
from workbench.olpb.paper.charts.memory import MODEL_TITLES

METHOD_TITLES = {
    "olpb_l2": "OLPB, l = 2",
    "olpb_l3": "OLPB, l = 3",
    "bppsa": "BPPSA",
    "dpb": "DPB",
}
SCAN_TITLES = {"hillis_steele": "Hillis-Steele", "blelloch": "Blelloch"}
COUNTING_TITLES = {"paper": "as the paper counts", "arithmetic": "by arithmetic"}
_SECONDS = "s a backward pass"
_TENS = [10.0**power for power in range(-9, 10)]
"""Where a logarithmic axis has its labels, so that none stand in each other's way."""


def rests_on(found: pl.DataFrame) -> str:
    """A frame of `experiments.readings` in words."""
    free, costly = found.row(0, named=True), found[1:]

    def met(rows: pl.DataFrame) -> str:
        counted = []
        for role in ("fitted", "predicted"):
            counts = rows[f"{role}_met"].to_list()
            ends = " to ".join(map(str, sorted({min(counts), max(counts)})))
            counted.append(f"{ends} of {free[role]} {role}")
        return " and ".join(counted)

    return (
        "Figures 9 to 12 rest on combining Jacobians at no cost: "
        f"{met(found[:1])} claims are met.\n"
        f"Where combining costs something, {met(costly)} claims are.\n"
        f"SqueezeNet takes {free['first_ms']:,.0f} to {free['last_ms']:,.0f} ms over the delays of "
        f"Figure 11, in the paper {free['paper_first_ms']:,.0f} to {free['paper_last_ms']:,.0f} ms."
    )


def table1(frame: pl.DataFrame) -> alt.HConcatChart:
    """Layers, nodes and parameters of the paper's networks, and the paper's (the grey tick)."""
    columns = {"layers": "layers", "nodes": "nodes", "param_mib": "parameters, MiB"}
    keys = {"layers": "layers", "nodes": "nodes", "param_mib": "params"}
    stated = dict(load_claims().filter(system="olpb").select("id", "value").iter_rows())
    panels: list[alt.LayerChart] = []
    for column, title in columns.items():
        drawn = frame.select(
            pl.col("model").replace(MODEL_TITLES),
            ours=pl.col(column),
            paper=pl.format("olpb.table1.{}.{}", "model", pl.lit(keys[column]))
            .replace_strict(stated, default=None)
            .cast(pl.Float64),
        )
        models = alt.Y(
            "model:N",
            sort=list(MODEL_TITLES.values()),
            title=None,
            axis=alt.Axis(labels=not panels),
        )
        base = alt.Chart(drawn).encode(y=models)
        ours = base.mark_point(filled=True, size=55, color=figures.PALETTE[0]).encode(
            x=alt.X(**parts.log_axis("ours", title, values=_TENS))
        )
        stated_ticks = base.mark_tick(color=parts.GREY, thickness=2).encode(
            x=alt.X("paper:Q", scale=alt.Scale(type="log"))
        )
        panels.append((stated_ticks + ours).properties(height=110, width=150))
    heading = "Networks as the paper's library counts them (grey: Table I)"
    return alt.HConcatChart(hconcat=panels, title=heading)


def fig9(frame: pl.DataFrame) -> alt.Chart:
    """Percent of the slowest method's time, by network and method."""
    order = _present(frame)
    chart: alt.Chart = (
        alt.Chart(_titled(frame))
        .mark_bar()
        .encode(
            x=alt.X(
                "model:N",
                sort=list(MODEL_TITLES.values()),
                title=None,
                axis=alt.Axis(labelAngle=0),
            ),
            xOffset=alt.XOffset("method:N", sort=order),
            y=alt.Y("percent:Q", title="% of the slowest"),
            color=parts.colour("method", order),
        )
        .properties(height=190, title=_title(frame, "Backward pass", "nodes", "delay_factor"))
    )
    return chart


def fig10(frame: pl.DataFrame) -> alt.FacetChart:
    """Seconds against the number of nodes, a line per method."""
    return _lines(frame, "nodes", "nodes", _title(frame, "Backward pass", "delay_factor"), log=True)


def fig11(frame: pl.DataFrame) -> alt.FacetChart:
    """Seconds against the delay factor, a line per method."""
    title = _title(frame, "Backward pass (the range of p is assumed)", "nodes")
    return _lines(frame, "delay_factor", "delay factor p", title)


def fig12(frame: pl.DataFrame) -> alt.FacetChart:
    """Seconds against the batch size, a line per method, by scan."""
    model = MODEL_TITLES.get(frame["model"][0], frame["model"][0])
    title = _title(frame, f"Backward pass of {model}", "nodes", "delay_factor")
    return _lines(frame, "batch_size", "batch size", title, by="scan", titles=SCAN_TITLES)


def pays(frame: pl.DataFrame, speedup: str = "bare_speedup") -> alt.VConcatChart:
    """Speed-up of a scan over one node against the number of nodes, by both countings.

    Networks, with OLPB's groups of two levels, above recurrent chains. Above the grey line the scan
    pays. ``speedup`` is a column of `experiments.scans.pays`.
    """
    drawn = frame.filter((pl.col("method") == "olpb_l2") | pl.col("length").is_not_null()).select(
        "nodes",
        speedup,
        chain=pl.col("length").is_not_null(),
        name=pl.coalesce(
            pl.format("RNN, {} steps", "length"), pl.col("network").replace(MODEL_TITLES)
        ),
        panel=pl.col("counting").replace_strict(COUNTING_TITLES),
    )
    bare = speedup == "bare_speedup"
    held = "arithmetic alone takes time" if bare else "with delays and dispatches"
    title = ["What back-propagation by scan pays", f"batch {frame['batch_size'][0]}, {held}"]
    rows = [_speedups(drawn.filter(chain=chain), speedup) for chain in (False, True)]
    both = alt.VConcatChart(vconcat=rows, title=title)
    found: alt.VConcatChart = both.resolve_scale(color="independent", shape="independent")
    return found


def _speedups(drawn: pl.DataFrame, speedup: str) -> alt.FacetChart:
    counts = sorted(drawn["nodes"].unique().to_list())
    axis = alt.Axis(values=counts, format="d")
    lines = (
        alt.Chart()
        .mark_line(point=True)
        .encode(
            x=alt.X("nodes:Q", title="nodes", scale=alt.Scale(type="log", base=2), axis=axis),
            y=alt.Y(**parts.log_axis(speedup, "times as fast as one node", values=_TENS)),
            **figures.series("name", drawn["name"].unique(maintain_order=True).to_list()),
        )
    )
    even = alt.Chart().mark_rule(color=parts.GREY).encode(y=alt.datum(1))
    layered = alt.layer(even, lines, data=drawn).properties(height=150)
    return parts.facets(layered, "panel", list(COUNTING_TITLES.values()), "")


def _lines(
    frame: pl.DataFrame,
    field: str,
    title: str,
    chart_title: list[str],
    *,
    by: str = "model",
    titles: dict[str, str] = MODEL_TITLES,
    log: bool = False,
) -> alt.FacetChart:
    values = sorted(frame[field].unique().to_list())
    scale = alt.Scale(type="log", base=2) if log else alt.Scale(zero=False)
    lines = (
        alt.Chart(_titled(frame).with_columns(panel=pl.col(by).replace(titles)))
        .mark_line(point=True)
        .encode(
            x=alt.X(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(values=values)),
            y=alt.Y("backward_s:Q", title=_SECONDS),
            **figures.series("method", _present(frame)),
        )
        .properties(height=180)
    )
    order = parts.present(frame[by], titles)
    chart = parts.facets(lines, "panel", order, chart_title)
    return chart.resolve_scale(y="independent") if by == "model" else chart


def _title(frame: pl.DataFrame, subject: str, *held: str) -> list[str]:
    setting = frame.row(0, named=True)
    named = {"nodes": "{} nodes", "delay_factor": "p = {:g}"}
    said = [named[name].format(setting[name]) for name in held]
    if frame["batch_size"].n_unique() == 1:
        said.append(f"batch {setting['batch_size']}")
    return [
        subject,
        ", ".join(said),
        "as the paper counts (cost model); combining Jacobians costs nothing",
    ]


def _titled(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(
        pl.col("method").replace(METHOD_TITLES), pl.col("model").replace(MODEL_TITLES)
    )


def _present(frame: pl.DataFrame) -> list[str]:
    return parts.present(frame["method"], METHOD_TITLES)


def explanations(frame: pl.DataFrame) -> alt.LayerChart:
    """Verdict on every claim of Figs. 9 to 12 under each explanation of the open constants."""
    title = ["Claims met by each explanation (cost model)", "numbers: percent, or x"]
    return parts.verdicts(frame, "olpb.", {}).properties(height=200, title=title)
