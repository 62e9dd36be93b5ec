"""Platforms that fail: what the paper leaves open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from workbench.edgegossip.costs.course import total_s
from workbench.edgegossip.paper.cases import Case, deployed, learning_at
from workbench.edgegossip.paper.testbed import MODELS
from workbench.edgegossip.paper.titles import by_method, data_title, model_title
from workbench.edgegossip.paper.trainings import CURVE, TRAINED, Training, one_curve
from workbench.figures import parts
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import processes_at
from workbench.reproduction.sweep import sweep
from workbench.runtime import Crash, Restart, SlowDown
from workbench.training import TrainingError

if TYPE_CHECKING:
    from workbench.runtime import Fault

DROPPED = {
    **dict.fromkeys(("scenario", "method"), pl.String),
    "platforms": pl.Int64,
    **dict.fromkeys(("dataset", "learner"), pl.String),
    **dict.fromkeys(("train_samples", "seed"), pl.Int64),
    **CURVE,
}


def dropouts(
    scale: str,
    seed: int = 1,
    dataset: str = "auto",
    processes: int | None = None,
    folder: Path | None = None,
) -> pl.DataFrame:
    """LeNet-5 on ten platforms of which some fail, with both methods.

    Not in the paper, which cites drop-outs of 6 to 10 % and leaves the handling open: ``one comes
    back`` (10 %: meanwhile its points are left out), ``two leave`` (20 %: the others take their
    points over), ``one slows down``, three times.

    A row per evaluated epoch: ``scenario, method, platforms, dataset, learner, train_samples, seed,
    reason, epoch, at_s, top1, kept``.
    """
    case = Case(MODELS[0], 10, seed=seed)
    learning = learning_at(scale, case, dataset)
    learning = learning._replace(epochs=5 * learning.epochs // 4)
    points = len(learning.data.y_train)
    epoch_s = total_s(deployed(case, points).course(learning.epochs)) / learning.epochs
    asked = [
        {
            "scenario": scenario,
            "method": method,
            "training": Training(case, method, learning),
            "faults": faults,
        }
        for scenario, faults in _scenarios(epoch_s).items()
        for method in ("gosgd", "edgegossip")
    ]
    shared = {
        "platforms": case.nodes,
        "dataset": learning.data.name,
        "learner": learning.learner,
        "train_samples": points,
        "seed": seed,
        "patience_s": epoch_s,
    }
    return sweep(
        one_curve,
        asked,
        DROPPED,
        title="Drop-outs",
        shared=shared,
        labels=("scenario", "method", "platforms", "dataset", "learner", "train_samples", "seed"),
        processes=processes_at(scale, processes),
        folder=folder,
        cache=TRAINED,
        failures=TrainingError,
    )


def _scenarios(epoch_s: float) -> dict[str, tuple[Fault, ...]]:
    """Faults by name; `epoch_s` is about an epoch of GoSGD."""
    at_s = 1.3 * epoch_s
    return {
        "nobody fails": (),
        "two leave": (Crash(1, at_s), Crash(7, at_s)),
        "one comes back": (Crash(1, at_s), Restart(1, at_s + 2 * epoch_s)),
        "one slows down": (SlowDown(1, at_s, 1e9, 3.0),),
    }


def draw_dropouts(frame: pl.DataFrame) -> alt.FacetChart:
    """Accuracy against training time while platforms fail, a panel per scenario."""
    row = frame.row(0, named=True)
    title = [
        "Ten platforms, some of which fail",
        *parts.trained(frame)[1],
        f"{model_title(row['learner'])} learns {row['train_samples']:,} "
        f"{data_title(row['dataset'])}; one seed (simulated)",
    ]
    return by_method(frame, "scenario", pl.col("scenario"), title, height=100)


DROPOUTS = Figure(
    id="dropouts",
    compute=dropouts,
    chart=draw_dropouts,
    recorded=True,
    data=("mnist",),
)
