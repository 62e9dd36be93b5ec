"""Runs of HierTrain's programs: Fig. 6, simulated and measured; shared links; trainings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from workbench import datasets, figures
from workbench.figures import parts
from workbench.hiertrain.algorithms import FAST, PLANNERS
from workbench.hiertrain.costs import Policy, Problem, iteration
from workbench.hiertrain.paper import cost_model
from workbench.hiertrain.paper.cost_model import MODEL_TITLES, PLANNER_TITLES, present, titled
from workbench.hiertrain.paper.testbed import (
    BATCH_SIZE,
    CORES_USED,
    DEVICE_EDGE_MBPS,
    EDGE_CLOUD_MBPS,
    FIG11_MBPS,
    MODELS,
    PAPER,
    SETTING,
    variant,
)
from workbench.hiertrain.programs import SHARING, cluster_of, programs_of
from workbench.reproduction.claims import Answer, Cause
from workbench.reproduction.data import data_set, loaded_once
from workbench.reproduction.figure import Figure, at
from workbench.reproduction.scales import Scaled, seeds_from
from workbench.reproduction.sweep import grid, sweep, whole
from workbench.runtime import Run, simulate
from workbench.training import TrainingError

if TYPE_CHECKING:
    from workbench.datasets import Dataset
    from workbench.runtime.progress import Steps

SIMULATED = {
    **SETTING,
    "planner": pl.String,
    "sharing": pl.String,
    "barriers": pl.Boolean,
    **dict.fromkeys(("predicted_s", "simulated_s", "difference_percent"), pl.Float64),
}
MEASURED = {
    **SETTING,
    "repetition": pl.Int64,
    **dict.fromkeys(("predicted_s", "overlapping_s", "measured_s"), pl.Float64),
    "difference_percent": pl.Float64,
    "disturbed": pl.Boolean,
}


def one_iteration(
    problem: Problem,
    policy: Policy,
    sharing: str = "none",
    *,
    barriers: bool = False,
    trace: bool = False,
) -> Run:
    """Simulate an iteration in which only bytes move."""
    programs = programs_of(problem, policy, 1, sharing=sharing, barriers=barriers)
    return whole(simulate(cluster_of(problem, sharing), programs, trace=trace))


def simulated(
    models: Sequence[str],
    planners: Sequence[str],
    programs: Sequence[tuple[str, bool]],
    *,
    batch_size: int = BATCH_SIZE,
    device_edge_mbps: float = DEVICE_EDGE_MBPS,
    edge_cores: int = CORES_USED,
    devices: int = 1,
) -> pl.DataFrame:
    """One iteration under each planner's policy, message by message, beside the cost model's.

    `programs` are pairs of ``sharing`` and ``barriers``. With ``sharing`` ``none`` every message
    has its pair's whole bandwidth, as the cost model assumes; with ``interfaces`` concurrent
    messages share the machines' interfaces (`cluster_of`). With ``barriers`` the workers of a
    hybrid policy wait for each other after every phase (`programs_of`). ``difference_percent`` is
    simulated over predicted, minus one.

    Deviation: simulated in place of the paper's machines, so that what differs is what the cost
    model leaves out of the policy's course, and not how fast a layer is.
    """
    return sweep(
        _simulated,
        grid(model=models, edge_cloud_mbps=EDGE_CLOUD_MBPS, planner=planners),
        SIMULATED,
        title="Simulated iterations",
        shared={
            "batch_size": batch_size,
            "device_edge_mbps": device_edge_mbps,
            "edge_cores": edge_cores,
            "devices": devices,
            "programs": programs,
        },
        with_steps=True,
    )


def _simulated(
    *,
    model: str,
    batch_size: int,
    planner: str,
    programs: Sequence[tuple[str, bool]],
    steps: object,
    **testbed: float,
) -> list[dict[str, object]]:
    problem = variant(**testbed).problem(model, batch_size)
    policy = PLANNERS[planner](problem)
    predicted_s = iteration(problem, policy).total_s
    rows: list[dict[str, object]] = []
    for sharing, barriers in programs:
        simulated_s = one_iteration(problem, policy, sharing, barriers=barriers).end_s
        rows.append(
            {
                "sharing": sharing,
                "barriers": barriers,
                "predicted_s": predicted_s,
                "simulated_s": simulated_s,
                "difference_percent": 100 * (simulated_s / predicted_s - 1),
            }
        )
    return rows


PROGRAM_TITLES = {
    ("none", True): "with barriers between phases",
    ("none", False): "without barriers",
    ("interfaces", False): "without, shared interfaces",
}
_PANELS = {"none": "own links", "interfaces": "shared"}


def draw_against_model(frame: pl.DataFrame) -> alt.LayerChart:
    """Draw HierTrain's iteration by the cost model (line) and simulated (points)."""
    titles = [PROGRAM_TITLES[row] for row in frame.select("sharing", "barriers").iter_rows()]
    drawn = frame.with_columns(program=pl.Series(titles))
    base = alt.Chart(drawn).encode(x=cost_model.bandwidth_axis())
    line = base.mark_line(color=figures.INK, strokeWidth=1).encode(y="predicted_s:Q")
    order = list(PROGRAM_TITLES.values())
    points = base.mark_point(filled=True, size=45).encode(
        y=cost_model.seconds_axis("simulated_s", scale=alt.Scale(zero=True)),
        color=parts.colour("program", order),
        shape=parts.shape("program", order),
    )
    largest = pl.col("difference_percent").sort_by(pl.col("difference_percent").abs()).last()
    farthest = [
        f"{program}: up to {percent:+.1f} % off the model"
        for program, percent in drawn.group_by("program", maintain_order=True)
        .agg(largest.round(6) + 0.0)
        .iter_rows()
    ]
    about = "line: cost model, points: simulated"
    lines = cost_model.title(frame, "HierTrain, by cost model and simulated", about, *farthest)
    return (line + points).properties(height=200, title=lines)


