"""Titles of planners and models, and what the charts of an iteration have in common."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from workbench import figures
from workbench.figures import parts
from workbench.utils.numbers import link_rate

# In the order in which they are drawn.
PLANNER_TITLES = {
    "hiertrain": "HierTrain",
    "all_edge": "All-Edge",
    "all_cloud": "All-Cloud",
    "jointdnn": "JointDNN",
    "jointdnn_plus": "JointDNN+",
    "jalad": "JALAD",
}
MODEL_TITLES = {
    "alexnet_tiny": "AlexNet (Tiny ImageNet)",
    "lenet5_cifar": "LeNet-5 (CIFAR-10)",
    "vgg16": "VGG-16",
    "vgg19": "VGG-19",
    "googlenet": "GoogLeNet",
    "resnet34": "ResNet-34",
}


def titled(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame with titles in place of models' and planners' names."""
    return parts.titled(frame, model=MODEL_TITLES, planner=PLANNER_TITLES)


def present(frame: pl.DataFrame) -> list[str]:
    """Titles of the planners in a frame."""
    return parts.present(frame["planner"], PLANNER_TITLES)


def model_names() -> pl.Expr:
    """Models' titles without their data."""
    return pl.col("model").replace(MODEL_TITLES).str.split(" (").list.first()


def bandwidth() -> alt.X:
    """The axis of the bandwidth to the cloud."""
    return alt.X(
        "edge_cloud_mbps:Q",
        title="edge-cloud bandwidth in Mbit/s",
        scale=alt.Scale(zero=False),
        axis=alt.Axis(tickMinStep=0.5, format=".1f"),
    )


def seconds(field: str = "total_s", **more: Any) -> alt.Y:
    """The axis of an iteration's seconds."""
    return alt.Y(f"{field}:Q", title="seconds an iteration", **more)


def over_bandwidth(
    drawn: pl.DataFrame, field: str, order: list[str], seconds_of: str = "total_s"
) -> alt.Chart:
    """Seconds of an iteration against the bandwidth to the cloud, a line per value of `field`."""
    lines = alt.Chart(drawn).mark_line(point=True)
    chart: alt.Chart = lines.encode(
        x=bandwidth(), y=seconds(seconds_of), **figures.series(field, order)
    )
    return chart


def title(frame: pl.DataFrame, subject: str, *more: str, cores: bool = True) -> list[str]:
    """What is shown of which model, at which setting."""
    model = MODEL_TITLES.get(frame["model"][0], frame["model"][0])
    return [f"{model}: {subject}", setting(frame, cores=cores), *more]


def setting(frame: pl.DataFrame, *, cores: bool = True) -> str:
    """The setting of all rows; without the edge's `cores` where they are swept."""
    row = frame.row(0, named=True)
    count, devices = row["edge_cores"], row["devices"]
    held = [f"batch {row['batch_size']}", f"device-edge {link_rate(row['device_edge_mbps'])}"]
    held += [f"{count} edge CPU{'s' if count > 1 else ''}"] if cores else []
    held += [f"{devices} devices"] if devices > 1 else []
    return ", ".join(held)
