"""Seconds that each layer of a model takes on this machine, measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from workbench.profiles.inputs import InputShape, arguments, inputs_of, make_inputs
from workbench.profiles.layer_times import SCHEMA, LayerTimes
from workbench.profiles.layers import find_layers
from workbench.profiles.tracing import By, check_by, follow
from workbench.utils import instruction_set
from workbench.utils.checks import UserError, check_whole
from workbench.zoo import build

if TYPE_CHECKING:
    import torch


def measure_layer_times(
    model: str | torch.nn.Module,
    batch_size: int,
    input_shape: InputShape | None = None,
    *,
    device: str = "cpu",
    warmup: int = 1,
    repeats: int = 5,
    input_dtype: str | None = None,
    by: By = "graph",
    name: str | None = None,
    progress: Callable[[str, int, int], object] = lambda what, done, total: None,
) -> LayerTimes:
    """Measure forward, backward and update seconds of every layer on this machine.

    A copy of the module trains on random numbers, in turns undisturbed and with a clock that
    switches where the next layer starts, `warmup` times unrecorded and then `repeats` times. The
    undisturbed iterations tell how far the layers' sum can be trusted: see
    `LayerTimes.layers_over_iteration`.

    Medians are over the faster half of the turns, since other programs only ever add time;
    interquartile ranges are over all of them, and so show how busy the machine was.

    PyTorch computes with as many threads as it is set to; nodes of a training with one, so that a
    profile for their times is taken within ``training.fixed_threads()``. Its kernels are the
    machine's own, unless the environment limits them, as commands that reproduce do
    (`workbench.utils.instruction_set`); `LayerTimes.kernels` says which they were.

    Parameters
    ----------
    model, input_shape, input_dtype, by, name
        As for `profile_model`, whose layers these are and whose errors it raises.
    device
        ``"cpu"`` or ``"cuda"``.
    progress
        Called before each iteration as ``progress(what, done, total)``.
    """
    inputs = inputs_of(model, input_shape, input_dtype)
    check_by(by)
    batch_size = check_whole("batch_size", batch_size, 1)
    if warmup < 0 or repeats < 1:
        raise UserError(f"warmup={warmup}, repeats={repeats}: at least 0 and at least 1, please")

    from workbench.profiles import stopwatch
    from workbench.profiles.copies import real_copy
    from workbench.profiles.recording import learning, record

    check_device(device)
    title = name or (model if isinstance(model, str) else type(model).__name__)
    module = build(model, device) if isinstance(model, str) else real_copy(title, model, device)
    tensors, names = make_inputs(inputs, batch_size, device), [item.name for item in inputs]

    args, kwargs = arguments(names, tensors)
    run = partial(module, *args, **kwargs)
    with learning():
        by_graph = by == "graph"
        expected = find_layers(follow(model, inputs)) if by_graph else None
        graph = record(
            title, module, tensors, names=names, by_modules=not by_graph, backward=not by_graph
        )
        layers = find_layers(graph)
        if expected is not None and expected.names != layers.names:
            raise UserError(
                f"{title} runs as {len(layers.names)} layers here, but its graph has "
                f'{len(expected.names)}: this device fuses some of them. Measure it by="modules"'
            )
        named = dict(module.named_parameters())
        groups = [[named[parameter.name] for parameter in layer] for layer in layers.trained]
        if by_graph:
            marking = stopwatch.by_operators(layers.of_operators)
        else:
            marking = stopwatch.by_modules(module, layers.names)
        clock = stopwatch.clock_for(device)
        whole: list[float] = []
        layered: list[list[list[float]]] = []  # [turn][forward, backward, update][layer]
        for turn in range(warmup + repeats):
            progress(f"{title} on {device}", turn, warmup + repeats)
            whole.append(stopwatch.whole_iteration_s(module, run, clock))
            forward_s, backward_s = stopwatch.layered_iteration_s(
                module, run, clock, marking, len(groups)
            )
            layered.append([forward_s, backward_s, stopwatch.update_s(groups, clock)])
        progress(f"{title} on {device}", warmup + repeats, warmup + repeats)

    whole_s, layered_s = np.array(whole[warmup:]), np.array(layered[warmup:])
    quiet = quieter_half(whole_s + layered_s[:, :2].sum((1, 2)))
    medians, spreads = np.median(layered_s[quiet], 0), _iqr(layered_s)
    iteration_s, iteration_iqr_s = np.median(whole_s[quiet]), _iqr(whole_s)
    columns = [layers.names, *medians.tolist(), *spreads.tolist()]
    table = pl.DataFrame(dict(zip(SCHEMA, columns, strict=True)), schema=SCHEMA)
    return LayerTimes(
        title,
        batch_size,
        device,
        table,
        float(iteration_s),
        float(iteration_iqr_s),
        kernels_of(device),
    )


def kernels_of(device: str) -> str:
    """Return what PyTorch computes with on a device: kernels and threads, or the GPU's name."""
    if not device.startswith("cuda"):
        return instruction_set.kernels()

    import torch

    return torch.cuda.get_device_name(device)


def check_device(device: str) -> None:
    """Refuse a device that is neither the processor nor a GPU that PyTorch finds here."""
    kind = device.split(":", maxsplit=1)[0]
    if kind not in ("cpu", "cuda"):
        raise UserError(f"device is {device!r}; 'cpu' and 'cuda' can be measured")
    if kind == "cpu":
        return

    import torch

    if not torch.cuda.is_available():
        raise UserError(
            f"device {device!r} was asked for, but PyTorch finds no CUDA GPU on this machine; "
            "measure on device='cpu', or install a PyTorch built for CUDA"
        )


def quieter_half(turn_s: np.ndarray) -> np.ndarray:
    """Numbers of the faster turns, just over half of them: others may have had company."""
    return np.argsort(turn_s, kind="stable")[: len(turn_s) // 2 + 1]


def _iqr(samples: np.ndarray) -> np.ndarray:
    lower, upper = np.percentile(samples, [25, 75], axis=0)
    return np.asarray(upper - lower)
