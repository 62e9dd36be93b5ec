"""Titles of planners, models and parts of the time, and what charts say of a setting."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import polars as pl

from workbench.dynacomm.costs.iteration import Iteration
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


def long(frame: pl.DataFrame) -> pl.DataFrame:
    """A row per part of the time instead of a column, all else repeated."""
    return (
        titled(frame)
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


def part_colours() -> dict[str, object]:
    """Encoding of the parts of the time, stacked in their order."""
    names = list(PARTS.values())
    return {
        "color": parts.colour("part", names),
        "order": alt.Order("order:Q"),
    }


def model_title(frame: pl.DataFrame) -> str:
    """Title of a frame's only model."""
    return MODEL_TITLES.get(frame["model"][0], frame["model"][0])


def held(frame: pl.DataFrame, *fields: str) -> str:
    """What is held constant, and where the numbers come from."""
    setting = frame.row(0, named=True)
    forms = {
        "batch_size": "batch {:g}",
        "bandwidth_mbps": "{:g} Mbit/s",
        "workers": "{:g} workers",
    }
    return ", ".join(forms[field].format(setting[field]) for field in fields) + " (cost model)"


def titled(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame with titles in place of models' and planners' names."""
    return parts.titled(frame, model=MODEL_TITLES, planner=PLANNER_TITLES)


def present(frame: pl.DataFrame) -> list[str]:
    """Titles of the planners in a frame."""
    return parts.present(frame["planner"], PLANNER_TITLES)


def line_order(frame: pl.DataFrame) -> list[str]:
    """Titles of the planners in a frame, in the order of lines, the sequential one last."""
    first = [PLANNER_TITLES[name] for name in _LINES]
    there = present(frame)
    last = [title for title in there if title == PLANNER_TITLES["sequential"]]
    between = [title for title in there if title not in (*first, *last)]
    return [title for title in first if title in there] + between + last


def iteration_parts(done: Mapping[str, Iteration]) -> alt.Chart:
    """Whole iterations, a bar per planner, in seconds."""
    rows = [
        {"planner": name, **{part: getattr(one.iteration, part) for part in PARTS}}
        for name, one in done.items()
    ]
    table = pl.DataFrame(rows)
    longest_s = max(one.total_s for one in done.values())
    return (
        alt.Chart(long(table))
        .mark_bar()
        .encode(
            y=alt.Y("planner:N", sort=present(table), title=None),
            x=alt.X(
                "seconds:Q", title="seconds an iteration", scale=alt.Scale(domain=[0, longest_s])
            ),
            **part_colours(),
        )
        .properties(height=110)
    )


def about_simulated(frame: pl.DataFrame, *about: str) -> str:
    """The setting of a simulation, which a title says it is."""
    line = ", ".join([f"batch {frame['batch_size'][0]}", *about])
    return line if "simulated" in line else f"{line} (simulated)"
