"""Figs. 5 to 9: what planning saves by the cost model, on the paper's testbed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import altair as alt
import polars as pl

from workbench.dynacomm.costs import Iteration, Phase, Plan, iteration
from workbench.dynacomm.paper.testbed import BANDWIDTH_MBPS, MODELS, WORKERS, saved_percent, variant
from workbench.dynacomm.paper.titles import (
    MODEL_TITLES,
    PARTS,
    bars_of_parts,
    held,
    line_order,
    model_title,
    titled,
)
from workbench.dynacomm.planners import PLANNERS
from workbench.figures import parts
from workbench.reproduction.claims import Answer, Cause, paper_value, paper_values, tolerance
from workbench.reproduction.figure import Answering, Figure, JointClaims, at
from workbench.reproduction.scales import Scaled

COMPARED = ("dynacomm", "ibatch", "layer_by_layer")
"""Strategies that the paper compares, beside the sequential one."""


def saved_times(
    direction: str,
    model: str | Iterable[str] = MODELS,
    batch_size: int | Iterable[int] = 32,
    bandwidth_mbps: float | Iterable[float] = BANDWIDTH_MBPS,
    workers: int = WORKERS,
) -> pl.DataFrame:
    """A direction of an iteration, or ``"iteration"``, by planner, as parts of the sequential time.

    Models, batch sizes and bandwidths may be several; repeated ones count once. A row per case and
    planner: the setting, ``transmissions``, ``computation_alone_s``, ``overlap_s``,
    ``communication_alone_s``, ``total_s``, ``normalised`` (over the sequential total) and
    ``reduced_percent``, as `saved_percent`.
    """
    rows = []
    for mbps, size, name in product(_each(bandwidth_mbps), _each(batch_size), _each(model)):
        costs = variant(workers, mbps).costs(name, size)
        plans = {planner: plan(costs) for planner, plan in PLANNERS.items()}
        done = {planner: iteration(costs, plan) for planner, plan in plans.items()}
        sequential = done["sequential"]
        for planner, own in done.items():
            phase, whole = _phase(own, direction), _phase(sequential, direction)
            row = {
                "model": name,
                "batch_size": size,
                "bandwidth_mbps": mbps,
                "workers": workers,
                "direction": direction,
                "planner": planner,
                "transmissions": _transmissions(plans[planner], direction),
                **{part: getattr(phase, part) for part in PARTS},
                "total_s": phase.total_s,
                "normalised": phase.total_s / whole.total_s,
                "reduced_percent": saved_percent(own, sequential)[direction],
            }
            rows.append(row)
    return pl.DataFrame(rows)


def _each(values: Any) -> Iterable[Any]:
    return [values] if isinstance(values, str | float | int) else dict.fromkeys(values)


def _phase(done: Iteration, direction: str) -> Phase:
    return {"forward": done.forward, "backward": done.backward, "iteration": done.both}[direction]


def _transmissions(plan: Plan, direction: str) -> int:
    counts = {"forward": len(plan.forward_cuts) + 1, "backward": len(plan.backward_cuts) + 1}
    return counts[direction] if direction in counts else sum(counts.values())


def draw_direction(frame: pl.DataFrame) -> alt.FacetChart:
    """Stacked bars of one direction: parts of the time, over the sequential time."""
    drawn = _with_paper(frame).with_columns(
        pl.col(*PARTS) / pl.col("total_s") * pl.col("normalised"),
        paper=1 - pl.col("paper") / 100,
    )
    title = [
        f"{frame['direction'][0].capitalize()} propagation: what overlaps",
        held(frame, "batch_size", "bandwidth_mbps", "workers"),
        *parts.rings_title(drawn),
    ]
    x = alt.X("normalised:Q", title="time over sequential", axis=alt.Axis(tickCount=5))
    bars = bars_of_parts(drawn, x, "normalised").properties(height=85)
    rings = parts.paper_rings(alt.Chart(bars.data).encode(y=bars.encoding.y), x="paper:Q")
    return parts.facets(bars + rings, "model", list(MODEL_TITLES.values()), title)


def _with_paper(frame: pl.DataFrame) -> pl.DataFrame:
    """Add ``paper``: by what percent the paper reduces a direction's time at its own setting."""
    direction = {"forward": "fwd", "backward": "bwd"}[frame["direction"][0]]
    stated = paper_values(f"dynacomm.{direction}{{batch_size}}.{{model}}.{{planner}}")
    keys = ["batch_size", "model", "planner"]
    joined = frame.join(stated.cast({"batch_size": pl.Int64}), on=keys, how="left")
    is_paper = (pl.col("bandwidth_mbps") == BANDWIDTH_MBPS) & (pl.col("workers") == WORKERS)
    return joined.with_columns(pl.when(is_paper).then("paper"))


