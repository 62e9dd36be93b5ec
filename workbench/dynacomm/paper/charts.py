"""The paper's figures and tables as charts: one function each, frame to altair chart."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import altair as alt
import polars as pl

from workbench import figures
from workbench.dynacomm.costs.iteration import Iteration
from workbench.dynacomm.replanning.planning import EPOCH

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
    "resnet20_cifar": "ResNet-20",
}
DATASET_TITLES = {
    "digits": "digits",
    "mnist": "MNIST",
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
}
_APART_PX = 24  # between facets, so that the axes' outermost labels stay apart
_TITLE_CHARACTERS = 46  # of a line that a single column has room for

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
    title = _title(
        frame,
        "batch_size",
        "bandwidth_mbps",
        "workers",
        subject=f"{frame['direction'][0].capitalize()} propagation",
    )
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
    return bars.facet(
        facet=alt.Facet("model:N", sort=list(MODEL_TITLES.values()), title=None),
        columns=2,
        title=title,
        spacing=_APART_PX,
    )


fig6 = fig7 = fig8 = fig5


def fig9a(frame: pl.DataFrame) -> alt.Chart:
    """Reduction of the iteration time against batch size."""
    return _reduction(frame, "batch_size", "batch size of a worker").properties(
        title=_title(frame, "bandwidth_mbps", "workers")
    )


def fig9b(frame: pl.DataFrame) -> alt.Chart:
    """Reduction of the iteration time against bandwidth."""
    gigabits = frame.with_columns(pl.col("bandwidth_mbps") / 1e3)
    return _reduction(gigabits, "bandwidth_mbps", "bandwidth in Gbit/s").properties(
        title=_title(frame, "batch_size", "workers")
    )


def fig10(frame: pl.DataFrame) -> alt.FacetChart:
    """Accuracy by epoch: DynaComm's points on the sequential plan's lines."""
    names = {
        "train_top1": "training, top-1",
        "train_top5": "training, top-5",
        "top1": "validation, top-1",
        "top5": "validation, top-5",
    }
    drawn = (
        _titled(frame)
        .unpivot(on=list(names), index=["planner", "epoch"], variable_name="measure")
        .with_columns(pl.col("measure").replace_strict(names), percent=pl.col("value") * 100)
    )
    planners = [PLANNER_TITLES[name] for name in ("sequential", "dynacomm")]
    base = alt.Chart(drawn).encode(
        x=alt.X("epoch:Q", axis=alt.Axis(tickMinStep=1, format="d")),
        y=alt.Y("percent:Q", title="accuracy, %", scale=alt.Scale(domain=[0, 100])),
        color=alt.Color(
            "planner:N",
            title=None,
            scale=alt.Scale(domain=planners, range=list(figures.PALETTE[:2])),
        ),
    )
    sequential = base.mark_line(strokeWidth=3).transform_filter(
        alt.datum.planner == PLANNER_TITLES["sequential"]
    )
    ours = base.mark_point(filled=True, size=40).transform_filter(
        alt.datum.planner == PLANNER_TITLES["dynacomm"]
    )
    return (
        alt.layer(sequential, ours)
        .properties(height=110)
        .facet(
            facet=alt.Facet("measure:N", sort=list(names.values()), title=None),
            columns=2,
            title=_trained_title(frame),
            spacing=_APART_PX,
        )
    )


def _trained_title(frame: pl.DataFrame) -> list[str]:
    """What was trained on what, of how many samples, and how far the cost model is off."""
    run = frame.row(0, named=True)
    model = MODEL_TITLES.get(run["model"], run["model"])
    data = DATASET_TITLES.get(run["dataset"], run["dataset"])
    samples = f"{run['train_samples']:,} training, {run['test_samples']:,} validation samples"
    workers = f"{run['workers']} workers (simulated)"
    return _wrapped(f"{model} on {data}", samples, workers, *ends_in_words(frame))


def ends_in_words(frame: pl.DataFrame) -> list[str]:
    """A line per planner of `experiments.fig10`: when training ends, beside the cost model."""
    return [
        f"{PLANNER_TITLES.get(planner, planner)} ends after {end['at_s']:,.2f} s, "
        f"{_percent(end['difference_percent'])} off the cost model's {end['predicted_s']:,.2f} s"
        for (planner,), part in frame.group_by("planner", maintain_order=True)
        for end in [part.sort("epoch").row(-1, named=True)]
    ]


def _percent(value: float) -> str:
    return f"{value:+.2f} %".replace("-0.00", "+0.00")


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
        .properties(height=220, title=_title(frame, "batch_size", "bandwidth_mbps"))
    )
    most = int(frame["workers"].max())  # type: ignore[arg-type]
    ideal = (
        alt.Chart(pl.DataFrame({"workers": [0, most], "speedup": [0, most]}))
        .mark_line(color="#888888", strokeWidth=1)
        .encode(x="workers:Q", y="speedup:Q")
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
            y=alt.Y(
                "median_ms:Q",
                scale=alt.Scale(type="log"),
                title="ms to plan, this machine",
                axis=alt.Axis(format="~g"),
            ),
            **figures.series("solver", list(SOLVER_TITLES.values())),
        )
        .properties(height=200)
        .facet(
            column=alt.Column("direction:N", sort=["forward", "backward"], title=None),
            title="Time to plan random chains",
            spacing=_APART_PX,
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
        color=alt.Color(
            "planner:N", title=None, scale=alt.Scale(domain=order, range=figures.PALETTE[:2])
        ),
        shape=alt.Shape(
            "planner:N", title=None, scale=alt.Scale(domain=order, range=figures.SHAPES[:2])
        ),
        yOffset=alt.YOffset("planner:N", sort=order),
    )
    spread = base.mark_rule().encode(
        x="low_ms:Q", x2="high_ms:Q", yOffset=alt.YOffset("planner:N", sort=order)
    )
    window = base.mark_tick(color="#888888", thickness=2).encode(x="window_ms:Q")
    return (
        alt.layer(window, spread, points)
        .properties(height=110)
        .facet(
            row=alt.Row("direction:N", sort=["forward", "backward"], title=None),
            title=["Time to plan", "(grey: the idle window, by the cost model)"],
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
        .facet(column=alt.Column("role:N", title=None), spacing=_APART_PX)
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
    """A row per part of the time instead of a column, everything else repeated."""
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
        "color": alt.Color(
            "part:N",
            sort=names,
            scale=alt.Scale(domain=names, range=list(figures.PALETTE[:3])),
            title=None,
        ),
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


def _title(frame: pl.DataFrame, *fields: str, subject: str = "") -> list[str]:
    """Two lines: what is shown, then what is held constant and where the numbers come from."""
    setting = frame.row(0, named=True)
    words = {
        "batch_size": "batch {:g}",
        "bandwidth_mbps": "{:g} Mbit/s",
        "workers": "{:g} workers",
    }
    given = ", ".join(words[field].format(setting[field]) for field in fields)
    model = MODEL_TITLES.get(setting["model"], setting["model"])
    return [subject or model, f"{given} (cost model)"]


def _titled(frame: pl.DataFrame) -> pl.DataFrame:
    titles = {"model": MODEL_TITLES, "planner": PLANNER_TITLES}
    return frame.with_columns(
        pl.col(column).replace(new) for column, new in titles.items() if column in frame.columns
    )


def _present(frame: pl.DataFrame) -> list[str]:
    """Titles of the planners in a frame, in the order of bars; those without a title come last."""
    found = frame["planner"].unique(maintain_order=True).to_list()
    own = [name for name in found if name not in PLANNER_TITLES]
    return [title for name, title in PLANNER_TITLES.items() if name in found] + own


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
    return (
        alt.Chart(_policies_titled(frame))
        .mark_line(interpolate="step-after", strokeWidth=1.2)
        .encode(
            x=alt.X("start_s:Q", title="virtual seconds", axis=alt.Axis(format="d")),
            y=alt.Y("duration_s:Q", title="iteration, s", scale=alt.Scale(zero=False)),
            **encoded,
        )
        .properties(height=110)
        .facet(
            facet=alt.Facet("scenario:N", sort=list(SCENARIO_TITLES.values()), title=None),
            columns=1,
            title=_simulated_title(frame, "one worker, one server", said=[epoch_in_words(frame)]),
        )
        .resolve_scale(y="independent")
    )


def replanning_gains(frame: pl.DataFrame) -> alt.FacetChart:
    """Time that each policy saves over planning once, a row per scenario."""
    policies = [title for name, title in policy_titles(frame).items() if name != "static"]
    colours = alt.Scale(domain=policies, range=list(figures.PALETTE[1:4]))
    drawn = _policies_titled(frame.filter(pl.col("policy") != "static"))
    said = [epoch_in_words(frame), *gains_in_words(frame)]
    return (
        alt.Chart(drawn)
        .mark_bar()
        .encode(
            x=alt.X("gain_percent:Q", title="training time saved, %"),
            y=alt.Y("policy:N", sort=policies, title=None),
            color=alt.Color("policy:N", scale=colours, legend=None),
        )
        .properties(height=54)
        .facet(
            facet=alt.Facet("scenario:N", sort=list(SCENARIO_TITLES.values()), title=None),
            columns=1,
            title=_simulated_title(frame, "one worker, one server", said=said),
        )
    )


def epoch_in_words(frame: pl.DataFrame) -> str:
    """How long an epoch is in a frame of `simulations.replanning`, beside the paper's."""
    iterations = frame["epoch_iterations"][0]
    if iterations == EPOCH:
        return f"an epoch is {iterations} iterations, as in the paper"
    return f"an epoch is {iterations} iterations (the paper: {EPOCH})"


