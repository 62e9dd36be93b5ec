"""The paper's figures and tables as charts: one function each, frame to altair chart."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import polars as pl

from workbench import datasets, figures
from workbench.dynacomm.costs.iteration import Iteration
from workbench.dynacomm.replanning.planning import EPOCH
from workbench.figures import parts

# Titles of planners and models, in the order in which they are drawn.
PLANNER_TITLES = {
    "sequential": "Sequential",
    "layer_by_layer": "Layer-by-layer",
    "ibatch": "iBatch",
    "mg_wfbp": "MG-WFBP",
    "dynacomm": "DynaComm",
}
# Order of lines, so that a planner keeps its colour where the sequential one is left out.
_LINES = ("dynacomm", "ibatch", "layer_by_layer", "mg_wfbp")
MODEL_TITLES = {
    "vgg19": "VGG-19",
    "googlenet": "GoogLeNet",
    "inception_v4": "Inception-v4",
    "resnet152": "ResNet-152",
    "lenet5_cifar": "LeNet-5",
    "resnet20_cifar": "ResNet-20",
}
PARTS = {
    "computation_alone_s": "computation alone",
    "overlap_s": "overlap",
    "communication_alone_s": "communication alone",
}
SOLVER_TITLES = {
    "paper_programme": "the paper's programme",
    "dynacomm": "ours, same optimum",
    "ibatch": "iBatch",
}


def fig5(frame: pl.DataFrame) -> alt.FacetChart:
    """Stacked bars of one direction: parts of the time, over the sequential time."""
    subject = f"{frame['direction'][0].capitalize()} propagation: what overlaps"
    title = [subject, _held(frame, "batch_size", "bandwidth_mbps", "workers")]
    share = pl.col("seconds") / pl.col("total_s") * pl.col("normalised")
    bars = (
        alt.Chart(_long(frame).with_columns(normalised=share))
        .mark_bar()
        .encode(
            y=alt.Y("planner:N", sort=_present(frame), title=None),
            x=alt.X("normalised:Q", title="time over sequential", axis=alt.Axis(tickCount=5)),
            **_part_colours(),
        )
        .properties(height=85)
    )
    return parts.facets(bars, "model", list(MODEL_TITLES.values()), title)


fig6 = fig7 = fig8 = fig5


def fig9a(frame: pl.DataFrame) -> alt.Chart:
    """Reduction of the iteration time against batch size."""
    return _reduction(frame, "batch_size", "batch size of a worker").properties(
        title=[
            f"{_model(frame)}: iteration time saved by batch size",
            _held(frame, "bandwidth_mbps", "workers"),
        ]
    )


def fig9b(frame: pl.DataFrame) -> alt.Chart:
    """Reduction of the iteration time against bandwidth."""
    gigabits = frame.with_columns(pl.col("bandwidth_mbps") / 1e3)
    return _reduction(gigabits, "bandwidth_mbps", "bandwidth in Gbit/s").properties(
        title=[
            f"{_model(frame)}: iteration time saved by bandwidth",
            _held(frame, "batch_size", "workers"),
        ]
    )


def fig10(frame: pl.DataFrame) -> alt.FacetChart:
    """Accuracy by epoch: DynaComm's points on the sequential plan's lines."""
    names = {
        "train_top1": "training, top-1",
        "train_top5": "training, top-5",
        "top1": "validation, top-1",
        "top5": "validation, top-5",
    }
    ended, left_out = parts.trained(frame)
    drawn = (
        _titled(ended)
        .unpivot(on=list(names), index=["planner", "epoch"], variable_name="measure")
        .with_columns(pl.col("measure").replace_strict(names), percent=pl.col("value") * 100)
    )
    planners = [PLANNER_TITLES[name] for name in ("sequential", "dynacomm")]
    base = alt.Chart(drawn).encode(
        x=alt.X("epoch:Q", axis=alt.Axis(tickMinStep=1, format="d")),
        y=parts.accuracy("accuracy, %"),
        color=parts.colour("planner", planners),
    )
    sequential = base.mark_line(strokeWidth=3).transform_filter(
        alt.datum.planner == PLANNER_TITLES["sequential"]
    )
    ours = base.mark_point(filled=True, size=40).transform_filter(
        alt.datum.planner == PLANNER_TITLES["dynacomm"]
    )
    panel = alt.layer(sequential, ours).properties(height=110)
    return parts.facets(panel, "measure", list(names.values()), _trained_title(ended, *left_out))


def _trained_title(frame: pl.DataFrame, *more: str) -> list[str]:
    run = frame.row(0, named=True)
    model = MODEL_TITLES.get(run["model"], run["model"])
    data = datasets.title(run["dataset"])
    workers = f"{run['workers']} workers (simulated)"
    ends = frame.sort("epoch").group_by("planner", maintain_order=True).last()
    farthest = ends.sort(pl.col("difference_percent").abs())["difference_percent"][-1]
    off = f"ends up to {parts.signed_percent(farthest)} off the cost model"
    return [f"{model} on {data}", parts.samples(frame), workers, off, *more]


def fig11(frame: pl.DataFrame) -> alt.LayerChart:
    """Training speed against the number of workers."""
    lines = (
        alt.Chart(_titled(frame))
        .mark_line(point=True)
        .encode(
            x=alt.X("workers:Q", title="workers", axis=alt.Axis(tickMinStep=1, format="d")),
            y=alt.Y("speedup:Q", title="speed-up over one worker without a network"),
            **figures.series("planner", _line_order(frame)),
        )
        .properties(
            height=220,
            title=[
                f"{_model(frame)}: speed-up by number of workers",
                _held(frame, "batch_size", "bandwidth_mbps"),
            ],
        )
    )
    most = int(frame["workers"].max())  # type: ignore[arg-type]
    ideal = (
        alt.Chart(pl.DataFrame({"workers": [0], "speedup": [0], "to": [most]}))
        .mark_rule(color=parts.GREY)
        .encode(x="workers:Q", y="speedup:Q", x2="to:Q", y2="to:Q")
    )
    return ideal + lines


def fig12(frame: pl.DataFrame) -> alt.FacetChart:
    """Time to plan against the number of layers, both axes logarithmic."""
    drawn = frame.with_columns(pl.col("solver").replace_strict(SOLVER_TITLES))
    return (
        alt.Chart(drawn)
        .mark_line(point=True)
        .encode(
            x=alt.X(
                "layers:Q",
                scale=alt.Scale(type="log", nice=False, padding=8),
                title="layers",
                axis=alt.Axis(values=frame["layers"].unique().sort().to_list(), format="d"),
            ),
            y=alt.Y(**parts.log_axis("median_ms", "ms to plan, this machine")),
            **figures.series("solver", list(SOLVER_TITLES.values())),
        )
        .properties(height=200)
        .facet(
            column=alt.Column("direction:N", sort=["forward", "backward"], title=None),
            title="Time to plan random chains",
            spacing=parts.APART_PX,
        )
    )


def table1(frame: pl.DataFrame) -> alt.FacetChart:
    """Time to plan against the window in which it is hidden (the grey rule)."""
    drawn = frame.with_columns(
        pl.col("model").replace_strict(MODEL_TITLES),
        pl.col("planner").replace_strict(PLANNER_TITLES),
        low_ms=pl.max_horizontal(pl.col("mean_ms") - pl.col("deviation_ms"), pl.col("mean_ms") / 2),
        high_ms=pl.col("mean_ms") + pl.col("deviation_ms"),
    )
    models = alt.Y("model:N", sort=list(MODEL_TITLES.values()), title=None)
    order = ["DynaComm", "iBatch"]
    base = alt.Chart(drawn).encode(y=models)
    time = alt.X("mean_ms:Q", scale=alt.Scale(type="log"), title="ms to plan, this machine")
    points = base.mark_point(filled=True, size=55).encode(
        x=time,
        color=parts.colour("planner", order),
        shape=parts.shape("planner", order),
        yOffset=alt.YOffset("planner:N", sort=order),
    )
    spread = base.mark_rule().encode(
        x="low_ms:Q", x2="high_ms:Q", yOffset=alt.YOffset("planner:N", sort=order)
    )
    window = base.mark_tick(color=parts.GREY, thickness=2).encode(x="window_ms:Q")
    return (
        alt.layer(window, spread, points)
        .properties(height=110)
        .facet(
            row=alt.Row("direction:N", sort=["forward", "backward"], title=None),
            title=["Time to plan", "grey: the idle window, by the cost model"],
        )
    )


def explanations(frame: pl.DataFrame) -> alt.FacetChart:
    """Every claim's error under each explanation of the open constants."""
    titles = {name: name.replace("_", " ") for name in frame["explanation"].unique()}
    return (
        alt.Chart(frame.with_columns(pl.col("explanation").replace(titles)))
        .mark_tick(thickness=1.5)
        .encode(
            x=alt.X("error_points:Q", title="ours minus the paper's, percentage points"),
            y=alt.Y(
                "explanation:N",
                sort=[titles[name] for name in frame["explanation"].unique(maintain_order=True)],
                title=None,
            ),
            color=alt.Color("role:N", scale=alt.Scale(range=figures.PALETTE[:2]), legend=None),
        )
        .properties(height=90)
        .facet(
            column=alt.Column("role:N", title=None),
            spacing=parts.APART_PX,
            title=["How far each explanation is from the paper's numbers", "(cost model)"],
        )
    )