def draw_sharing(frame: pl.DataFrame) -> alt.FacetChart:
    """Draw simulated seconds of every planner, with links of their own and with shared ones."""
    panel = pl.format("{}: {}", cost_model.model_names(), pl.col("sharing").replace_strict(_PANELS))
    drawn = titled(frame.with_columns(panel=panel))
    order = drawn["panel"].unique(maintain_order=True).to_list()
    lines = cost_model.over_bandwidth(drawn, "planner", present(frame), "simulated_s").properties(
        height=150
    )
    heading = ["One iteration (simulated)", cost_model.setting(frame), overtaken(frame)]
    return parts.facets(lines, "panel", order, heading).resolve_scale(y="independent")


def overtaken(frame: pl.DataFrame) -> str:
    """Say where, with shared interfaces, another planner is faster than HierTrain."""
    shared = frame.filter(sharing="interfaces").pivot(
        on="planner", index=["model", "edge_cloud_mbps"], values="simulated_s"
    )
    others = [name for name in PLANNER_TITLES if name in shared.columns and name != "hiertrain"]
    slower = shared.filter(pl.min_horizontal(others) < pl.col("hiertrain") * (1 - 1e-9))
    return (
        f"with shared interfaces another planner is faster at {len(slower)} of {len(shared)} points"
    )


FIG6 = Figure(
    id="fig6",
    compute=partial(simulated, (MODELS["alexnet"],), ("hiertrain",), tuple(PROGRAM_TITLES)),
    chart=draw_against_model,
    at_paper=at(model=MODELS["alexnet"], **PAPER),
)
SHARED_INTERFACES = Figure(
    id="sharing",
    compute=partial(
        simulated, tuple(MODELS.values()), tuple(FAST), [(sharing, False) for sharing in SHARING]
    ),
    chart=draw_sharing,
)


def measured(
    repetitions: int,
    bandwidths_mbps: Sequence[float],
    *,
    batch_size: int = BATCH_SIZE,
    device_edge_mbps: float = DEVICE_EDGE_MBPS,
    edge_cores: int = CORES_USED,
    devices: int = 1,
    folder: Path | None = None,
) -> pl.DataFrame:
    """An iteration under HierTrain's policy by processes, beside the cost model's.

    The processes wait for each other after every phase, as the paper's procedure has it (IV-B);
    ``overlapping_s`` is a simulation without these barriers.

    Device, edge and cloud are processes of this machine, which send each other as many bytes as
    they would, over links of the paper's bandwidths. A layer lasts as long as the cost model says:
    what is tested are links, order and waiting, not how fast the paper's machines are.
    ``difference_percent`` is measured over predicted, minus one; ``disturbed``, whether the machine
    was too busy for that (`MeasuredRun.disturbed`).
    """
    from workbench.runtime.measured import session

    with session(places=4):
        return sweep(
            _measured,
            grid(repetition=range(repetitions), edge_cloud_mbps=bandwidths_mbps),
            MEASURED,
            title="Fig. 6",
            shared={
                "model": MODELS["alexnet"],
                "batch_size": batch_size,
                "device_edge_mbps": device_edge_mbps,
                "edge_cores": edge_cores,
                "devices": devices,
            },
            with_steps=True,
            folder=folder,
        )