def draw_by_batch_size(frame: pl.DataFrame) -> alt.LayerChart:
    """Reduction of the iteration time against batch size."""
    x = alt.X("batch_size:Q", title="batch size of a worker")
    lines = _reduction(frame, x, "batch size", held(frame, "bandwidth_mbps", "workers"))
    stated = paper_values("dynacomm.fig9a.peak_batch")
    drawn = stated if len(FIG9A.at_paper(frame)) else stated.clear()
    lines.title = [
        *lines.title,
        *parts.rings_title(drawn, "from where on less is saved, by the paper"),
    ]
    ring = parts.paper_rings(alt.Chart(drawn), x="paper:Q", y=alt.value("height"))
    return alt.LayerChart(layer=[lines, ring])


def draw_by_bandwidth(frame: pl.DataFrame) -> alt.Chart:
    """Reduction of the iteration time against bandwidth."""
    gigabits = frame.with_columns(pl.col("bandwidth_mbps") / 1e3)
    x = alt.X("bandwidth_mbps:Q", title="bandwidth in Gbit/s")
    return _reduction(gigabits, x, "bandwidth", held(frame, "batch_size", "workers"))


def _reduction(frame: pl.DataFrame, x: alt.X, by: str, setting: str) -> alt.Chart:
    drawn = frame.filter(pl.col("planner") != "sequential")
    y = alt.Y("reduced_percent:Q", title="saved, %, mean of both directions")
    title = [f"{model_title(frame)}: iteration time saved by {by}", setting]
    return parts.lines(titled(drawn), x, y, "planner", line_order(drawn), height=200, title=title)


def _reduced(frame: pl.DataFrame, **case: object) -> Answer | None:
    rows = frame.filter(**case)
    return Answer(rows["reduced_percent"].item(), "cost model") if len(rows) else None


def _never_slower(*frames: pl.DataFrame) -> Answer | None:
    bars = pl.concat(frames).filter(pl.col("batch_size").is_in([16, 32]))
    fastest = bars.group_by("model", "batch_size", "direction").agg(
        best_s=pl.col("total_s").min(),
        ours_s=pl.col("total_s").filter(pl.col("planner") == "dynacomm").first(),
    )
    if len(fastest) < len(MODELS) * 4:
        return None
    slower = fastest.filter(pl.col("ours_s") > pl.col("best_s") * (1 + 1e-9))
    return Answer(slower.is_empty(), f"slower in {len(slower)} of {len(fastest)} cases, cost model")


def _ibatch(model: str, frame: pl.DataFrame, *, slower: bool) -> Answer | None:
    """Whether iBatch takes longer than sending layer by layer, or less time."""
    forward = frame.filter(model=model, batch_size=32)
    total_s = dict(forward.select("planner", "total_s").iter_rows())
    if not total_s.keys() >= {"ibatch", "layer_by_layer"}:
        return None
    ibatch_s, layers_s = total_s["ibatch"], total_s["layer_by_layer"]
    detail = f"iBatch {ibatch_s:.2f} s, layer by layer {layers_s:.2f} s, cost model"
    return Answer(ibatch_s > layers_s if slower else ibatch_s < layers_s, detail)


