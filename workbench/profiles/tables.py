"""Costs of a model's layers as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from workbench.profiles.layer_times import LayerTimes
from workbench.profiles.model_profile import ModelProfile
from workbench.utils.numbers import (
    batch_as_text,
    bytes_as_text,
    counted,
    percent,
    shape_as_text,
    three_digits,
)
from workbench.utils.terminal import table

if TYPE_CHECKING:
    from rich.table import Table

COSTS = ("tensors", "parameters\nMB", "output\nMB", "forward\nGFLOP", "backward\nGFLOP")
TIMES = ("forward\nms", "backward\nms", "update\nms")
UNITS = "1 MB = 10⁶ bytes; a multiply-add is 2 FLOP"


def by_layer(profile: ModelProfile, batch_size: int, times: LayerTimes | None = None) -> Table:
    """Return a row per layer, and their sums; with times, also measured milliseconds."""
    rows = [
        [
            row["param_tensors"],
            row["param_bytes"] / 1e6,
            row["output_bytes"] * batch_size / 1e6,
            row["forward_flops"] * batch_size / 1e9,
            row["backward_flops"] * batch_size / 1e9,
        ]
        for row in profile.table.iter_rows(named=True)
    ]
    caption = UNITS
    if any(profile.frozen_bytes):
        frozen = bytes_as_text(sum(profile.frozen_bytes))
        caption += f"\na further {frozen} of parameters are frozen, and never sent"
    if times is not None:
        seconds = times.table.select("forward_s", "backward_s", "update_s").iter_rows()
        rows = [
            [*row, *(1e3 * each_s for each_s in layer_s)]
            for row, layer_s in zip(rows, seconds, strict=True)
        ]
        caption += _measured_on(times)
        if times.iteration_s is not None and times.layers_over_iteration is not None:
            caption += (
                f"\nforward and backward measured in one piece: {times.iteration_s * 1e3:,.1f} ms; "
                f"the layers' sum is {percent(times.layers_over_iteration)} of it"
            )
    layers = counted(len(profile), "layer")
    batch = batch_as_text(batch_size, profile.input_shape)
    shown = table(
        f"{profile.name}: {layers}, {batch}",
        texts=["layer"],
        numbers=[*COSTS, *(TIMES if times is not None else ())],
    )
    shown.caption = caption
    shown.show_footer = True
    for name, row in zip(profile.layers, rows, strict=True):
        shown.add_row(name, *_cells(row))
    totals = [sum(column) for column in zip(*rows, strict=True)]
    for column, text in zip(shown.columns, ["total", *_cells(totals)], strict=True):
        column.footer = text
    return shown


def by_batch_size(
    profile: ModelProfile, sizes: Sequence[int], times: Mapping[int, LayerTimes]
) -> Table:
    """Return a row per number of samples in a batch, with the sums over all layers."""
    shown = table(
        f"{profile.name}: {counted(len(profile), 'layer')}, samples of "
        f"{shape_as_text(profile.input_shape)}",
        texts=["samples"],
        numbers=["outputs\nMB", *COSTS[3:], *([*TIMES, "samples\n/s"] if times else ())],
    )
    shown.caption = f"{bytes_as_text(profile.param_bytes)} of parameters; {UNITS}"
    output_mb = int(profile.table["output_bytes"].sum()) / 1e6
    for size in sizes:
        flops = (profile.forward_flops, profile.backward_flops)
        row = [size, size * output_mb, *(size * each / 1e9 for each in flops)]
        if size in times:
            measured = times[size]
            seconds = [measured.forward_s, measured.backward_s, measured.update_s]
            row += [*(1e3 * each_s for each_s in seconds), size / sum(seconds)]
        shown.add_row(*_cells(row))
    if times:
        shown.caption += _measured_on(times[sizes[0]])
    return shown


def _measured_on(times: LayerTimes) -> str:
    return f"\nmedians on this machine's {times.device}; kernels: {times.kernels}"


def _cells(row: Sequence[float]) -> list[str]:
    return [f"{row[0]:,}", *map(three_digits, row[1:])]