def _measured(
    *, model: str, batch_size: int, repetition: int, steps: object, **testbed: float
) -> dict[str, object]:
    from workbench.runtime.measured import measure

    problem = variant(**testbed).problem(model, batch_size)
    policy = PLANNERS["hiertrain"](problem)
    predicted_s = iteration(problem, policy).total_s
    run = measure(cluster_of(problem), programs_of(problem, policy, 1, barriers=True))
    return {
        "predicted_s": predicted_s,
        "overlapping_s": one_iteration(problem, policy).end_s,
        "measured_s": run.end_s,
        "difference_percent": 100 * (run.end_s / predicted_s - 1),
        "disturbed": run.disturbed,
    }


def draw_measured(frame: pl.DataFrame) -> alt.LayerChart:
    """Draw an iteration by the cost model (line), measured (points), without barriers (dashed)."""
    base, kept = alt.Chart(frame), frame.filter(~pl.col("disturbed"))
    x = cost_model.bandwidth_axis()
    y = cost_model.seconds_axis("measured_s", scale=alt.Scale(zero=True))
    line = base.mark_line(color=figures.INK, strokeWidth=1).encode(x=x, y="predicted_s:Q")
    dashed = base.mark_line(strokeDash=[4, 3], strokeWidth=1.2).encode(x=x, y="overlapping_s:Q")
    points = (
        alt.Chart(kept).mark_point(filled=True, size=40, color=figures.PALETTE[1]).encode(x=x, y=y)
    )
    off = farthest(kept)
    apart = [] if off is None else [f"medians at most {off:+.1f} % from the cost model"]
    lines = cost_model.title(
        frame,
        "HierTrain, by cost model and measured on one machine",
        "line: cost model; points: runs of processes; dashed: simulated without barriers",
        f"{len(kept)} of {len(frame)} runs, others were disturbed",
        *apart,
    )
    return (line + dashed + points).properties(height=200, title=lines)


def farthest(frame: pl.DataFrame) -> float | None:
    """Percent by which medians of measured seconds are off the cost model's at most."""
    medians = frame.group_by("edge_cloud_mbps").agg(pl.col("measured_s", "predicted_s").median())
    off = 100 * (medians["measured_s"] / medians["predicted_s"] - 1)
    return max(off.to_list(), key=abs, default=None)


def _validity(frame: pl.DataFrame) -> Answer | None:
    """Measured over predicted where they differ most, of the medians at each bandwidth."""
    kept, detail = frame.filter(~pl.col("disturbed")), "measured on one machine"
    if kept.is_empty():
        kept, detail = frame, f"{detail}, but the machine was disturbed"
    return Answer(farthest(kept), detail, timed=True)


FIG6_MEASURED = Figure(
    id="fig6_measured",
    compute=measured,
    chart=draw_measured,
    sizes={
        "repetitions": Scaled(smoke=1, default=1, paper=3),
        "bandwidths_mbps": Scaled(
            smoke=EDGE_CLOUD_MBPS[-2:], default=EDGE_CLOUD_MBPS, paper=EDGE_CLOUD_MBPS
        ),
    },
    answers={"hiertrain.fig6.validity": _validity},
    causes={
        "hiertrain.fig6.validity": Cause(
            "data",
            "the prototype cannot be had, nor do words such as 'highly match' give a number",
        ),
    },
    at_paper=at(model=MODELS["alexnet"], **PAPER),
    recorded=True,
    timings=True,
)


# LeNet-5 trained under every planner's policy: true gradients, virtual seconds.

TRAINED_BATCH = 32  # of 128 the images of scale default make too few iterations
LEARNING_RATE, MOMENTUM = 0.02, 0.9
TRAINED: dict[str, Any] = {
    "model": pl.String,
    "dataset": pl.String,
    "train_samples": pl.Int64,
    "test_samples": pl.Int64,
    "batch_size": pl.Int64,
    "edge_cloud_mbps": pl.Float64,
    "seed": pl.Int64,
    "planner": pl.String,
    "policy": pl.String,
    "reason": pl.String,
    "epoch": pl.Int64,
    **dict.fromkeys(("at_s", "loss", "train_top1", "train_top5", "top1", "top5"), pl.Float64),
}