def iteration_parts(done: Mapping[str, Iteration]) -> alt.Chart:
    """Whole iterations, a bar per planner, in seconds."""
    rows = [
        {"planner": name, **{part: getattr(one.iteration, part) for part in PARTS}}
        for name, one in done.items()
    ]
    table = pl.DataFrame(rows)
    longest_s = max(one.total_s for one in done.values())
    return (
        alt.Chart(_long(table))
        .mark_bar()
        .encode(
            y=alt.Y("planner:N", sort=_present(table), title=None),
            x=alt.X(
                "seconds:Q", title="seconds an iteration", scale=alt.Scale(domain=[0, longest_s])
            ),
            **_part_colours(),
        )
        .properties(height=110)
    )


def _long(frame: pl.DataFrame) -> pl.DataFrame:
    """A row per part of the time instead of a column, all else repeated."""
    return (
        _titled(frame)
        .unpivot(
            on=list(PARTS),
            index=[column for column in frame.columns if column not in PARTS],
            variable_name="part",
            value_name="seconds",
        )
        .with_columns(
            part=pl.col("part").replace_strict(PARTS),
            order=pl.col("part").replace_strict({part: i for i, part in enumerate(PARTS)}),
        )
    )


def _part_colours() -> dict[str, object]:
    names = list(PARTS.values())
    return {
        "color": parts.colour("part", names),
        "order": alt.Order("order:Q"),
    }