def _alike(models: Sequence[str], frame: pl.DataFrame) -> Answer | None:
    """Whether all planners of the paper save alike on each of these models."""
    known = frame.filter(pl.col("model").is_in(models), batch_size=32)
    if known["model"].n_unique() < len(models):
        return None
    saved = known.pivot("planner", index="model", values="reduced_percent")
    percents = {model: own for model, *own in saved.select("model", *COMPARED).iter_rows()}
    alike = all(
        max(percents[model]) - min(percents[model]) <= tolerance("percent", max(percents[model]))
        for model in models
    )
    spread = {model: max(own) - min(own) for model, own in percents.items()}
    widest = max(spread, key=spread.__getitem__)
    ours = "/".join(f"{percent:.1f}" for percent in percents[widest])
    planners = "DynaComm, iBatch, layer by layer"
    return Answer(alike, f"{planners}: {ours} % on {MODEL_TITLES[widest]}, cost model")


def _by_model(frame: pl.DataFrame, planner: str, value: pl.Expr) -> dict[str, float]:
    rows = frame.filter(planner=planner).select("model", value=value)
    return dict(rows.iter_rows())


def _of_all(holds: Iterable[bool], told: str) -> Answer | None:
    """Whether something holds for each of the paper's models; None if one is missing."""
    each = list(holds)
    if len(each) < len(MODELS):
        return None
    return Answer(all(each), f"{told} on {sum(each)} of {len(each)} models, cost model")


def _dominates(frame: pl.DataFrame) -> Answer | None:
    """Whether communication takes longer than computation on VGG-19, and not on GoogLeNet."""
    alone = pl.col("communication_alone_s") / pl.col("computation_alone_s")
    ratios = _by_model(frame, "sequential", alone)
    if not ratios.keys() >= {"vgg19", "googlenet"}:
        return None
    vgg19, googlenet = ratios["vgg19"], ratios["googlenet"]
    detail = f"communication over computation {vgg19:.2f} and {googlenet:.2f}, cost model"
    return Answer(vgg19 > 1 > googlenet, detail)


_UNHIDDEN = pl.col("communication_alone_s") / (
    pl.col("communication_alone_s") + pl.col("overlap_s")
)
"""Share of communication that nothing overlaps."""


def _hidden(frame: pl.DataFrame) -> Answer | None:
    """Whether DynaComm overlaps almost all communication, up to near's tenth."""
    shares = _by_model(frame, "dynacomm", _UNHIDDEN).values()
    return _of_all((share <= 0.1 for share in shares), "nine tenths overlap")


def _more_unhidden(halved: pl.DataFrame, whole: pl.DataFrame) -> Answer | None:
    """Whether more of DynaComm's communication stays unhidden when the batch is halved."""
    more, less = (_by_model(frame, "dynacomm", _UNHIDDEN) for frame in (halved, whole))
    return _of_all((more[model] > less[model] for model in more if model in less), "more")


def _sends_most(frame: pl.DataFrame) -> Answer | None:
    """Whether sending layer by layer takes more transmissions than the other two."""
    counts = frame.pivot("planner", index="model", values="transmissions").select(COMPARED)
    most = (layers > max(ours, ibatch) for ours, ibatch, layers in counts.iter_rows())
    return _of_all(most, "more")


def _more_in_backward(
    planner: str, value: str, forward: pl.DataFrame, backward: pl.DataFrame
) -> Answer | None:
    """Whether a value of a planner is larger backward than forward."""
    less, more = (_by_model(frame, planner, pl.col(value)) for frame in (forward, backward))
    return _of_all((more[model] > less[model] for model in more if model in less), "more")


def _percents(frame: pl.DataFrame, field: str) -> pl.DataFrame:
    return frame.pivot(on="planner", index=field, values="reduced_percent").sort(field)


def _end_of_plateau(frame: pl.DataFrame) -> Answer:
    """The largest batch size at which DynaComm saves as much as anywhere, to half a point."""
    saved = _percents(frame, "batch_size")
    best = max(saved["dynacomm"].to_list())
    level = saved.filter(pl.col("dynacomm") >= best - 0.5)["batch_size"]
    swept = f"{saved['batch_size'][0]} to {saved['batch_size'][-1]}"
    return Answer(level[-1], f"level from {level[0]} on, at {best:.1f} %, swept from {swept}")