def accuracy(
    *,
    scale: str,
    samples: int | None,
    epochs: int,
    usual_seeds: int,
    processes: int | None,
    seed: int = 1,
    dataset: str = "auto",
    batch_size: int = TRAINED_BATCH,
    edge_cloud_mbps: float = FIG11_MBPS,
    seeds: int | None = None,
    folder: Path | None = None,
) -> pl.DataFrame:
    """LeNet-5 trained under every planner's policy: accuracy by virtual time, a row per epoch.

    From `seed` on, as many `seeds` as asked for or as is usual at the scale. `samples` are those of
    the `dataset` (see `workbench.reproduction.data.data_set`), None for all; `processes` None is
    one a core. A training that diverged is one row with its ``reason``.

    Deviation: below scale ``paper`` other data than CIFAR-10.
    """
    return sweep(
        _accuracy,
        grid(seed=seeds_from(seed, seeds, usual_seeds), planner=FAST),
        TRAINED,
        title="Accuracy",
        shared={
            "source": data_set(scale, "cifar10", dataset),
            "samples": samples,
            "epochs": epochs,
            "batch_size": batch_size,
            "edge_cloud_mbps": edge_cloud_mbps,
        },
        processes=processes,
        folder=folder,
        with_steps=True,
        failures=TrainingError,
    )


def _accuracy(
    *,
    planner: str,
    seed: int,
    source: str,
    samples: int | None,
    epochs: int,
    batch_size: int,
    edge_cloud_mbps: float,
    steps: Steps,
) -> pl.DataFrame:
    from workbench.hiertrain.training import Setup, train
    from workbench.training import Sgd

    model, data = MODELS["lenet5"], _data(source, samples, seed)
    problem = variant(edge_cloud_mbps=edge_cloud_mbps).problem(model, batch_size)
    policy = PLANNERS[planner](problem)
    setup = Setup(
        model, data, problem, epochs=epochs, sgd=Sgd(LEARNING_RATE, momentum=MOMENTUM), seed=seed
    )
    end_s = setup.epoch_ends[-1] * iteration(problem, policy).total_s
    trained = train(setup, policy, progress=steps.until(end_s))
    whole(trained.run)  # one policy's epochs alone would compare nothing
    return trained.epochs.with_columns(
        model=pl.lit(model),
        dataset=pl.lit(data.name),
        train_samples=len(data.y_train),
        test_samples=len(data.y_test),
        policy=pl.lit(str(policy)),
    )


@loaded_once
def _data(source: str, samples: int | None, seed: int) -> Dataset:
    loaded = datasets.load(source)
    return loaded.limit(train=samples, test=samples, seed=seed).fitted((3, 32, 32))


def draw_accuracy(frame: pl.DataFrame) -> alt.Chart:
    """Draw validation accuracy against virtual time, a line per planner."""
    ended, left_out = parts.trained(frame)
    mean = (
        titled(ended)
        .group_by("planner", "epoch", maintain_order=True)
        .agg(pl.col("at_s").mean(), percent=100 * pl.col("top1").mean())
    )
    row, seeds = ended.row(0, named=True), ended["seed"].n_unique()
    model, data = MODEL_TITLES[row["model"]].partition(" (")[0], datasets.title(row["dataset"])
    link = f"batch {row['batch_size']}, edge-cloud {row['edge_cloud_mbps']:g} Mbit/s (simulated)"
    averaged = [f"mean of {seeds} seeds"] if seeds > 1 else []
    lines = [f"{model} on {data}", parts.samples(ended), link, *left_out, *averaged]
    return (
        parts.over_time(mean, "planner", present(ended))
        .encode(y=parts.accuracy())
        .properties(height=200, title=lines)
    )


ACCURACY = Figure(
    id="accuracy",
    compute=accuracy,
    chart=draw_accuracy,
    sizes={
        "samples": Scaled(smoke=160, default=2000, paper=None),
        "epochs": Scaled(smoke=1, default=6, paper=50),
        "usual_seeds": Scaled(smoke=1, default=1, paper=5),
        "processes": Scaled(smoke=1, default=None, paper=None),
    },
    recorded=True,
    data=("cifar10",),
    live=True,
)
