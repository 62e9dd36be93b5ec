"""Figs. 9 to 12: seconds of a backward pass as the paper counts, on its testbed."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import altair as alt
import polars as pl

from workbench import figures
from workbench.figures import INK, parts
from workbench.olpb.paper.testbed import (
    BATCH_SIZE,
    CURVES,
    DELAY_FACTOR,
    DELAY_FACTORS,
    MODELS,
    NODES,
    STATED,
    SWEPT_NODES,
    TIMES,
    times,
    variant,
)
from workbench.olpb.paper.titles import METHOD_TITLES, MODEL_TITLES, SCAN_TITLES, model_title
from workbench.reproduction.claims import Answer, Cause, claims_of, paper_value
from workbench.reproduction.figure import Figure, Rows
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import grid, sweep

SCANS = tuple(curve for curve in CURVES if curve != "dpb")
"""Curves of Figs. 11 and 12."""
_CURVES = "l = 2, l = 3, BPPSA"
OLPB = tuple(name for name, curve in CURVES.items() if curve.method == "olpb")
FEW, MANY = STATED["network"]["swept_nodes"][0], NODES
_FIG12 = STATED["fig12"]


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
    frame = _swept("Fig. 9", grid(model=MODELS.values()), CURVES, draws=draws, **shared)
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
    return _swept("Fig. 10", grid(model=models, nodes=nodes), CURVES, draws=draws, **shared)


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
    title: str, points: Sequence[Mapping[str, object]], curves: Iterable[str], **shared: object
) -> pl.DataFrame:
    shared["curves"] = tuple(curves)
    return sweep(_timed, points, TIMES, title=title, shared=shared)


def _timed(
    model: str, curves: Sequence[str], draws: int, **options: object
) -> list[dict[str, object]]:
    return times(variant(**options), model, curves, draws)


def _in_ms(frame: pl.DataFrame) -> pl.DataFrame:
    """Add ``backward_ms``, the paper's unit."""
    return frame.with_columns(backward_ms=1e3 * pl.col("backward_s"))


_titled = partial(parts.titled, method=METHOD_TITLES, model=MODEL_TITLES)


