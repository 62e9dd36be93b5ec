"""What a recorder saw, summed up per layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.profiles.chain import Recorder, Value


@dataclass(frozen=True)
class Chain:
    """Layers of a module, first layer first, as one recorded pass over a batch shows them.

    `parameters` holds names per layer; `operations` the layer (from 1) of each forward operation;
    `moved_bytes` what these read and write; bytes and FLOPs are those of the whole batch.
    """

    layers: tuple[str, ...]
    parameters: tuple[tuple[str, ...], ...]
    operations: tuple[int, ...]
    output_bytes: tuple[int, ...]
    forward_flops: tuple[int, ...]
    backward_flops: tuple[int, ...]
    moved_bytes: tuple[int, ...]


def chain_of(recorder: Recorder, names: Mapping[int, str] | None = None) -> Chain:
    """Make a chain of what a recorder saw; `names` of layers, where they are known already."""
    count = recorder.layer_count()
    layers = range(1, count + 1)
    parameters: list[list[str]] = [[] for _ in layers]
    home = 1
    for index, name in enumerate(recorder.names):
        home = recorder.home.get(index, home)
        parameters[home - 1].append(name)

    def title(layer: int) -> str:
        if names and layer in names:
            return names[layer]
        bearers = recorder.bearers.get(layer) or parameters[layer - 1]
        others = len(recorder.bearers.get(layer, [])) - 1
        return bearers[0] + (f" +{others}" if others > 0 else "")

    forward, backward, moved = [0] * count, [0] * count, [0] * count
    for operation in recorder.operations:
        forward[operation.layer - 1] += operation.forward_flops
        backward[operation.layer - 1] += operation.backward_flops
        moved[operation.layer - 1] += operation.moved_bytes
    return Chain(
        tuple(title(layer) for layer in layers),
        tuple(tuple(names) for names in parameters),
        tuple(operation.layer for operation in recorder.operations),
        tuple(_crossing_bytes(recorder.values, count)),
        tuple(forward),
        tuple(backward),
        tuple(moved),
    )


def _crossing_bytes(values: list[Value], count: int) -> list[int]:
    """Bytes that cross the cut after each layer: made up to it, used beyond it."""
    crossing = [0] * count
    for value in values:
        last_use = max((last for _, last in value.uses.values()), default=0)
        for cut in range(max(value.made_in, 1), min(last_use - 1, count) + 1):
            needed = sum(size for size, last in value.uses.values() if last > cut)
            crossing[cut - 1] += min(needed, value.storage_bytes)
    return crossing
