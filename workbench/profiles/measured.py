"""What each layer of a model takes on this machine, measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from workbench.profiles.analytic import By, check_by, input_shapes
from workbench.profiles.layer_times import SCHEMA, LayerTimes, check_batch_size
from workbench.zoo import build

if TYPE_CHECKING:
    import torch

    from workbench.profiles.recorded import Chain

Progress = Callable[[str, int, int], object]


def measure_layer_times(
    model: str | torch.nn.Module,
    batch_size: int,
    input_shape: Sequence[int] | Sequence[Sequence[int]] | None = None,
    *,
    device: str = "cpu",
    warmup: int = 1,
    repeats: int = 5,
    input_dtype: str = "float32",
    by: By = "graph",
    name: str | None = None,
    progress: Progress | None = None,
) -> LayerTimes:
    """Measure forward, backward and update seconds of every layer on this machine.

    A copy of the module trains on random numbers, in turns undisturbed and with a clock that
    switches where the next layer starts, `warmup` times unrecorded and then `repeats` times. The
    undisturbed iterations tell how far the layers' sum can be trusted: see
    `LayerTimes.layers_over_iteration`.

    Medians are over the faster half of the turns, since other programs only ever add time;
    interquartile ranges are over all of them, and so show how busy the machine was.

    Parameters
    ----------
    model, input_shape, input_dtype, name
        As for `profile_model`, whose layers these are.
    batch_size
        Samples in the batch.
    device
        ``"cpu"`` or ``"cuda"``.
    warmup, repeats
        Iterations of either kind, unrecorded and recorded.
    by
        ``"graph"`` or ``"modules"``, as for `profile_model`.
    progress
        Called before each iteration as ``progress(what, done, total)``.

    Raises
    ------
    UntraceableError
        The module's control flow depends on data, and `by` is ``"graph"``; a `ValueError`.
    ValueError
        A `batch_size`, `warmup`, `repeats`, `device` or input that cannot be; see also
        `profile_model`.
    """
    shapes = input_shapes(model, input_shape)
    check_by(by)
    check_batch_size(batch_size)
    if warmup < 0 or repeats < 1:
        raise ValueError(f"warmup={warmup}, repeats={repeats}: at least 0 and at least 1, please")

    from workbench.profiles import stopwatch, tracing

    _check_device(device)
    title = name or (model if isinstance(model, str) else type(model).__name__)
    if isinstance(model, str):
        module = build(model, device)
    else:
        tracing.check_has_parameters(title, model)
        module = tracing.real_copy(title, model, device)
    inputs = tracing.make_inputs(shapes, batch_size, input_dtype, device)

    with tracing.learning():
        expected = _expected_layers(title, module, shapes, input_dtype) if by == "graph" else None
        chain = tracing.record(
            title, module, inputs, by_modules=by == "modules", backward=expected is None
        )
        _check_same_layers(title, expected, chain)
        named = dict(module.named_parameters())
        groups = [[named[parameter] for parameter in names] for names in chain.parameters]
        marking = (
            stopwatch.by_operations(chain.operations)
            if by == "graph"
            else stopwatch.by_modules(module, chain.layers)
        )
        clock = stopwatch.clock_for(device)
        whole: list[float] = []
        layered: list[list[list[float]]] = []  # [turn][forward, backward, update][layer]
        for turn in range(warmup + repeats):
            if progress:
                progress(f"{title} on {device}", turn, warmup + repeats)
            whole.append(stopwatch.whole_iteration_s(module, inputs, clock))
            forward_s, backward_s = stopwatch.layered_iteration_s(
                module, inputs, clock, marking, len(groups)
            )
            layered.append([forward_s, backward_s, stopwatch.update_s(groups, clock)])
        if progress:
            progress(f"{title} on {device}", warmup + repeats, warmup + repeats)

    whole_s, layered_s = np.array(whole[warmup:]), np.array(layered[warmup:])
    quiet = quieter_half(whole_s + layered_s[:, :2].sum((1, 2)))
    medians, spreads = np.median(layered_s[quiet], 0), _iqr(layered_s)
    iteration_s, iteration_iqr_s = np.median(whole_s[quiet]), _iqr(whole_s)
    columns = [chain.layers, *medians.tolist(), *spreads.tolist()]
    table = pl.DataFrame(dict(zip(SCHEMA, columns, strict=True)), schema=SCHEMA)
    return LayerTimes(title, batch_size, device, table, float(iteration_s), float(iteration_iqr_s))


def _expected_layers(
    title: str, module: torch.nn.Module, shapes: tuple[tuple[int, ...], ...], input_dtype: str
) -> tuple[str, ...]:
    """Layers of the meta trace, which also refuses a module that cannot be traced."""
    from workbench.profiles import tracing

    inputs = tracing.make_inputs(shapes, 2, input_dtype, "meta")
    meta = tracing.meta_copy(title, module)
    return tracing.record(title, meta, inputs, backward=False).layers


def _check_same_layers(title: str, expected: tuple[str, ...] | None, found: Chain) -> None:
    if expected is not None and expected != found.layers:
        raise ValueError(
            f"{title} runs as {len(found.layers)} layers here, but its graph has {len(expected)}: "
            'this device fuses some of them. Measure it by="modules"'
        )


def _check_device(device: str) -> None:
    import torch

    kind = device.split(":", maxsplit=1)[0]
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"device is {device!r}; 'cpu' and 'cuda' can be measured")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device {device!r} was asked for, but PyTorch finds no CUDA GPU on this machine; "
            "measure on device='cpu', or install a PyTorch built for CUDA"
        )


def quieter_half(turn_s: np.ndarray) -> np.ndarray:
    """Which turns to believe: the faster ones, just over half of them.

    Other programs only ever add time, and often a multiple of it, for some turns and not others;
    the median of all turns would then be the median of two different machines.
    """
    return np.argsort(turn_s, kind="stable")[: len(turn_s) // 2 + 1]


def _iqr(samples: np.ndarray) -> np.ndarray:
    lower, upper = np.percentile(samples, [25, 75], axis=0)
    return np.asarray(upper - lower)
