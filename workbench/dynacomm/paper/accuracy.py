"""Fig. 10, simulated: accuracy is the same under DynaComm's plan and the sequential one."""

from __future__ import annotations

from pathlib import Path

import altair as alt
import polars as pl

from workbench import datasets
from workbench.clusters import Link
from workbench.dynacomm.costs import iteration
from workbench.dynacomm.paper.titles import PLANNER_TITLES, agreement, model_title, titled
from workbench.dynacomm.planners import PLANNERS
from workbench.figures import parts
from workbench.reproduction.claims import Answer
from workbench.reproduction.data import data_set
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import ExperimentInterrupted, grid, sweep
from workbench.runtime.progress import Steps
from workbench.training import TrainingError, batches
from workbench.utils.checks import check_whole
from workbench.utils.numbers import link_rate

TRAINED_BATCH = 16  # of each worker; of 32 the images of scale default make too few iterations
TRAINED_SERVERS = 2
TRAINED_LINK = Link(bandwidth_bps=50e6, overhead_s=0.01)

MEASURES = {
    "train_top1": "training, top-1",
    "train_top5": "training, top-5",
    "top1": "validation, top-1",
    "top5": "validation, top-5",
}

ACCURACIES = {
    **dict.fromkeys(("model", "dataset"), pl.String),
    **dict.fromkeys(("train_samples", "test_samples", "workers"), pl.Int64),
    **dict.fromkeys(("planner", "reason"), pl.String),
    "epoch": pl.Int64,
    **dict.fromkeys(("at_s", "loss", *MEASURES, "predicted_s", "difference_percent"), pl.Float64),
}


def accuracies(
    *,
    scale: str,
    model: str,
    samples: int | None,
    usual_epochs: int,
    seed: int = 1,
    dataset: str = "auto",
    workers: int = 2,
    epochs: int | None = None,
    processes: int | None = 1,
    folder: Path | None = None,
) -> pl.DataFrame:
    """Accuracy by epoch, trained under DynaComm's plan and under the sequential one.

    `epochs` are by default the scale's `usual_epochs`; `samples` of the data set are drawn by the
    seed, None are all. Both plans are made once, so that the cost model predicts in ``predicted_s``
    when each epoch ends. A training that diverged is one row with its ``reason``.

    Deviation: a ResNet-20 instead of a ResNet-152, at ``default`` LeNet-5; below scale ``paper``
    other data than CIFAR-10; few workers on slow links of their own. What is claimed, equality,
    depends on none of them.
    """
    shared = {
        "model": model,
        "samples": samples,
        "epochs": usual_epochs if epochs is None else check_whole("epochs", epochs, 1),
        "source": data_set(scale, "cifar10", dataset),
        "seed": seed,
        "workers": workers,
    }
    return sweep(
        _trained,
        grid(planner=("sequential", "dynacomm")),
        ACCURACIES,
        title="Figure 10",
        shared=shared,
        with_steps=True,
        failures=TrainingError,
        processes=processes,
        folder=folder,
    )


def _trained(
    *,
    planner: str,
    model: str,
    source: str,
    samples: int | None,
    epochs: int,
    seed: int,
    workers: int,
    steps: Steps,
) -> pl.DataFrame:
    from workbench.dynacomm.training import Setup, train

    data = datasets.load(source).limit(train=samples, test=samples, seed=seed)
    setup = Setup(
        model,
        data.fitted((3, 32, 32)),
        TRAINED_LINK,
        epochs=epochs,
        workers=workers,
        servers=TRAINED_SERVERS,
        batch_size=TRAINED_BATCH,
        seed=seed,
    )
    of_epoch = batches(setup.dataset, setup.batch_size, seed, epoch=0, workers=workers)
    epoch_s = len(of_epoch) * iteration(setup.costs, PLANNERS[planner](setup.costs)).total_s
    progress = steps.until(epochs * epoch_s)
    trained = train(setup, planner, replan_every=None, progress=progress)
    predicted_s = pl.col("epoch") * epoch_s
    frame = trained.epochs.with_columns(
        model=pl.lit(model),
        dataset=pl.lit(data.name),
        train_samples=len(data.y_train),
        test_samples=len(data.y_test),
        predicted_s=predicted_s,
        difference_percent=100 * (pl.col("at_s") / predicted_s - 1),
    )
    if trained.run.interrupted:
        raise ExperimentInterrupted(frame)
    return frame


def draw_accuracies(frame: pl.DataFrame) -> alt.FacetChart:
    """Accuracy by epoch: DynaComm's points on the sequential plan's lines."""
    ended, left_out = parts.trained(frame)
    drawn = (
        titled(ended)
        .unpivot(on=list(MEASURES), index=["planner", "epoch"], variable_name="measure")
        .with_columns(pl.col("measure").replace_strict(MEASURES), percent=pl.col("value") * 100)
    )
    planners = [PLANNER_TITLES[name] for name in ("sequential", "dynacomm")]
    base = alt.Chart(drawn).encode(
        x=alt.X("epoch:Q", axis=alt.Axis(tickMinStep=1, format="d")),
        y=parts.accuracy("accuracy, %"),
        color=parts.colour("planner", planners),
    )
    lines = base.mark_line(strokeWidth=3).transform_filter(alt.datum.planner == planners[0])
    points = base.mark_point(filled=True, size=40).transform_filter(
        alt.datum.planner == planners[1]
    )
    last = ended.sort("epoch").group_by("planner", maintain_order=True).last()
    rate_mbps = TRAINED_LINK.bandwidth_bps / 1e6  # type: ignore[operator]
    title = [
        f"{model_title(ended)} on {datasets.title(ended['dataset'][0])}",
        parts.samples(ended),
        f"{ended['workers'][0]} workers, {TRAINED_SERVERS} servers, "
        f"{link_rate(rate_mbps)} (simulated)",
        agreement(last),
        *left_out,
    ]
    panel = alt.layer(lines, points).properties(height=110)
    return parts.facets(panel, "measure", list(MEASURES.values()), title)


def _accuracy(frame: pl.DataFrame) -> Answer:
    """Largest difference, in points, between the two planners' accuracies at any epoch."""
    ours, theirs = (
        frame.filter(planner=planner).sort("epoch").select(*MEASURES).to_numpy()
        for planner in ("dynacomm", "sequential")
    )
    if failed := frame.drop_nulls("reason")["planner"].to_list():
        return Answer(not_run=f"trains under {' and '.join(failed)}, which failed")
    data = f" of {frame['dataset'][0]}" if "dataset" in frame.columns else ""
    return Answer(float(100 * abs(ours - theirs).max()), f"{len(ours)} epochs{data}, simulated")


FIG10 = Figure(
    id="fig10",
    compute=accuracies,
    chart=draw_accuracies,
    sizes={
        "model": Scaled(smoke="resnet20_cifar", default="lenet5_cifar", paper="resnet20_cifar"),
        "samples": Scaled(smoke=64, default=2000, paper=None),
        "usual_epochs": Scaled(smoke=1, default=6, paper=200),
    },
    answers={"dynacomm.fig10.accuracy": _accuracy},
    recorded=True,
    data=("cifar10",),
    judged_by_accuracy=False,  # only that two are equal
    live=True,
)