def _ibatch_below(frame: pl.DataFrame) -> Answer | None:
    above = _percents(frame, "batch_size").filter(pl.col("batch_size") > 48)
    if above.is_empty():
        return None
    wrong = above.filter(pl.col("ibatch") >= pl.col("layer_by_layer"))
    detail = f"at {len(above) - len(wrong)} of {len(above)} batch sizes above 48, cost model"
    return Answer(wrong.is_empty(), detail)


def _above_layers(frame: pl.DataFrame) -> Answer | None:
    """Whether DynaComm and iBatch save more than layer by layer up to the stated batch size."""
    peak = paper_value("dynacomm.fig9a.peak_batch")
    small = _percents(frame, "batch_size").filter(pl.col("batch_size") <= peak)
    if small.is_empty():
        return None
    both = pl.min_horizontal("dynacomm", "ibatch")
    above = small.filter(both > pl.col("layer_by_layer"))
    detail = f"at {len(above)} of {len(small)} batch sizes up to {peak:g}, cost model"
    return Answer(len(above) == len(small), detail)


def _bandwidths(frame: pl.DataFrame) -> Answer | None:
    if (rows := _stated_bandwidths(frame, "reduced_percent")) is None:
        return None
    low, middle, high = rows
    holds = all(middle[name] > high[name] > low[name] for name in ("dynacomm", "ibatch"))
    ours = ", ".join(f"{row['dynacomm']:.1f}" for row in (low, middle, high))
    return Answer(holds, f"DynaComm {ours} % at 1, 5, 10 Gbit/s, cost model")


def _stated_bandwidths(frame: pl.DataFrame, value: str) -> list[dict[str, float]] | None:
    """A value by planner at the three bandwidths that the paper speaks of."""
    by_mbps = frame.pivot(on="planner", index="bandwidth_mbps", values=value)
    rows = {row["bandwidth_mbps"]: row for row in by_mbps.to_dicts()}
    stated = (1000, 5000, 10_000)
    return [rows[mbps] for mbps in stated] if rows.keys() >= set(stated) else None


def _least_when_slow(frame: pl.DataFrame) -> Answer | None:
    """Whether each strategy saves least at the lowest bandwidth."""
    if (rows := _stated_bandwidths(frame, "reduced_percent")) is None:
        return None
    low, *higher = rows
    holds = all(low[name] < row[name] for name in COMPARED for row in higher)
    ours = ", ".join("/".join(f"{row[name]:.1f}" for row in rows) for name in COMPARED)
    detail = f"DynaComm, iBatch, layer by layer {ours} % at 1/5/10 Gbit/s, cost model"
    return Answer(holds, detail)


def _faster_link(frame: pl.DataFrame) -> Answer | None:
    """Whether DynaComm's iteration is shorter at 10 than at 5 Gbit/s."""
    if (rows := _stated_bandwidths(frame, "total_s")) is None:
        return None
    _, middle_s, high_s = (row["dynacomm"] for row in rows)
    return Answer(high_s < middle_s, f"{middle_s:.2f} and {high_s:.2f} s, cost model")


def _reductions(
    part: str, batch_size: int, cases: Iterable[tuple[str, str]]
) -> dict[str, Answering]:
    """Answers to the claims on a direction at a batch size, by model and planner."""
    return {
        f"dynacomm.{part}{batch_size}.{model}.{planner}": partial(
            _reduced, model=model, planner=planner, batch_size=batch_size
        )
        for model, planner in cases
    }


_OURS = [(model, "dynacomm") for model in MODELS]
_COMPARED = [
    (model, planner) for model in ("vgg19", "inception_v4", "resnet152") for planner in COMPARED
]


def _direction(
    id: str,
    direction: str,
    batch_size: int,
    answers: Mapping[str, Answering],
    causes: Mapping[str, Cause] | None = None,
) -> Figure:
    return Figure(
        id=id,
        compute=partial(saved_times, direction, batch_size=batch_size),
        chart=draw_direction,
        answers=answers,
        causes=causes or {},
        at_paper=at(bandwidth_mbps=BANDWIDTH_MBPS, workers=WORKERS, batch_size=batch_size),
    )


