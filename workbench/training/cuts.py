"""A module's calls by layer: what each layer runs, and what crosses the cut behind it.

What is computed from no sample (from parameters alone, say) is in no layer: it is computed anew
wherever it is needed. Only where it writes into what the module holds it is in a layer, and is
computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from workbench.graphs.layers import CONSTANT

if TYPE_CHECKING:
    from torch import Tensor, nn

    from workbench.graphs.calls import Call, CallGraph
    from workbench.graphs.graph import View


@dataclass(frozen=True, eq=False)
class Crossing:
    """A tensor that crosses a cut: its numbers in the graph, if several calls return the same."""

    numbers: tuple[int, ...]
    storage: int
    bytes_per_sample: int


@dataclass(frozen=True, eq=False)
class LayeredCalls:
    """Calls of a module, each in its layer from 1."""

    name: str
    graph: CallGraph

    def __len__(self) -> int:
        return len(self.graph.layers.names)

    def run(
        self, module: nn.Module, first: int, last: int, tensors: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Run layers `first` to `last` of the module; see `Pieces.run`."""
        graph, calls = self.graph, self._needed(first, last)
        written = {graph.storage(view) for call in calls for _, view in call.writes}
        known: dict[int, Tensor] = {}
        for crossing, tensor in zip(self._before(first), tensors, strict=True):
            # What others sent is theirs, and a leaf that needs a gradient cannot be written to.
            own = tensor.clone() if crossing.storage in written else tensor
            known |= dict.fromkeys(crossing.numbers, own)
        graph.run(calls, module, known, like=tensors[0])
        if last == len(self):
            leaving = [number for number, _ in graph.outputs]
        else:
            leaving = [crossing.numbers[0] for crossing in self.crossings[last - 1]]
        return tuple(graph.tensor(number, module, known) for number in leaving)

    @cached_property
    def inputs(self) -> tuple[Crossing, ...]:
        """What the module takes."""
        return tuple(self._crossing({number: view}) for number, view in self.graph.inputs)

    @cached_property
    def crossings(self) -> tuple[tuple[Crossing, ...], ...]:
        """What crosses the cut behind layer 1, 2, ..., N-1."""
        return tuple(self._behind(cut) for cut in range(1, len(self)))

    @cached_property
    def names_used(self) -> tuple[frozenset[str], ...]:
        """Names of the module's parameters and buffers that each layer uses."""
        sources = self.graph.sources
        used = (
            (sources[number] for call in self._needed(layer, layer) for number, _ in call.reads)
            for layer in range(1, len(self) + 1)
        )
        return tuple(frozenset(one for one in names if isinstance(one, str)) for names in used)

    def check(self) -> None:
        """Refuse calls of several layers, and writes that would come too early.

        Running the layers one after another, a write of an early layer comes before what a later
        layer has read in the module before it.
        """
        read_in: dict[int, int] = {}  # storage -> last layer to read it
        first_uses = self.graph.layers.first_uses
        for call, layer in zip(self.graph.calls, self._layers, strict=True):
            alone = {first_uses[index] for index in call.operators if index in first_uses}
            if len(alone) > 1:
                raise ValueError(
                    f"{self.name} cannot be cut: {call.name!r} alone makes layers {min(alone)} to "
                    f"{max(alone)}; build it of smaller parts"
                )
            for _, view in call.writes:
                last = read_in.get(self.graph.storage(view), 0)
                if last > layer and self.graph.layer_of(view) != CONSTANT:
                    raise ValueError(
                        f"{self.name} cannot be cut: {call.name!r} of layer {layer} changes in "
                        f"place what layer {last} needs unchanged; let it return a new tensor"
                    )
            for _, view in call.reads:
                storage = self.graph.storage(view)
                read_in[storage] = max(layer, read_in.get(storage, 0))
        assert self.crossings is not None  # what cannot cross is refused now

    @cached_property
    def _layers(self) -> list[int]:
        """Layer of each call."""
        graph, layers = self.graph, []
        held = {
            graph.storage(view)
            for call in graph.calls
            for number, view in call.reads
            if isinstance(graph.sources[number], str)
        }
        for call in graph.calls:
            layer = max(graph.layer_of(view) for _, view in (*call.results, *call.writes))
            if layer == CONSTANT and any(graph.storage(view) in held for _, view in call.writes):
                layer = max(graph.layers.of_operators[index] for index in call.operators)
            layers.append(layer)
        return layers

    @cached_property
    def _touched(self) -> tuple[dict[int, int], dict[int, int]]:
        """First layer in which samples touch each tensor, by number, and each storage."""
        tensors = {number: 0 for number, _ in self.graph.inputs}
        storages: dict[int, int] = {}
        for call, layer in zip(self.graph.calls, self._layers, strict=True):
            for number, view in (*call.results, *call.writes):
                if self.graph.layer_of(view) != CONSTANT:
                    tensors.setdefault(number, layer)
                    storages.setdefault(self.graph.storage(view), layer)
        return tensors, storages

    @cached_property
    def _makers(self) -> dict[int, list[int]]:
        """Calls on no sample that return each tensor, or write into its storage."""
        graph = self.graph
        constant = [index for index, layer in enumerate(self._layers) if layer == CONSTANT]
        writers: dict[int, list[int]] = {}
        for index in constant:
            for _, view in graph.calls[index].writes:
                writers.setdefault(graph.storage(view), []).append(index)
        makers: dict[int, list[int]] = {}
        for index in constant:
            for number, view in graph.calls[index].results:
                makers.setdefault(number, [index, *writers.get(graph.storage(view), [])])
        return makers

    def _needed(self, first: int, last: int) -> list[Call]:
        """Calls to run for some layers, in their order."""
        graph = self.graph
        chosen = {index for index, layer in enumerate(self._layers) if first <= layer <= last}
        done = {number for crossing in self._before(first) for number in crossing.numbers}
        waiting = [number for index in chosen for number, _ in graph.calls[index].reads]
        if last == len(self):
            waiting += [number for number, _ in graph.outputs]
        while waiting:
            number = waiting.pop()
            if number not in done:
                done.add(number)
                for index in self._makers.get(number, []):
                    chosen.add(index)
                    waiting += [read for read, _ in graph.calls[index].reads]
        return [graph.calls[index] for index in sorted(chosen)]

    def _before(self, layer: int) -> tuple[Crossing, ...]:
        return self.inputs if layer == 1 else self.crossings[layer - 2]

    def _behind(self, cut: int) -> tuple[Crossing, ...]:
        """What layers up to `cut` make and later ones need, once where it is the same."""
        graph, (tensors, storages) = self.graph, self._touched
        later = [call for call, layer in zip(graph.calls, self._layers, strict=True) if layer > cut]
        written = {graph.storage(view) for call in later for _, view in call.writes}
        needed = {*graph.outputs, *(read for call in later for read in call.reads)}
        alike: dict[tuple[object, ...], dict[int, View]] = {}
        for number, view in sorted(needed, key=lambda one: one[0]):
            storage = graph.storage(view)
            if graph.layer_of(view) == CONSTANT:
                continue
            if (tensors[number] if number in tensors else storages[storage]) > cut:
                continue
            place = (storage, view.offset, view.shape, view.strides)
            alike.setdefault(place, {})[number] = view
            if number not in graph.with_samples:
                why = "does not have the samples in its first dimension, so they cannot be split"
            elif storage in written and sum(other[0] == storage for other in alike) > 1:
                why = "is one of several views that cross, and a later layer writes into them"
            else:
                continue
            names = (call.name for call in graph.calls if number in dict(call.results))
            raise ValueError(
                f"{self.name} cannot be cut behind layer {cut}: {next(names, 'an input')!r} of "
                f"shape {view.shape} {why}"
            )
        return tuple(map(self._crossing, alike.values()))

    def _crossing(self, same: dict[int, View]) -> Crossing:
        view = next(iter(same.values()))
        return Crossing(tuple(same), self.graph.storage(view), view.size_bytes // view.shape[0])