def gains_in_words(frame: pl.DataFrame) -> list[str]:
    """A line per policy that plans again: where it saves time, and where it costs time."""
    lines = []
    for policy in ("per_epoch", "per_iteration"):
        gains = dict(frame.filter(policy=policy).select("scenario", "gain_percent").iter_rows())
        words = {
            "saves time": [name for name, gain in gains.items() if gain > 0],
            "makes no difference": [name for name, gain in gains.items() if gain == 0],
            "costs time": [name for name, gain in gains.items() if gain < 0],
        }
        told = [f"{what} in {' and '.join(names)}" for what, names in words.items() if names]
        if told:
            lines.append(f"{policy_titles(frame)[policy]}: {'; '.join(told)}")
    return lines


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
    bandwidth = f"{frame['bandwidth_mbps'][0]:g} Mbit/s"
    return (
        alt.layer(simulated, predicted)
        .properties(height=190)
        .facet(
            column=alt.Column("case:N", sort=list(cases.values()), title=None),
            title=_simulated_title(
                frame,
                bandwidth,
                "lines simulated, points cost model",
                said=differences_in_words(frame),
            ),
            spacing=_APART_PX,
        )
    )


def differences_in_words(frame: pl.DataFrame) -> list[str]:
    """A line per case of `simulations.fig11_simulated`: how far simulation and model differ."""
    lines = []
    for (case,), part in frame.group_by("case", maintain_order=True):
        farthest = part.sort(pl.col("difference_percent").abs()).row(-1, named=True)
        percent = _percent(farthest["difference_percent"])
        planner = PLANNER_TITLES.get(farthest["planner"], farthest["planner"])
        where = "" if percent == "+0.00 %" else f" ({planner}, {farthest['workers']} workers)"
        lines.append(f"{case} workers: at most {percent} off the model{where}")
    return lines


def _simulated_title(frame: pl.DataFrame, *about: str, said: Sequence[str] = ()) -> list[str]:
    """What is shown, at which setting, and what is said about it."""
    setting = frame.row(0, named=True)
    model = MODEL_TITLES.get(setting["model"], setting["model"])
    given = ", ".join([f"batch {setting['batch_size']}", *about])
    given = given if "simulated" in given else f"{given} (simulated)"
    return [model, given, *_wrapped(*said)]


def _wrapped(*sentences: str) -> list[str]:
    return [line for one in sentences for line in textwrap.wrap(one, _TITLE_CHARACTERS)]


def _policies_titled(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(
        pl.col("policy").replace_strict(policy_titles(frame)),
        pl.col("scenario").replace_strict(SCENARIO_TITLES),
    )
