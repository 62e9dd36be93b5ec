"""Table I and Figs. 9 to 12: networks and backward passes as the paper counts."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import altair as alt
import polars as pl

from workbench import figures
from workbench.clusters import load_calibration
from workbench.figures import parts
from workbench.olpb.costs.backward import FREE, MOVES
from workbench.olpb.costs.library import library_graph
from workbench.olpb.paper.testbed import (
    BATCH_SIZE,
    DELAY_FACTOR,
    DELAY_FACTORS,
    METHODS,
    MODELS,
    NODES,
    STATED,
    SWEPT_NODES,
    TIMES,
    stated_fig11_ms,
    times,
    variant,
)
from workbench.olpb.paper.titles import (
    METHOD_TITLES,
    MODEL_TITLES,
    SCAN_TITLES,
    TENS,
    model_title,
)
from workbench.reproduction.claims import Answer, Cause, claims_of
from workbench.reproduction.figure import Figure, Rows
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import grid, sweep

OLPB = ("olpb_l2", "olpb_l3")
SCANS = (*OLPB, "bppsa")
"""Methods that Figs. 11 and 12 show."""
FEW, MANY = STATED["network"]["swept_nodes"][0], NODES
_FIG12 = STATED["fig12"]

SIZES: dict[str, Any] = {
    "model": pl.String,
    **dict.fromkeys(("layers", "nodes", "edges", "levels"), pl.Int64),
    "param_mib": pl.Float64,
}


def networks(models: Sequence[str] = tuple(MODELS.values())) -> pl.DataFrame:
    """Layers, nodes and parameters of the paper's networks, counted as its library does.

    A row per model: ``layers, nodes, edges, levels`` of operators, and ``param_mib``, parameters
    in single precision in units of 2^20 bytes, which is what Table I calls MB.
    """
    return sweep(_sizes, grid(model=models), SIZES, title="Table I")


def _sizes(model: str) -> dict[str, object]:
    graph = library_graph(model)
    return {
        "layers": graph.layers,
        "nodes": len(graph.nodes),
        "edges": len(graph.edges),
        "levels": graph.nodes["level"].max(),
        "param_mib": graph.parameter_mib,
    }


_COUNTED = {
    "layers": ("layers", "layers", "input and loss left out"),
    "nodes": ("nodes", "nodes", "input, parameters, operators, loss"),
    "params": ("param_mib", "parameters, MiB", "of 2^20 bytes"),
}
"""What Table I counts: column, title and what is meant."""


def draw_networks(frame: pl.DataFrame) -> alt.HConcatChart:
    """Layers, nodes and parameters of the paper's networks, and the paper's (the grey tick)."""
    stated = {name: claim.value for name, claim in claims_of("olpb").items()}
    order = list(MODEL_TITLES.values())
    panels: list[alt.LayerChart] = []
    for what, (column, title, _) in _COUNTED.items():
        claim = pl.format("olpb.table1.{}.{}", "model", pl.lit(what))
        drawn = frame.select(
            pl.col("model").replace(MODEL_TITLES),
            ours=pl.col(column),
            paper=claim.replace_strict(stated, default=None).cast(pl.Float64),
        )
        models = alt.Y("model:N", sort=order, title=None, axis=alt.Axis(labels=not panels))
        base = alt.Chart(drawn).encode(y=models)
        ours = base.mark_point(filled=True, size=55, color=figures.PALETTE[0]).encode(
            x=alt.X(**parts.log_axis("ours", title, values=TENS))
        )
        ticks = base.mark_tick(color=parts.GREY, thickness=2).encode(
            x=alt.X("paper:Q", scale=alt.Scale(type="log"))
        )
        panels.append((ticks + ours).properties(height=110, width=150))
    heading = "Networks as the paper's library counts them (grey: Table I)"
    return alt.HConcatChart(hconcat=panels, title=heading)


def _size(model: str, what: str, frame: pl.DataFrame) -> Answer | None:
    """Layers, nodes or parameters of a network (Table I)."""
    rows = frame.filter(model=model)
    if rows.is_empty():
        return None
    column, _, note = _COUNTED[what]
    return Answer(float(rows[column].item()), f"the zoo's network; {note}")


def by_network(
    draws: int,
    batch_size: int = BATCH_SIZE,
    nodes: int = NODES,
    delay_factor: float = DELAY_FACTOR,
) -> pl.DataFrame:
    """Seconds of a backward pass by network and method, and percent of the slowest method's.

    Columns: see `workbench.olpb.paper.testbed.times`; ``percent`` is what Fig. 9 shows.
    """
    shared = {"batch_size": batch_size, "nodes": nodes, "delay_factor": delay_factor}
    frame = _swept("Fig. 9", grid(model=MODELS.values()), METHODS, draws=draws, **shared)
    slowest_s = pl.col("backward_s").max().over("model")
    return frame.with_columns(percent=100 * pl.col("backward_s") / slowest_s)


def by_nodes(
    draws: int,
    batch_size: int = BATCH_SIZE,
    delay_factor: float = DELAY_FACTOR,
    *,
    models: Sequence[str] = ("squeezenet", "inception_v3"),
    nodes: Sequence[int] = SWEPT_NODES,
) -> pl.DataFrame:
    """Seconds of a backward pass against the number of nodes; see `by_network`."""
    shared = {"batch_size": batch_size, "delay_factor": delay_factor}
    return _swept("Fig. 10", grid(model=models, nodes=nodes), METHODS, draws=draws, **shared)


def by_delay(
    draws: int,
    batch_size: int = BATCH_SIZE,
    nodes: int = NODES,
    *,
    models: Sequence[str] = ("squeezenet", "vgg16"),
    delay_factors: Sequence[float] = DELAY_FACTORS,
) -> pl.DataFrame:
    """Seconds of a backward pass against the delay factor p; see `by_network`.

    The paper's text does not say which p it sweeps (``data/testbeds/olpb.toml``, assumed).
    """
    points = grid(model=models, delay_factor=delay_factors)
    return _swept("Fig. 11", points, SCANS, draws=draws, batch_size=batch_size, nodes=nodes)


def by_batch_size(
    draws: int,
    nodes: int = _FIG12["nodes"],
    delay_factor: float = _FIG12["delay_factor"],
    *,
    model: str = _FIG12["model"],
    batch_sizes: Sequence[int] = tuple(_FIG12["batch_sizes"]),
) -> pl.DataFrame:
    """Seconds of a backward pass against the batch size, by both scans; see `by_network`."""
    points = grid(model=[model], scan=SCAN_TITLES, batch_size=batch_sizes)
    return _swept("Fig. 12", points, SCANS, draws=draws, nodes=nodes, delay_factor=delay_factor)


def _swept(
    title: str, points: Sequence[Mapping[str, object]], methods: Iterable[str], **shared: object
) -> pl.DataFrame:
    return sweep(
        _timed,
        points,
        TIMES,
        title=title,
        shared={**shared, "methods": tuple(methods)},
        with_steps=True,
    )


def _timed(
    model: str, methods: Sequence[str], draws: int, steps: object, **options: object
) -> list[dict[str, object]]:
    del steps
    return times(variant(**options), model, methods, draws)


_titled = partial(parts.titled, method=METHOD_TITLES, model=MODEL_TITLES)


def draw_by_network(frame: pl.DataFrame) -> alt.Chart:
    """Percent of the slowest method's time, by network and method."""
    order, models = _present(frame), list(MODEL_TITLES.values())
    title = _title(frame, "Backward pass", "nodes", "delay_factor")
    return (
        alt.Chart(_titled(frame), height=190, title=title)
        .mark_bar()
        .encode(
            x=alt.X("model:N", sort=models, title=None, axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("method:N", sort=order),
            y=alt.Y("percent:Q", title="% of the slowest"),
            color=parts.colour("method", order),
        )
    )


def draw_by_nodes(frame: pl.DataFrame) -> alt.FacetChart:
    """Seconds against the number of nodes, a line per method."""
    return _lines(frame, "nodes", "nodes", _title(frame, "Backward pass", "delay_factor"), log=True)


def draw_by_delay(frame: pl.DataFrame) -> alt.FacetChart:
    """Seconds against the delay factor, a line per method."""
    title = _title(frame, "Backward pass (the range of p is assumed)", "nodes")
    return _lines(frame, "delay_factor", "delay factor p", title)


def draw_by_batch_size(frame: pl.DataFrame) -> alt.FacetChart:
    """Seconds against the batch size, a line per method, by scan."""
    subject = f"Backward pass of {model_title(frame.row(0, named=True))}"
    title = _title(frame, subject, "nodes", "delay_factor")
    return _lines(frame, "batch_size", "batch size", title, by="scan", titles=SCAN_TITLES)


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
            y=alt.Y("backward_s:Q", title="s a backward pass"),
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


def _present(frame: pl.DataFrame) -> list[str]:
    return parts.present(frame["method"], METHOD_TITLES)


def as_read(answer: Callable[..., Answer]) -> Callable[..., Answer]:
    """Say beside an answer what Figs. 9 to 12 rest on."""

    def read(*arguments: Any) -> Answer:
        plain = answer(*arguments)
        rests_on = f"rests on combining Jacobians at no cost; {costly_readings()}"
        return replace(plain, caveat=f"{rests_on}; {plain.caveat}" if plain.caveat else rests_on)

    return read


@cache
def costly_readings() -> str:
    """How many claims are met where combining Jacobians costs something, as calibrated."""
    stored = load_calibration("olpb")
    claims = {"fitted": len(stored["fitted_on"])}
    all_claims = sum(len(figure.answers) for figure in (FIG9, FIG10, FIG11, FIG12))
    claims["predicted"] = all_claims - claims["fitted"]
    said = []
    for role, count in claims.items():
        met = {stored["claims_met"][reading][role] for reading in MOVES if reading != FREE}
        ends = " to ".join(map(str, sorted({min(met), max(met)})))
        said.append(f"{ends} of {count} {role}")
    return f"where that costs something {' and '.join(said)} claims are met"


def _max_reduction(frame: pl.DataFrame) -> Answer:
    """Largest share of BPPSA's time that OLPB saves, at either level (Fig. 9)."""
    saved = _by_method(frame, "model").unpivot(OLPB, index=["model", "bppsa"])
    saved = saved.with_columns(percent=100 * (1 - pl.col("value") / pl.col("bppsa")))
    model, method, percent = saved.sort("percent").select("model", "variable", "percent").row(-1)
    return Answer(percent, f"{model}, {method.replace('_l', ', l = ')}")


def _order(frame: pl.DataFrame) -> Answer:
    """OLPB below BPPSA below DPB on every network (Fig. 9)."""
    seconds = _by_method(frame, "model")
    is_wrong = (pl.max_horizontal(OLPB) >= pl.col("bppsa")) | (pl.col("bppsa") >= pl.col("dpb"))
    return _but_on(seconds.filter(is_wrong))


def _level(frame: pl.DataFrame) -> Answer:
    """Two levels are faster than three but on Inception-v3 (Fig. 9)."""
    faster = _by_method(frame, "model").select("model", two=pl.col("olpb_l2") < pl.col("olpb_l3"))
    return _but_on(faster.filter(pl.col("two") == (pl.col("model") == MODELS["InceptionV3"])))


def _but_on(wrong: pl.DataFrame) -> Answer:
    """Whether something holds on every network, or on all but these rows'."""
    names = ", ".join(wrong["model"])
    return Answer(not names, f"not on {names}" if names else "on every network")


def _fewer_nodes(frame: pl.DataFrame) -> Answer:
    """Share of the time at 4 nodes that OLPB and BPPSA save at 32, on average (Fig. 10)."""
    seconds = _scans(frame).pivot(on="nodes", index=["model", "method"], values="backward_s")
    percent = 100 * (1 - seconds[str(MANY)] / seconds[str(FEW)])
    low, *_, high = percent.sort().to_list()
    return Answer(statistics.fmean(percent), f"{low:.0f} to {high:.0f} %")


def _dpb(frame: pl.DataFrame) -> Answer:
    """DPB is flat, and ahead of all others at 4 nodes (Fig. 10)."""
    seconds = _by_method(frame, "model", "nodes")
    flat = seconds.group_by("model").agg(pl.col("dpb").max() <= pl.col("dpb").min() * (1 + 1e-9))
    few = seconds.filter(nodes=FEW)
    best = few.filter(pl.col("dpb") < pl.min_horizontal(*OLPB, "bppsa"))["model"].to_list()
    behind = sorted(set(few["model"]) - set(best))
    ahead = f"behind at {FEW} nodes on {', '.join(behind)}" if behind else f"ahead at {FEW} nodes"
    return Answer(bool(flat["dpb"].all()) and not behind, ahead)


def _growth(method: str, frame: pl.DataFrame) -> Answer:
    """Time at the largest delay factor over that at the smallest, SqueezeNet (Fig. 11)."""
    rows = frame.filter(model=MODELS["SqueezeNet"], method=method).sort("delay_factor")
    first, last = rows.row(0, named=True), rows.row(-1, named=True)
    detail = (
        f"{1e3 * first['backward_s']:.0f} to {1e3 * last['backward_s']:.0f} ms, p from "
        f"{first['delay_factor']:g} to {last['delay_factor']:g} (assumed)"
    )
    caveat = ""
    if method == "olpb_l2":
        low_ms, high_ms = stated_fig11_ms()
        ends_ms = [f"{1e3 * row['backward_s']:,.0f}" for row in (first, last)]
        caveat = f"takes {' to '.join(ends_ms)} ms, in the paper {low_ms:g} to {high_ms:g}"
    return Answer(last["backward_s"] / first["backward_s"], detail, caveat=caveat)


def _batch(frame: pl.DataFrame) -> Answer:
    """Time at the largest batch over that at the smallest, mean of OLPB and BPPSA (Fig. 12)."""
    few, many = min(_FIG12["batch_sizes"]), max(_FIG12["batch_sizes"])
    seconds = _scans(frame).pivot(on="batch_size", index=["scan", "method"], values="backward_s")
    growth = seconds[str(many)] / seconds[str(few)]
    low, *_, high = growth.sort().to_list()
    return Answer(statistics.fmean(growth), f"{low:.2f} to {high:.2f} x")


def _either_scan(frame: pl.DataFrame) -> Answer:
    """OLPB below BPPSA at every batch size, by either scan (Fig. 12)."""
    seconds = _by_method(frame, "scan", "batch_size")
    wrong = seconds.filter(pl.max_horizontal(OLPB) >= pl.col("bppsa"))
    return Answer(wrong.is_empty(), f"at {len(seconds) - len(wrong)} of {len(seconds)} points")


def _scans(frame: pl.DataFrame) -> pl.DataFrame:
    """Without DPB, which Fig. 12 does not show and Fig. 10's reduction is not about."""
    return frame.filter(pl.col("method") != "dpb")


def _by_method(frame: pl.DataFrame, *index: str) -> pl.DataFrame:
    return frame.pivot(on="method", index=list(index), values="backward_s")


def _at_paper(column: str, needed: Iterable[object], **setting: object) -> Rows:
    """Rows of a setting; none unless a column has all the values that the claims are about."""

    def rows(frame: pl.DataFrame) -> pl.DataFrame:
        kept = frame.filter(**setting)
        return kept if set(needed) <= set(kept[column]) else kept.clear()

    return rows


_DRAWS = {"draws": Scaled(smoke=10, default=50, paper=500)}  # of all delays, in a mean

TABLE1 = Figure(
    id="table1",
    compute=networks,
    chart=draw_networks,
    answers={
        f"olpb.table1.{model}.{what}": partial(_size, model, what)
        for model in MODELS.values()
        for what in ("layers", "nodes", "params")
    },
)

FIG9 = Figure(
    id="fig9",
    compute=by_network,
    chart=draw_by_network,
    sizes=_DRAWS,
    answers={
        "olpb.fig9.max_reduction": as_read(_max_reduction),
        "olpb.fig9.order": as_read(_order),
        "olpb.fig9.level": as_read(_level),
    },
    at_paper=_at_paper(
        "model",
        MODELS.values(),
        batch_size=BATCH_SIZE,
        nodes=NODES,
        delay_factor=DELAY_FACTOR,
    ),
)

FIG10 = Figure(
    id="fig10",
    compute=by_nodes,
    chart=draw_by_nodes,
    sizes=_DRAWS,
    answers={
        "olpb.fig10.reduction": as_read(_fewer_nodes),
        "olpb.fig10.dpb": as_read(_dpb),
    },
    at_paper=_at_paper("nodes", (FEW, MANY), batch_size=BATCH_SIZE, delay_factor=DELAY_FACTOR),
)

FIG11 = Figure(
    id="fig11",
    compute=by_delay,
    chart=draw_by_delay,
    sizes=_DRAWS,
    answers={
        "olpb.fig11.olpb": as_read(partial(_growth, "olpb_l2")),
        "olpb.fig11.bppsa": as_read(partial(_growth, "bppsa")),
    },
    causes={
        "olpb.fig11.olpb": Cause(
            "data",
            "the range of p is not stated: with the constants that meet Fig. 9 OLPB "
            "grows as stated from 10 to 560, but hardly from 10 to 50, which is assumed, for "
            "delays are 2.5 % of its time at 20",
        ),
        "olpb.fig11.bppsa": Cause(
            "paper",
            "where OLPB is below BPPSA, as in Fig. 9, growths of 2.07 and 2.45 x mean that delays "
            "cost BPPSA at least 1.45 / 1.07 = 1.36 times as much; but for its 65 layers (Table I) "
            "32 nodes send as many messages as for OLPB's 38 subtasks, and of the constants tried "
            "that meet Fig. 9 none meets both growths for any range of p up to 5,000",
        ),
    },
    at_paper=_at_paper("delay_factor", DELAY_FACTORS, batch_size=BATCH_SIZE, nodes=NODES),
)

FIG12 = Figure(
    id="fig12",
    compute=by_batch_size,
    chart=draw_by_batch_size,
    sizes=_DRAWS,
    answers={
        "olpb.fig12.batch": as_read(_batch),
        "olpb.fig12.scan": as_read(_either_scan),
    },
    at_paper=_at_paper(
        "batch_size",
        _FIG12["batch_sizes"],
        nodes=_FIG12["nodes"],
        delay_factor=_FIG12["delay_factor"],
    ),
)