def draw_by_network(frame: pl.DataFrame) -> alt.LayerChart:
    """Percent of the slowest method's time, by network and method, with the milliseconds."""
    order, models = _present(frame), list(MODEL_TITLES.values())
    drawn = _with_reduction(_in_ms(frame))
    title = [
        *_title(frame, "Backward pass", "nodes", "delay_factor"),
        "numbers: ms",
        *parts.rings_title(drawn, "the paper's largest reduction against BPPSA, where ours is"),
    ]
    base = alt.Chart(_titled(drawn)).encode(
        x=alt.X("model:N", sort=models, title=None, axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("method:N", sort=order),
    )
    bars = base.mark_bar().encode(
        y=alt.Y(
            "percent:Q",
            title="% of the slowest",
            scale=alt.Scale(domain=[0, 110], nice=False),
            axis=alt.Axis(values=[0, 25, 50, 75, 100], labelSeparation=0),
        ),
        color=parts.colour("method", order),
    )
    milliseconds = alt.Text("backward_ms:Q", format=",.0f")
    numbers = base.mark_text(dy=-6, fontSize=8).encode(y="percent:Q", text=milliseconds)
    rings = parts.paper_rings(base, y="paper:Q")
    return alt.LayerChart(layer=[bars, numbers, rings], height=190, title=title)


def _with_reduction(frame: pl.DataFrame) -> pl.DataFrame:
    """Add ``paper``: percent at the paper's reduction against BPPSA, where ours is largest."""
    bppsa = frame.filter(method="bppsa").select("model", bppsa="percent")
    reduced = FIG9.at_paper(frame).filter(pl.col("method").is_in(OLPB)).join(bppsa, on="model")
    left = 1 - paper_value("olpb.fig9.max_reduction") / 100
    largest = reduced.sort(pl.col("percent") / pl.col("bppsa")).head(1)
    stated = largest.select("model", "method", paper=left * pl.col("bppsa"))
    return frame.join(stated, on=["model", "method"], how="left", maintain_order="left")


def draw_by_nodes(frame: pl.DataFrame) -> alt.FacetChart:
    """Milliseconds against the number of nodes, a line per method."""
    title = _title(frame, "Backward pass", "delay_factor")
    left = 1 - paper_value("olpb.fig10.reduction") / 100
    few = _scans(FIG10.at_paper(_in_ms(frame))).filter(nodes=FEW)
    stated = few.select("model", "method", nodes=MANY, paper=left * pl.col("backward_ms"))
    title += parts.rings_title(stated, f"the paper's mean reduction from {FEW} to {MANY} nodes")
    return _lines(frame, stated, "nodes", "nodes", title, log=True)


def draw_by_delay(frame: pl.DataFrame) -> alt.FacetChart:
    """Milliseconds against the delay factor, a line per method."""
    title = _title(frame, "Backward pass (the range of p is assumed)", "nodes")
    least, most = min(DELAY_FACTORS), max(DELAY_FACTORS)
    squeezenet = FIG11.at_paper(_in_ms(frame)).filter(model=MODELS["SqueezeNet"])
    grown = pl.col("backward_ms") * paper_value("olpb.fig11.bppsa")
    stated = pl.concat(
        squeezenet.filter(method=method, delay_factor=reference).select(
            "model", "method", delay_factor=pl.lit(factor), paper=milliseconds
        )
        for method, reference, factor, milliseconds in (
            ("olpb_l2", least, least, pl.lit(paper_value("olpb.fig11.least"))),
            ("olpb_l2", most, most, pl.lit(paper_value("olpb.fig11.most"))),
            ("bppsa", least, most, grown),
        )
    )
    title += parts.rings_title(stated, "the paper's milliseconds of OLPB and growth of BPPSA")
    return _lines(frame, stated, "delay_factor", "delay factor p", title)


def draw_by_batch_size(frame: pl.DataFrame) -> alt.FacetChart:
    """Milliseconds against the batch size, a line per method, by scan."""
    subject = f"Backward pass of {model_title(frame.row(0, named=True))}"
    title = _title(frame, subject, "nodes", "delay_factor")
    few, many = min(_FIG12["batch_sizes"]), max(_FIG12["batch_sizes"])
    first_ms = pl.col("backward_ms").filter(pl.col("batch_size") == few).mean()
    low, high = claims_of("olpb")["olpb.fig12.batch"].bounds
    means = FIG12.at_paper(_in_ms(frame)).group_by("scan", maintain_order=True).agg(first_ms)
    stated = pl.concat(
        means.select(
            "scan",
            method=pl.lit(method),
            batch_size=many,
            paper=growth * pl.col("backward_ms"),
        )
        for method, growth in (("olpb_l2", low), ("bppsa", high))
    )
    title += parts.rings_title(stated, "least and most growth of their mean, by the paper")
    return _lines(frame, stated, "batch_size", "batch size", title, by="scan", titles=SCAN_TITLES)


def _lines(
    frame: pl.DataFrame,
    stated: pl.DataFrame,
    field: str,
    title: str,
    chart_title: list[str],
    *,
    by: str = "model",
    titles: dict[str, str] = MODEL_TITLES,
    log: bool = False,
) -> alt.FacetChart:
    """Draw milliseconds against a field, and rings at the column ``paper`` of `stated`."""
    values = sorted(frame[field].unique().to_list())
    scale = alt.Scale(type="log", base=2) if log else alt.Scale(zero=False)
    joined = _in_ms(frame).join(stated, on=[by, "method", field], how="left", maintain_order="left")
    base = alt.Chart(_titled(joined).with_columns(panel=pl.col(by).replace(titles))).encode(
        x=alt.X(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(values=values))
    )
    series = figures.series("method", _present(frame))
    lines = base.mark_line(point=True).encode(
        y=alt.Y("backward_ms:Q", title="ms a backward pass"), **series
    )
    colour = series["color"] if by == "model" else alt.value(INK)
    marks = parts.paper_rings(base, y="paper:Q", color=colour)
    order = parts.present(frame[by], titles)
    both = alt.layer(lines, marks).properties(height=180)
    chart = parts.facets(both, "panel", order, chart_title)
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


RESTS_ON = "rests on combining Jacobians at no cost but a dispatch"
"""Caveat of Figs. 9 to 12."""


def _max_reduction(frame: pl.DataFrame) -> Answer:
    """Largest share of BPPSA's time that OLPB saves, at either level (Fig. 9)."""
    saved = _by_method(frame, "model").unpivot(OLPB, index=["model", "bppsa"])
    saved = saved.with_columns(percent=100 * (1 - pl.col("value") / pl.col("bppsa")))
    model, method, percent = saved.sort("percent").select("model", "variable", "percent").row(-1)
    return Answer(percent, f"{model}, {method.replace('_l', ', l = ')}", caveat=RESTS_ON)


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
    detail = f"not on {names}" if names else "on every network"
    return Answer(not names, detail, caveat=RESTS_ON)


def _fewer_nodes(frame: pl.DataFrame) -> Answer:
    """Share of the time at 4 nodes that OLPB and BPPSA save at 32, on average (Fig. 10)."""
    seconds = _scans(frame).pivot(on="nodes", index=["model", "method"], values="backward_s")
    percent = 100 * (1 - seconds[str(MANY)] / seconds[str(FEW)])
    low, *_, high = percent.sort().to_list()
    return Answer(statistics.fmean(percent), f"{low:.0f} to {high:.0f} %", caveat=RESTS_ON)


def _dpb(frame: pl.DataFrame) -> Answer:
    """DPB is flat, and ahead of all others at 4 nodes (Fig. 10)."""
    seconds = _by_method(frame, "model", "nodes")
    flat = seconds.group_by("model").agg(pl.col("dpb").max() <= pl.col("dpb").min() * (1 + 1e-9))
    few = seconds.filter(nodes=FEW)
    best = few.filter(pl.col("dpb") < pl.min_horizontal(*OLPB, "bppsa"))["model"].to_list()
    behind = sorted(set(few["model"]) - set(best))
    ahead = f"behind at {FEW} nodes on {', '.join(behind)}" if behind else f"ahead at {FEW} nodes"
    return Answer(bool(flat["dpb"].all()) and not behind, ahead, caveat=RESTS_ON)


def _faster_level(frame: pl.DataFrame) -> Answer:
    """Milliseconds that two levels save against three on 32 nodes, SqueezeNet (Fig. 10)."""
    seconds = _by_method(frame.filter(model=MODELS["SqueezeNet"]), "nodes").sort("nodes")
    saved_ms = 1e3 * (seconds["olpb_l3"] - seconds["olpb_l2"])
    by_nodes = dict(zip(seconds["nodes"], saved_ms, strict=True))
    listed = ", ".join(f"{ms:.0f} at {nodes}" for nodes, ms in by_nodes.items())
    return Answer(by_nodes[MANY], f"at {MANY} nodes; {listed}", caveat=RESTS_ON)


def _below_bppsa(frame: pl.DataFrame) -> Answer:
    """OLPB below BPPSA at both levels, at every number of nodes (Fig. 10)."""
    seconds = _by_method(frame, "model", "nodes")
    wrong = seconds.filter(pl.max_horizontal(OLPB) >= pl.col("bppsa"))
    points = ", ".join(
        f"{model} at {nodes}" for model, nodes in wrong.select("model", "nodes").rows()
    )
    detail = f"not on {points} nodes" if points else "at every number of nodes"
    return Answer(not points, detail, caveat=RESTS_ON)


def _three_levels(frame: pl.DataFrame) -> Answer:
    """Three levels below two at every number of nodes, Inception-v3 (Fig. 10)."""
    seconds = _by_method(frame.filter(model=MODELS["InceptionV3"]), "nodes")
    faster = seconds.filter(pl.col("olpb_l3") < pl.col("olpb_l2"))
    detail = f"at {len(faster)} of {len(seconds)} numbers of nodes"
    return Answer(len(faster) == len(seconds), detail, caveat=RESTS_ON)


def _growth(curve: str, frame: pl.DataFrame) -> Answer:
    """Time at the largest delay factor over that at the smallest, SqueezeNet (Fig. 11)."""
    rows = frame.filter(model=MODELS["SqueezeNet"], method=curve).sort("delay_factor")
    first, last = rows.row(0, named=True), rows.row(-1, named=True)
    detail = (
        f"{1e3 * first['backward_s']:.0f} to {1e3 * last['backward_s']:.0f} ms, p from "
        f"{first['delay_factor']:g} to {last['delay_factor']:g} (assumed)"
    )
    return Answer(last["backward_s"] / first["backward_s"], detail, caveat=RESTS_ON)


def _rises_slower(model: str, frame: pl.DataFrame) -> Answer | None:
    """OLPB's time grows by a smaller factor than BPPSA's at both levels (Fig. 11)."""
    seconds = _by_method(frame.filter(model=model).sort("delay_factor"), "delay_factor")
    if seconds.is_empty():
        return None
    factors = [seconds[curve][-1] / seconds[curve][0] for curve in (*OLPB, "bppsa")]
    listed = ", ".join(f"{factor:.2f}" for factor in factors)
    return Answer(max(factors[:-1]) < factors[-1], f"{listed} x of {_CURVES}", caveat=RESTS_ON)


def _rises(frame: pl.DataFrame) -> Answer:
    """Every time grows with the delay factor (Fig. 11)."""
    ordered = frame.sort("delay_factor")
    falls = [
        f"{model}, {method}"
        for (model, method), part in ordered.group_by("model", "method", maintain_order=True)
        if (part["backward_s"].diff().drop_nulls() <= 0).any()
    ]
    return Answer(not falls, "; ".join(falls) or "on both networks", caveat=RESTS_ON)


def _milliseconds(end: int, frame: pl.DataFrame) -> Answer:
    """OLPB's time on SqueezeNet with two levels, at the first or last delay factor (Fig. 11)."""
    rows = frame.filter(model=MODELS["SqueezeNet"], method="olpb_l2").sort("delay_factor")
    row = rows.row(end, named=True)
    detail = f"p of {row['delay_factor']:g} (assumed), in units of a millisecond (assumed)"
    return Answer(1e3 * row["backward_s"], detail, caveat=RESTS_ON)


def _batch(frame: pl.DataFrame) -> Answer:
    """Time at the largest batch over that at the smallest, mean of OLPB and BPPSA (Fig. 12)."""
    few, many = min(_FIG12["batch_sizes"]), max(_FIG12["batch_sizes"])
    seconds = _scans(frame).pivot(on="batch_size", index=["scan", "method"], values="backward_s")
    ratios = seconds[str(many)] / seconds[str(few)]
    low, *_, high = ratios.sort().to_list()
    return Answer(statistics.fmean(ratios), f"{low:.2f} to {high:.2f} x", caveat=RESTS_ON)


def _either_scan(frame: pl.DataFrame) -> Answer:
    """OLPB below BPPSA at every batch size, by either scan (Fig. 12)."""
    seconds = _by_method(frame, "scan", "batch_size")
    wrong = seconds.filter(pl.max_horizontal(OLPB) >= pl.col("bppsa"))
    detail = f"at {len(seconds) - len(wrong)} of {len(seconds)} points"
    return Answer(wrong.is_empty(), detail, caveat=RESTS_ON)


def _faster_scan(frame: pl.DataFrame) -> Answer:
    """Blelloch's scan below Hillis and Steele's at every batch size, mean of curves (Fig. 12)."""
    seconds = _scans(frame).group_by("batch_size", "scan").agg(pl.col("backward_s").mean())
    each = seconds.pivot(on="scan", index="batch_size", values="backward_s")
    ratios = each["blelloch"] / each["hillis_steele"]
    low, *_, high = ratios.sort().to_list()
    return Answer(high < 1, f"{low:.2f} to {high:.2f} of the time", caveat=RESTS_ON)


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


_DRAWS = {"draws": Scaled(smoke=50, default=50, paper=500)}  # of all delays, in a mean

_BIASED = (
    "the times of single operators, highly biased by Sec. IV and not printed; here each costs its "
    "arithmetic and one time"
)

FIG9 = Figure(
    id="fig9",
    compute=by_network,
    chart=draw_by_network,
    sizes=_DRAWS,
    answers={
        "olpb.fig9.max_reduction": _max_reduction,
        "olpb.fig9.order": _order,
        "olpb.fig9.level": _level,
    },
    causes={
        "olpb.fig9.max_reduction": Cause(
            "ours",
            "nodes go on to their next batch without waiting, so the batches that BPPSA has more "
            "of overlap. Where nodes wait for each other between batches OLPB saves far more, but "
            "then two levels are slower than three on SqueezeNet, whose groups of three fit into "
            "one batch: against Fig. 9's other statement. Where additions are fused as well, which "
            "Alg. 1 may mean by an optimised graph, Fig. 10's order of levels is missed instead",
        ),
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
        "olpb.fig10.reduction": _fewer_nodes,
        "olpb.fig10.dpb": _dpb,
        "olpb.fig10.faster": _faster_level,
        "olpb.fig10.order": _below_bppsa,
        "olpb.fig10.level": _three_levels,
    },
    causes={
        "olpb.fig10.order": Cause(
            "data",
            "it holds on up to 32 nodes. On 64 SqueezeNet's 66 layers take hardly more than a "
            "batch, so that BPPSA has eight moves against five and six. Which is faster turns on "
            f"{_BIASED}: where additions take no time of their own it holds on 64 nodes, too",
        ),
        "olpb.fig10.faster": Cause(
            "ours",
            "two levels are faster than three, as stated, but by less: SqueezeNet's groups of two "
            "levels take a second batch on 32 nodes, which costs most of what smaller groups save",
        ),
    },
    at_paper=_at_paper("nodes", (FEW, MANY), batch_size=BATCH_SIZE, delay_factor=DELAY_FACTOR),
)

FIG11 = Figure(
    id="fig11",
    compute=by_delay,
    chart=draw_by_delay,
    sizes=_DRAWS,
    answers={
        "olpb.fig11.olpb": partial(_growth, "olpb_l2"),
        "olpb.fig11.bppsa": partial(_growth, "bppsa"),
        "olpb.fig11.least": partial(_milliseconds, 0),
        "olpb.fig11.most": partial(_milliseconds, -1),
        "olpb.fig11.rises": _rises,
        **{
            f"olpb.fig11.slower.{model}": partial(_rises_slower, model)
            for model in ("squeezenet", "vgg16")
        },
    },
    causes={
        "olpb.fig11.slower.vgg16": Cause(
            "data",
            "VGG-16 computes for most of the time, so that all times rise by little. Which rises "
            f"least turns on {_BIASED}: where sums and reshapes take no time of their own it is "
            "OLPB's, at both levels",
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
        "olpb.fig12.batch": _batch,
        "olpb.fig12.scan": _either_scan,
        "olpb.fig12.faster": _faster_scan,
    },
    at_paper=_at_paper(
        "batch_size",
        _FIG12["batch_sizes"],
        nodes=_FIG12["nodes"],
        delay_factor=_FIG12["delay_factor"],
    ),
)
