"""Bytes and FLOPs of each layer of a model, from its graph alone: no weights, no compute."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.profiles.graph import OperatorGraph, View
from workbench.profiles.inputs import Inputs, InputShape, inputs_of
from workbench.profiles.layers import CONSTANT, Layers, find_layers
from workbench.profiles.model_profile import SCHEMA, ModelProfile, Tied
from workbench.profiles.tracing import BATCH, By, follow
from workbench.utils.files import DATA
from workbench.zoo import MODELS

if TYPE_CHECKING:
    import torch

STORED = DATA / "profiles" / "zoo.json"
"""Costs of the zoo's models at their own input shapes, known without PyTorch.

`scripts/trace_zoo.py` writes it.
"""


class Costs(NamedTuple):
    """A model's profile, and what `moved_bytes` gives."""

    profile: ModelProfile
    moved: NDArray[np.int64]


def profile_model(
    model: str | torch.nn.Module,
    input_shape: InputShape | None = None,
    *,
    input_dtype: str | None = None,
    by: By = "graph",
    name: str | None = None,
) -> ModelProfile:
    """Profile a model of the zoo or any module: its chain of layers and what each costs.

    See `workbench.profiles.layers` for the rule that makes it a chain. The module is traced in
    training mode, forward and backward, and not touched. What the zoo's models cost at their own
    input shapes is stored (`STORED`).

    FLOPs are those of the operators that ``torch.utils.flop_counter`` counts (convolutions,
    matrix products, attention), two per multiply-add; elementwise work, pooling and look-ups
    count nothing. Backward FLOPs are the gradients by weight and by input. Frozen parameters
    (``requires_grad`` is false) need none and do not travel, and inputs need one only where
    something is trained below them.

    Parameters
    ----------
    model, input_shape, input_dtype, by
        As for `workbench.memory.trace`, whose errors it raises.
    name
        What to call a user's module; its class's name by default.
    """
    profile = _costs(model, input_shape, input_dtype, by).profile
    return profile if name is None or isinstance(model, str) else replace(profile, name=name)


def moved_bytes(
    model: str | torch.nn.Module,
    input_shape: InputShape | None = None,
    *,
    input_dtype: str | None = None,
) -> NDArray[np.int64]:
    """Bytes per sample that each layer's operators read and write on the way forward.

    For machines on which small layers wait for memory rather than for arithmetic. Every operator
    reads the activations that it is given and writes its own; a convolution with a kernel above
    1x1 also writes its input unfolded, a patch per output pixel, and reads that, as one by matrix
    products does. Views move nothing. Parameters are left out: they are read once a batch.

    The array is of shape (N,), in the order of the layers of `profile_model`, whose arguments and
    errors these are; read-only.
    """
    return _costs(model, input_shape, input_dtype, "graph").moved


def zoo_as_json(names: Iterable[str] = MODELS) -> bytes:
    """Trace models of the zoo at their own input shapes; give the stored file, a line each."""
    lines = []
    for name in names:
        profile, moved = _traced(name, inputs_of(name, None), "graph")
        costs = profile.table.to_dict(as_series=False) | {
            "tensor_bytes": profile.tensor_bytes,
            "sample_bytes": profile.sample_bytes,
            "moved_bytes": moved.tolist(),
            "tied": profile.tied,
        }
        lines.append(f"{json.dumps(name)}: {json.dumps(costs)}")
    return ("{" + ",\n".join(lines) + "}\n").encode()


def stored_costs(name: str) -> Costs:
    """Read the stored costs of a model of the zoo."""
    costs = _stored()[name]
    moved = np.array(costs["moved_bytes"], dtype=np.int64)
    moved.setflags(write=False)
    table = pl.DataFrame({column: costs[column] for column in SCHEMA}, schema=SCHEMA)
    of_tensors, of_sample = costs["tensor_bytes"], costs["sample_bytes"]
    shape = MODELS[name].input_shape
    tied = costs["tied"]
    return Costs(ModelProfile(name, shape, table, of_tensors, of_sample, tied=tied), moved)


@cache
def _stored() -> dict[str, dict[str, Any]]:
    return dict(json.loads(STORED.read_bytes()))


def _costs(
    model: str | torch.nn.Module,
    input_shape: InputShape | None,
    input_dtype: str | None,
    by: By,
) -> Costs:
    inputs = inputs_of(model, input_shape, input_dtype)
    trace_it = _of_zoo if isinstance(model, str) else _traced
    return trace_it(model, inputs, by)


@lru_cache(maxsize=64)
def _of_zoo(name: str, inputs: Inputs, by: By) -> Costs:
    is_stored = (inputs, by) == (inputs_of(name, None), "graph")
    return stored_costs(name) if is_stored else _traced(name, inputs, by)


