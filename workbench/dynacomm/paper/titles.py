"""Titles of planners, models and parts of the time, and what charts say of a setting."""

from __future__ import annotations

import math
from collections.abc import Callable

import altair as alt
import polars as pl

from workbench.figures import parts
from workbench.utils.numbers import link_rate

# Titles of planners and models, in the order in which they are drawn.
PLANNER_TITLES = {
    "sequential": "Sequential",
    "layer_by_layer": "Layer-by-layer",
    "ibatch": "iBatch",
    "mg_wfbp": "MG-WFBP",
    "dynacomm": "DynaComm",
}
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

# Order of lines, so that a planner keeps its colour where the sequential one is left out.
_LINES = {
    name: PLANNER_TITLES[name] for name in ("dynacomm", "ibatch", "layer_by_layer", "mg_wfbp")
}


def titled(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame with titles in place of models' and planners' names."""
    return parts.titled(frame, model=MODEL_TITLES, planner=PLANNER_TITLES)


def model_title(frame: pl.DataFrame) -> str:
    """Title of a frame's only model."""
    return MODEL_TITLES.get(frame["model"][0], frame["model"][0])


def held(frame: pl.DataFrame, *fields: str) -> str:
    """What is held constant, and where the numbers come from."""
    setting = frame.row(0, named=True)
    forms: dict[str, Callable[[float], str]] = {
        "batch_size": "batch {:g}".format,
        "bandwidth_mbps": link_rate,
        "workers": "{:g} workers".format,
    }
    return ", ".join(forms[field](setting[field]) for field in fields) + " (cost model)"


def agreement(frame: pl.DataFrame) -> str:
    """How near to each other simulation and cost model are, rounded up to a hundredth."""
    most = max(map(abs, frame["difference_percent"]))
    return f"simulation and cost model agree within {max(1, math.ceil(100 * most)) / 100:g} %"


def line_order(frame: pl.DataFrame) -> list[str]:
    """Titles of the planners in a frame, in the order of lines, the sequential one last."""
    others = frame["planner"].filter(frame["planner"] != "sequential")
    last = [PLANNER_TITLES["sequential"]] if len(others) < len(frame) else []
    return parts.present(others, _LINES) + last


def bars_of_parts(frame: pl.DataFrame, x: alt.X, value: str) -> alt.Chart:
    """The columns `PARTS` as a stacked bar a planner, along `x`, which draws `value`."""
    drawn = (
        titled(frame.drop(value, strict=False))
        .unpivot(
            on=list(PARTS),
            index=[column for column in frame.columns if column not in (*PARTS, value)],
            variable_name="part",
            value_name=value,
        )
        .with_columns(
            part=pl.col("part").replace_strict(PARTS),
            order=pl.col("part").replace_strict({part: i for i, part in enumerate(PARTS)}),
        )
    )
    bars: alt.Chart = (
        alt.Chart(drawn)
        .mark_bar()
        .encode(
            y=alt.Y("planner:N", sort=parts.present(frame["planner"], PLANNER_TITLES), title=None),
            x=x,
            color=parts.colour("part", list(PARTS.values())),
            order=alt.Order("order:Q"),
        )
    )
    return bars