def _reduction(frame: pl.DataFrame, field: str, title: str) -> alt.Chart:
    planners = [title for title in _line_order(frame) if title != PLANNER_TITLES["sequential"]]
    return (
        alt.Chart(_titled(frame.filter(pl.col("planner") != "sequential")))
        .mark_line(point=True)
        .encode(
            x=alt.X(f"{field}:Q", title=title),
            y=alt.Y("reduced_percent:Q", title="iteration time saved, %"),
            **figures.series("planner", planners),
        )
        .properties(height=200)
    )


def _model(frame: pl.DataFrame) -> str:
    return MODEL_TITLES.get(frame["model"][0], frame["model"][0])


def _held(frame: pl.DataFrame, *fields: str) -> str:
    """What is held constant, and where the numbers come from."""
    setting = frame.row(0, named=True)
    forms = {
        "batch_size": "batch {:g}",
        "bandwidth_mbps": "{:g} Mbit/s",
        "workers": "{:g} workers",
    }
    return ", ".join(forms[field].format(setting[field]) for field in fields) + " (cost model)"


def _titled(frame: pl.DataFrame) -> pl.DataFrame:
    return parts.titled(frame, model=MODEL_TITLES, planner=PLANNER_TITLES)


def _present(frame: pl.DataFrame) -> list[str]:
    return parts.present(frame["planner"], PLANNER_TITLES)


def _line_order(frame: pl.DataFrame) -> list[str]:
    """Titles of the planners in a frame, in the order of lines, the sequential one last."""
    first = [PLANNER_TITLES[name] for name in _LINES]
    present = _present(frame)
    last = [title for title in present if title == PLANNER_TITLES["sequential"]]
    between = [title for title in present if title not in (*first, *last)]
    return [title for title in first if title in present] + between + last


SCENARIO_TITLES = {
    "step": "step down to a half",
    "sawtooth": "sawtooth",
    "mobile": "mobile-like (synthetic)",
}