def _traced(model: str | torch.nn.Module, inputs: Inputs, by: By) -> Costs:
    graph = follow(model, inputs, by=by, backward=True)
    layers = find_layers(graph)
    tensor_bytes = tuple(
        tuple(parameter.size_bytes for parameter in layer) for layer in layers.trained
    )
    backward_flops = _backward_flops(graph, layers)
    table = pl.DataFrame(
        {
            "layer": layers.names,
            "param_bytes": list(map(sum, tensor_bytes)),
            "param_tensors": list(map(len, tensor_bytes)),
            "output_bytes": _per_sample(_output_bytes(graph, layers)),
            "forward_flops": _sums(layers, [operator.flops for operator in graph.operators]),
            "backward_flops": backward_flops,
        },
        schema=SCHEMA,
    )
    name = model if isinstance(model, str) else type(model).__name__
    shapes = tuple(item.shape for item in inputs)
    sample_bytes = sum(view.size_bytes for view in graph.inputs) // BATCH
    moved = np.array(_sums(layers, _moved_bytes(graph, layers)))
    moved.setflags(write=False)
    profile = ModelProfile(
        name,
        shapes[0] if len(shapes) == 1 else shapes,
        table,
        tensor_bytes,
        sample_bytes,
        tied=tuple(
            Tied(parameter.size_bytes, used_in)
            for parameter, used_in in layers.tied.items()
            if parameter.is_trained
        ),
    )
    if layers.trained != layers.parameters:
        graph = follow(model, inputs, by=by, backward=True, unfrozen=True)
        frozen = (
            (parameter.size_bytes for parameter in of if not parameter.is_trained)
            for of in layers.parameters
        )
        profile = replace(
            profile,
            frozen_bytes=tuple(map(sum, frozen)),
            unfrozen_backward_flops=tuple(_backward_flops(graph, find_layers(graph))),
        )
    return Costs(profile, moved)


def _backward_flops(graph: OperatorGraph, layers: Layers) -> list[int]:
    return _sums(layers, [graph.backward_flops[index] for index in range(len(graph.operators))])


def _sums(layers: Layers, of_operators: Sequence[int]) -> list[int]:
    """Sum per layer and sample of what each operator has for the batch."""
    sums = [0] * len(layers.names)
    for layer, amount in zip(layers.of_operators, of_operators, strict=True):
        sums[layer - 1] += amount
    return _per_sample(sums)


def _per_sample(of_batch: list[int]) -> list[int]:
    return [-(-amount // BATCH) for amount in of_batch]


def _moved_bytes(graph: OperatorGraph, layers: Layers) -> list[int]:
    """Bytes of a batch that each operator reads and writes; none where it gives but views."""
    moved = []
    for operator in graph.operators:
        read = [view for view in operator.reads if layers.of_values[view.value] != CONSTANT]
        size = sum(view.size_bytes for view in (*read, *operator.makes)) if operator.makes else 0
        moved.append(size + 2 * operator.unfolded_bytes)
    return moved


def _output_bytes(graph: OperatorGraph, layers: Layers) -> list[int]:
    """Bytes of a batch that cross the cut after each layer: made up to it, used beyond it.

    A copy does not cross: what it is made of does; nor does what attention makes within one call.
    """
    count = len(layers.names)
    run_in, made_in = list(layers.of_operators), list(layers.of_values)
    for part in graph.attention_calls:
        layer = max((run_in[at] for at in part), default=1)
        for at in part:
            run_in[at] = layer
            for view in graph.operators[at].makes:
                made_in[view.value] = layer
    copied = {
        operator.makes[0].value: operator.reads[0]
        for operator in graph.operators
        if operator.name == "clone" and operator.makes[0].size_bytes == operator.reads[0].size_bytes
    }

    def original(view: View) -> View:
        return original(copied[view.value]) if view.value in copied else view

    readers = [
        *(
            (original(view), layer)
            for operator, layer in zip(graph.operators, run_in, strict=True)
            for view in operator.reads
        ),
        *((original(view), count + 1) for view in graph.outputs),
    ]
    last_use: dict[int, dict[View, int]] = {}
    for view, layer in readers:
        if layers.of_values[view.value] != CONSTANT:
            uses = last_use.setdefault(view.value, {})
            uses[view] = max(layer, uses.get(view, 0))
    crossing = [0] * count
    for value, uses in last_use.items():
        for cut in range(made_in[value], min(max(uses.values()) - 1, count) + 1):
            needed = sum(view.size_bytes for view, last in uses.items() if last > cut)
            crossing[cut - 1] += min(needed, graph.values[value].storage_bytes)
    return crossing
