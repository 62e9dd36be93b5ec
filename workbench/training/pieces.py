"""A module cut into its layers, each of which can run alone.

The layers are those of the module's profile, and what crosses a cut is what the profile counts,
samples first. Calls are traced by `workbench.profiles.calls`: torch.fx, and so its
``split_module``, follows no loop over a tensor's parts or sizes, and leaves PyTorch's own
transformers in one piece.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from workbench.profiles import find_layers, follow, inputs_of
from workbench.profiles.inputs import Inputs, InputShape
from workbench.profiles.layers import CONSTANT
from workbench.utils.checks import UserError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from workbench.profiles.calls import Call, CallGraph

    Modes = tuple[bool, ...]


_REARRANGING = frozenset(
    (
        *("contiguous", "flatten", "movedim", "permute", "reshape", "squeeze", "swapaxes"),
        *("t", "transpose", "unflatten", "unsqueeze", "view"),
    )
)
"""Calls of PyTorch that give all that they are given, in another order or form."""

Crossing = tuple[int, ...]  # numbers of a tensor in the graph; several, if it has several names


@dataclass(frozen=True, eq=False)
class LayeredCalls:
    """Calls of a module, each in its layer from 1: what a layer runs, and what crosses the cut.

    What is computed from no sample (from parameters alone, say) is in no layer: it is computed
    again wherever it is needed. Only where it writes into the module's own tensors (a counter of
    batches) is it computed once, in the layer of the call on samples that follows.
    """

    name: str
    graph: CallGraph

    def __len__(self) -> int:
        return len(self.graph.layers.names)

    def run(
        self, module: nn.Module, first: int, last: int, tensors: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Run layers `first` to `last` of the module; see `Pieces.run`."""
        calls = self._needed(first, last)
        known: dict[int, Tensor] = {}
        written = {self._storage(number) for call in calls for number in call.writes}
        for crossing, tensor in zip(self.entering(first), tensors, strict=True):
            # What others sent is theirs, and a leaf that needs a gradient cannot be written to.
            own = tensor.clone() if self._storage(crossing[0]) in written else tensor
            axis = 0 if first == 1 else self.graph.tensors[crossing[0]].samples or 0
            own = own.movedim(0, axis).contiguous() if axis else own
            known |= dict.fromkeys(crossing, own)
        is_last = last == len(self)
        leaving = self.graph.outputs if is_last else [each[0] for each in self.entering(last + 1)]
        self.graph.run(calls, module, known, tensors[0], leaving)
        if is_last:
            return tuple(self.graph.tensor(number, module, known) for number in leaving)
        return tuple(known[n].movedim(self.graph.tensors[n].samples or 0, 0) for n in leaving)

    def entering(self, layer: int) -> tuple[Crossing, ...]:
        """Inputs of a layer: what crosses the cut before it, or the module's inputs."""
        return self._entering[layer - 1]

    def bytes_per_sample(self, layer: int) -> int:
        """Bytes of a layer's inputs."""
        entering = (self.graph.tensors[crossing[0]] for crossing in self.entering(layer))
        return sum(x.view.size_bytes // x.view.shape[x.samples or 0] for x in entering)

    @cached_property
    def names_used(self) -> tuple[frozenset[str], ...]:
        """Names of the module's parameters and buffers that each layer uses."""
        used = []
        for layer in range(1, len(self) + 1):
            read = {number for call in self._needed(layer, layer) for number in call.reads}
            sources = (self.graph.tensors[number].source for number in read)
            used.append(frozenset(source for source in sources if isinstance(source, str)))
        return tuple(used)

    def check(self) -> None:
        """Refuse a call of several layers, and a write that would come too early.

        Where layers run one after another, an early layer's write comes before all that later
        layers read.
        """
        read_in: dict[int, int] = defaultdict(int)  # storage -> last layer to read it
        first_uses = self.graph.layers.first_uses
        for call, layer in self._layered:
            alone = {first_uses[index] for index in call.operators if index in first_uses}
            if len(alone) > 1:
                raise UserError(
                    f"{self.name} cannot be cut: {call.name!r} alone makes layers {min(alone)} to "
                    f"{max(alone)}; build it of smaller parts"
                )
            last = max((read_in[self._storage(number)] for number in call.writes), default=0)
            if last > layer and self._on_samples(call):
                raise UserError(
                    f"{self.name} cannot be cut: {call.name!r} of layer {layer} changes in place "
                    f"what layer {last} needs unchanged; let it return a new tensor"
                )
            for number in call.reads:
                storage = self._storage(number)
                read_in[storage] = max(layer, read_in[storage])
        _ = self._entering  # what cannot cross is refused now

    def _storage(self, number: int) -> int:
        return self.graph.tensors[number].storage

    def _on_samples(self, call: Call) -> bool:
        return any(self.graph.layers.of_values[value] != CONSTANT for value in call.values)

    @cached_property
    def _layered(self) -> list[tuple[Call, int]]:
        """All calls, each with its layer; `CONSTANT` for a call of no layer."""
        held = {tensor.storage for tensor in self.graph.tensors if isinstance(tensor.source, str)}
        written = {self._storage(number) for call in self.graph.calls for number in call.writes}
        read_in = dict.fromkeys(self.graph.outputs, 0)  # first layer that reads a tensor
        layered, following = [], len(self)
        for call in reversed(self.graph.calls):
            layer = max(self.graph.layers.of_values[value] for value in call.values)
            if layer != CONSTANT:
                following = layer
            elif any(self._storage(number) in held for number in call.writes):
                layer = following
            if layer != CONSTANT and self._rearranges(call, written):
                layer = max(layer, read_in.get(call.results[0], layer))
            for number in call.reads:
                read_in[number] = min(layer, read_in.get(number, layer))
            layered.append((call, layer))
        return layered[::-1]

    def _rearranges(self, call: Call, written: set[int]) -> bool:
        """Whether it moves or loses the samples' dimension alone: it may as well run later.

        So what crosses a cut is what came before it, of the same size.
        """
        if len(call.reads) != 1 or len(call.results) != 1:
            return False
        before, after = (self.graph.tensors[numbers[0]] for numbers in (call.reads, call.results))
        return (
            getattr(call.function, "__name__", "") in _REARRANGING
            and after.samples != 0
            and before.view.size_bytes == after.view.size_bytes
            and before.view.dtype == after.view.dtype
            and after.storage not in written
        )

    @cached_property
    def _touched_in(self) -> dict[int, int]:
        """First layer in which samples touch each tensor, 0 for an input; not of constants."""
        touched, storages = dict.fromkeys(self.graph.inputs, 0), dict[int, int]()
        for call, layer in self._layered:
            if self._on_samples(call):
                for number in call.results:
                    touched.setdefault(number, layer)
            values = call.values[len(call.results) :]
            for number, value in zip(call.writes, values, strict=True):
                if self.graph.layers.of_values[value] != CONSTANT:
                    storages.setdefault(self._storage(number), layer)
        written = (tensor.storage for tensor in self.graph.tensors)
        return {n: storages[at] for n, at in enumerate(written) if at in storages} | touched

    @cached_property
    def _makers(self) -> dict[int, list[Call]]:
        """Calls that make each constant: the one that returns it, and those that write into it."""
        constant = [call for call, layer in self._layered if layer == CONSTANT]
        writers = defaultdict(list)
        for call in constant:
            for number in call.writes:
                writers[self._storage(number)].append(call)
        return {
            number: [call, *writers[self._storage(number)]]
            for call in reversed(constant)
            for number in call.results
        }

    def _needed(self, first: int, last: int) -> list[Call]:
        chosen = {call for call, layer in self._layered if first <= layer <= last}
        waiting = [number for call in chosen for number in call.reads]
        if last == len(self):
            waiting += self.graph.outputs
        done = {number for crossing in self.entering(first) for number in crossing}
        while waiting:
            number = waiting.pop()
            if number not in done:
                done.add(number)
                makers = self._makers.get(number, [])
                chosen.update(makers)
                waiting += [read for call in makers for read in call.reads]
        return [call for call in self.graph.calls if call in chosen]

    @cached_property
    def _entering(self) -> list[tuple[Crossing, ...]]:
        cuts = (self._behind(cut) for cut in range(1, len(self)))
        return [tuple((number,) for number in self.graph.inputs), *cuts]

    def _behind(self, cut: int) -> tuple[Crossing, ...]:
        """What layers up to `cut` make and later ones need, once where it is the same."""
        tensors, touched_in = self.graph.tensors, self._touched_in
        later = [call for call, layer in self._layered if layer > cut]
        written = {self._storage(number) for call in later for number in call.writes}
        needed = {*self.graph.outputs, *(number for call in later for number in call.reads)}
        alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for number in sorted(needed & touched_in.keys()):
            if touched_in[number] > cut:
                continue
            storage, view = tensors[number].storage, tensors[number].view
            alike[storage, view.offset, view.shape, view.strides].append(number)
            if tensors[number].samples is None:
                why = "has no dimension of its samples alone, so they cannot be split"
            elif storage in written and sum(other == storage for other, *_ in alike) > 1:
                why = "is one of several views that cross, and a later layer writes into them"
            else:
                continue
            names = (call.name for call in self.graph.calls if number in call.results)
            raise UserError(
                f"{self.name} cannot be cut behind layer {cut}: {next(names, 'an input')!r} of "
                f"shape {view.shape} {why}"
            )
        return tuple(map(tuple, alike.values()))


@dataclass(frozen=True, eq=False)
class Pieces:
    """A module as the chain of layers of its profile, first layer first.

    The module is used as it is: its parameters, its buffers, the current mode of each of its parts.
    `layers` are names, as in ``profile_model(module, input_shape)``.
    """

    module: nn.Module
    layers: tuple[str, ...]
    _inputs: Inputs = field(repr=False)
    _calls: dict[Modes, LayeredCalls] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.layers)

    def run(self, first: int, last: int, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Run layers `first` to `last`, both included, from 1.

        Autograd records it as it would record the whole. Arguments are never written to.

        Parameters
        ----------
        tensors
            What crosses the cut before layer `first`, as `run` returned it, for any number of
            samples; the module's inputs where `first` is 1.

        Returns
        -------
        tuple of tensors, samples in the first dimension
            What crosses the cut behind layer `last`: more than one where a shortcut passes it.
            The module's outputs where `last` is the last layer.
        """
        if not 1 <= first <= last <= len(self):
            raise UserError(f"layers {first} to {last} are not within 1 to {len(self)}")
        calls = self.calls
        wanted = len(calls.entering(first))
        if len(tensors) != wanted:
            raise UserError(
                f"layer {first} of {calls.name} takes {wanted} tensors, not {len(tensors)}"
            )
        return calls.run(self.module, first, last, tuple(tensors))

    def on(self, module: nn.Module) -> Pieces:
        """Pieces of another module of the same structure, such as a replica; not traced again."""
        return replace(self, module=module)

    @property
    def crossing_bytes(self) -> tuple[int, ...]:
        """Bytes per sample that cross the cut behind each layer but the last."""
        return tuple(map(self.calls.bytes_per_sample, range(2, len(self) + 1)))

    @property
    def parameters(self) -> tuple[frozenset[str], ...]:
        """Names of the trained parameters that each layer uses; several use a tied one."""
        named = self.module.named_parameters()
        return self._used({name for name, parameter in named if parameter.requires_grad})

    @property
    def buffers(self) -> tuple[frozenset[str], ...]:
        """Names of the buffers, such as running statistics, that each layer uses."""
        return self._used({name for name, _ in self.module.named_buffers()})

    @property
    def calls(self) -> LayeredCalls:
        """Calls of each layer, in the modes that the module's parts have now."""
        modes = tuple(part.training for part in self.module.modules())
        if modes not in self._calls:
            self._calls[modes] = self._traced()
        return self._calls[modes]

    def _used(self, names: set[str]) -> tuple[frozenset[str], ...]:
        return tuple(used & names for used in self.calls.names_used)

    def _traced(self) -> LayeredCalls:
        from workbench.profiles.calls import trace_calls

        name = type(self.module).__name__
        calls = LayeredCalls(name, trace_calls(self.module, self._inputs))
        if len(calls) != len(self):
            raise UserError(
                f"{name} has {len(calls)} layers as it is set now, but {len(self)} in training; "
                "set the modes of its parts alike: module.train() or module.eval()"
            )
        calls.check()
        return calls


def cut(
    module: nn.Module,
    input_shape: InputShape,
    *,
    input_dtype: str | None = None,
) -> Pieces:
    """Cut a module into the layers of its profile.

    >>> from workbench import zoo
    >>> pieces = cut(zoo.build("lenet5"), (1, 28, 28))
    >>> import torch
    >>> features = pieces.run(1, 2, [torch.zeros(7, 1, 28, 28)])
    >>> [tuple(tensor.shape) for tensor in features]
    [(7, 400)]
    >>> [tuple(tensor.shape) for tensor in pieces.run(3, 5, features)]
    [(7, 10)]

    Arguments are those of `workbench.profiles.profile_model`; the dtype is that in which the module
    computes.

    Raises
    ------
    UserError
        As `profile_model` does. The module has a gradient of its own (`torch.autograd.Function`),
        or depends on the number of samples otherwise than in proportion. A call of PyTorch makes
        several layers (an ``nn.LSTM`` of two); a tensor that crosses a cut has no dimension of its
        samples alone, or is changed in place where another layer needs it.
    """
    inputs = inputs_of(module, input_shape, input_dtype)
    layers = find_layers(follow(module, inputs)).names
    pieces = Pieces(module, layers, inputs)
    _ = pieces.calls  # traced now, so that what cannot be cut is refused
    return pieces