def policy_titles(frame: pl.DataFrame) -> dict[str, str]:
    """Policies of a frame of `simulations.replanning`, by how often they plan in it."""
    every = dict(frame.select("policy", "planned_every").unique(maintain_order=True).iter_rows())
    titles = {
        "static": "planned once",
        "per_epoch": f"every {every.get('per_epoch')} iterations",
        "per_iteration": "every iteration",
        "clairvoyant": "clairvoyant",
    }
    return {policy: title for policy, title in titles.items() if policy in every}


def replanning(frame: pl.DataFrame) -> alt.FacetChart:
    """Iteration time by policy while the bandwidth changes, a row per scenario."""
    encoded = figures.series("policy", list(policy_titles(frame).values()))
    del encoded["shape"]  # a point for each iteration would hide the lines
    lines = (
        alt.Chart(_policies_titled(frame))
        .mark_line(interpolate="step-after", strokeWidth=1.2)
        .encode(
            x=alt.X("start_s:Q", title="virtual seconds", axis=alt.Axis(format="d")),
            y=alt.Y("duration_s:Q", title="iteration, s", scale=alt.Scale(zero=False)),
            **encoded,
        )
        .properties(height=110)
    )
    found = _by_scenario(lines, frame, "iterations while the bandwidth changes")
    return found.resolve_scale(y="independent")


def replanning_gains(frame: pl.DataFrame) -> alt.FacetChart:
    """Time that each policy saves over planning once, a row per scenario."""
    policies = [title for name, title in policy_titles(frame).items() if name != "static"]
    bars = (
        alt.Chart(_policies_titled(frame.filter(pl.col("policy") != "static")))
        .mark_bar()
        .encode(
            x=alt.X("gain_percent:Q", title="training time saved, %"),
            y=alt.Y("policy:N", sort=policies, title=None),
            color=parts.colour("policy", policies, skip=1, legend=None),
        )
        .properties(height=54)
    )
    return _by_scenario(bars, frame, "time saved by planning again")


def _by_scenario(chart: alt.Chart, frame: pl.DataFrame, subject: str) -> alt.FacetChart:
    """A row for each scenario; the title says how long an epoch is, beside the paper's."""
    iterations = frame["epoch_iterations"][0]
    beside = ", as in the paper" if iterations == EPOCH else f" (the paper: {EPOCH})"
    return chart.facet(
        facet=alt.Facet("scenario:N", sort=list(SCENARIO_TITLES.values()), title=None),
        columns=1,
        title=[
            f"{_model(frame)}: {subject}",
            _simulated(frame, "one worker, one server"),
            f"an epoch is {iterations} iterations{beside}",
        ],
    )


def fig11_simulated(frame: pl.DataFrame) -> alt.FacetChart:
    """Training speed against the number of workers: simulated lines, the cost model's points."""
    encoded = figures.series("planner", _line_order(frame))
    slowest = min(frame["slowest"].to_list())
    cases = {"equal": "equal workers", "unequal": f"unequal, speeds 1 to {slowest:g}"}
    drawn = _titled(frame).with_columns(pl.col("case").replace_strict(cases))
    base = alt.Chart(drawn).encode(
        x=alt.X("workers:Q", title="workers", axis=alt.Axis(tickMinStep=1, format="d")),
        color=encoded["color"],
    )
    simulated = base.mark_line().encode(
        y=alt.Y("speedup:Q", title="speed-up over one worker alone"),
        strokeDash=encoded["strokeDash"],
    )
    predicted = base.mark_point(size=40).encode(y="predicted_speedup:Q", shape=encoded["shape"])
    farthest = frame.sort(pl.col("difference_percent").abs())["difference_percent"][-1]
    title = [
        f"{_model(frame)}: speed-up by number of workers",
        _simulated(
            frame,
            f"{frame['bandwidth_mbps'][0]:g} Mbit/s",
            "lines simulated, points cost model",
        ),
        f"up to {parts.signed_percent(farthest)} off the model",
    ]
    return (
        alt.layer(simulated, predicted)
        .properties(height=190)
        .facet(
            column=alt.Column("case:N", sort=list(cases.values()), title=None),
            title=title,
            spacing=parts.APART_PX,
        )
    )


def _simulated(frame: pl.DataFrame, *about: str) -> str:
    line = ", ".join([f"batch {frame['batch_size'][0]}", *about])
    return line if "simulated" in line else f"{line} (simulated)"


def _policies_titled(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(
        pl.col("policy").replace_strict(policy_titles(frame)),
        pl.col("scenario").replace_strict(SCENARIO_TITLES),
    )