FIG5 = _direction(
    "fig5",
    "forward",
    32,
    {
        **_reductions("fwd", 32, _COMPARED),
        "dynacomm.order.ibatch_inception": partial(_ibatch, "inception_v4", slower=True),
        "dynacomm.order.ibatch_resnet": partial(_ibatch, "resnet152", slower=False),
        "dynacomm.order.googlenet_fwd32": partial(_alike, ("vgg19", "googlenet")),
        "dynacomm.order.dominates": _dominates,
    },
    {
        "dynacomm.order.googlenet_fwd32": Cause(
            "data",
            "how long GoogLeNet computes forward and backward, apart, is not printed; at the ratio "
            "fitted for all models, pulling layer by layer takes longer than its forward "
            "computation. Were backward hardly longer than forward, all would save alike",
        ),
        "dynacomm.fwd32.inception_v4.ibatch": Cause(
            "data",
            "iBatch's cuts follow from the measured times of layers, which the paper does not "
            "print; with FLOPs in their place its best single cut hides more than the paper's",
        ),
    },
)

FIG6 = _direction(
    "fig6",
    "backward",
    32,
    {
        **_reductions(
            "bwd", 32, [*_COMPARED[:3], ("inception_v4", "dynacomm"), ("resnet152", "dynacomm")]
        ),
        "dynacomm.order.googlenet_bwd32": partial(_alike, ("vgg19", "googlenet")),
        "dynacomm.order.bwd32_close": partial(_alike, MODELS),
        "dynacomm.order.bwd32_hidden": _hidden,
        "dynacomm.order.bwd32_transmissions": _sends_most,
    },
)

FIG7 = _direction("fig7", "forward", 16, _reductions("fwd", 16, _OURS))

FIG8 = _direction("fig8", "backward", 16, _reductions("bwd", 16, _OURS))

ITERATIONS = Figure(
    id="iterations",
    compute=partial(saved_times, "iteration", batch_size=(32, 16)),
    answers={**_reductions("iter", 32, _OURS), **_reductions("iter", 16, _OURS)},
    at_paper=at(bandwidth_mbps=BANDWIDTH_MBPS, workers=WORKERS),
)

FIG9A = Figure(
    id="fig9a",
    compute=partial(saved_times, "iteration", model="resnet152"),
    chart=draw_by_batch_size,
    sizes={
        "batch_size": Scaled(
            smoke=(8, 16, 24, 32, 64), default=tuple(range(4, 65, 2)), paper=tuple(range(1, 65))
        )
    },
    answers={
        "dynacomm.fig9a.peak_batch": _end_of_plateau,
        "dynacomm.fig9a.above_lbl": _above_layers,
        "dynacomm.fig9a.ibatch_below_lbl": _ibatch_below,
    },
    at_paper=at(bandwidth_mbps=BANDWIDTH_MBPS, workers=WORKERS, model="resnet152"),
    recorded=True,
    live=True,
)

FIG9B = Figure(
    id="fig9b",
    compute=partial(
        saved_times, "iteration", model="resnet152", bandwidth_mbps=range(1000, 10_001, 1000)
    ),
    chart=draw_by_bandwidth,
    answers={
        "dynacomm.fig9b.shape": _bandwidths,
        "dynacomm.fig9b.slow": _least_when_slow,
        "dynacomm.fig9b.iteration": _faster_link,
    },
    at_paper=at(workers=WORKERS, model="resnet152", batch_size=32),
)

NEVER_SLOWER = JointClaims(
    (FIG5, FIG6, FIG7, FIG8), answers={"dynacomm.order.optimal": _never_slower}
)

HALVED = JointClaims((FIG7, FIG5), answers={"dynacomm.order.fwd16_unhidden": _more_unhidden})

BACKWARD = JointClaims(
    (FIG7, FIG8),
    answers={
        "dynacomm.order.backward_longer": partial(
            _more_in_backward, "sequential", "computation_alone_s"
        ),
        "dynacomm.order.bwd16_more": partial(_more_in_backward, "dynacomm", "reduced_percent"),
    },
)
