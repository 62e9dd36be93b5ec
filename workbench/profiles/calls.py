"""A module as the calls of PyTorch that its code makes, which can be run again, some or all.

A call (``torch.relu``, ``Tensor.view``, ``functional.batch_norm``) is seen above autograd, and one
or several operators below do it. Run again, a call has the gradients and, on any device, the
kernels that it has in the module; operators have not, since they were chosen for meta tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import zip_longest
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.fx.node import map_aggregate
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from workbench.profiles.attention import MULTI_HEAD, multi_head
from workbench.profiles.autograd_nodes import nodes_behind
from workbench.profiles.copies import copy_modes, held_tensors, meta_copy
from workbench.profiles.graph import UntraceableError, View
from workbench.profiles.inputs import Inputs, make_inputs
from workbench.profiles.layers import CONSTANT, Layers, find_layers
from workbench.profiles.recorder import Recorder, tensors_in
from workbench.profiles.recording import as_compiled, run

# Two, since batch normalisation refuses one. Three and a large prime show what changes with the
# number of samples: halves and remainders of small numbers may look alike.
BATCHES = (2, 3, 1009)


@dataclass(frozen=True)
class Ref:
    """Placeholder of a tensor among arguments, by number."""

    tensor: int


@dataclass(frozen=True)
class PerSample:
    """Placeholder of a number that grows with the samples: ``constant + slope * samples``."""

    constant: float
    slope: float


@dataclass(frozen=True, eq=False)
class Call:
    """A call of PyTorch; tensors, values and operators by number."""

    function: Callable[..., Any]
    arguments: Any  # positional and by name, with `Ref` and `PerSample` in them
    reads: tuple[int, ...]
    results: tuple[int, ...]
    writes: tuple[int, ...]  # arguments that it changes
    values: tuple[int, ...]  # after it: of its results, then of what it writes into
    operators: range  # operators that do it
    with_gradient: bool  # whether autograd may record it

    @property
    def name(self) -> str:
        """The function's name."""
        return str(getattr(self.function, "__name__", self.function))


@dataclass(frozen=True, eq=False)
class CallTensor:
    """A tensor of a `CallGraph`; where it is, for a batch of two.

    Its source is the name under which the module holds it, a constant of the module's code, or
    None for inputs and results of calls.
    """

    source: str | Tensor | None
    storage: int
    view: View
    samples: int | None = None  # dimension that they are in


@dataclass(frozen=True, eq=False)
class CallGraph:
    """Calls of a module in their order, and the layers of the operators that do them."""

    calls: tuple[Call, ...]
    tensors: tuple[CallTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    layers: Layers

    def run(
        self,
        calls: Sequence[Call],
        module: nn.Module,
        known: dict[int, Tensor],
        like: Tensor,
        wanted: Iterable[int],
    ) -> None:
        """Run calls, adding what they return to the known tensors, by number.

        `like` is any tensor of the batch: its samples and device are those of all. Tensors that
        are neither `wanted` nor read by a later call are dropped.
        """

        def value(argument: Any) -> Any:
            if isinstance(argument, Ref):
                return self.tensor(argument.tensor, module, known)
            if isinstance(argument, PerSample):
                return argument.constant + argument.slope * len(like)
            on_meta = isinstance(argument, torch.device) and argument.type == "meta"
            return like.device if on_meta else argument

        last_uses = dict[int, int]()
        for at, call in enumerate(calls):
            last_uses |= dict.fromkeys((*call.results, *call.reads), at)
        done: list[list[int]] = [[] for _ in calls]
        for number in last_uses.keys() - set(wanted):
            done[last_uses[number]].append(number)
        for at, call in enumerate(calls):
            args, kwargs = map_aggregate(call.arguments, value)
            with nullcontext() if call.with_gradient else torch.no_grad():
                results = tensors_in(call.function(*args, **kwargs))
            known.update(zip(call.results, results, strict=True))
            del args, kwargs, results
            for number in done[at]:
                known.pop(number, None)

    def tensor(self, number: int, module: nn.Module, known: Mapping[int, Tensor]) -> Tensor:
        """Return a tensor by its number: a known one, else one that the module holds."""
        if number in known:
            return known[number]
        source = self.tensors[number].source
        tensor = attrgetter(source)(module) if isinstance(source, str) else source
        assert isinstance(tensor, Tensor)
        return tensor


def trace_calls(module: nn.Module, inputs: Inputs) -> CallGraph:
    """Trace a module in the modes in which its parts are.

    Beside the errors of `workbench.memory.trace`, an `UntraceableError` where it has a gradient of
    its own, or depends on the number of samples otherwise than in proportion.
    """
    name = type(module).__name__
    copied = meta_copy(name, module)
    copy_modes(module, copied)
    held = dict(copied.named_parameters()) | held_tensors(copied)
    two, three, many = as_compiled(
        lambda: [_recorded(name, copied, inputs, batch, held) for batch in BATCHES]
    )
    if len({(len(recorded.calls), len(recorded.tensors)) for recorded in (two, three, many)}) > 1:
        raise UntraceableError(
            f"{name} cannot be cut: it makes more or fewer calls, or tensors, as the number of "
            "samples changes"
        )
    alike = zip(two.calls, three.calls, many.calls, strict=True)
    calls = tuple(_joined(name, *same) for same in alike)
    shapes_of = zip(two.tensors, (tensor.view.shape for tensor in three.tensors), strict=True)
    tensors = (
        replace(tensor, samples=_samples(tensor.view.shape, shape)) for tensor, shape in shapes_of
    )
    return replace(two, calls=calls, tensors=tuple(tensors))


def _samples(two: tuple[int, ...], three: tuple[int, ...]) -> int | None:
    """Find the only dimension that differs, if it is as long as the batch."""
    differing = [at for at, pair in enumerate(zip(two, three, strict=True)) if len(set(pair)) > 1]
    is_batch = [(two[at], three[at]) for at in differing] == [BATCHES[:2]]
    return differing[0] if is_batch else None


class _CallRecorder(TorchFunctionMode):
    """Follows the calls of one forward pass, beside a `Recorder` of its operators."""

    def __init__(
        self, recorder: Recorder, held: Mapping[str, Tensor], inputs: Sequence[Tensor]
    ) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.tensors: list[CallTensor] = []
        self._recorder = recorder
        self._numbers: Any = WeakIdKeyDictionary()
        for tensor in inputs:
            self._add(tensor, None)
        for name, tensor in held.items():
            self._add(tensor, name)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is Tensor.__iter__:
            return iter(self.__torch_function__(Tensor.unbind, types, args))
        if func is MULTI_HEAD:
            result = multi_head(self._call, args, kwargs or {})
            if result is not None:
                return result
        arguments = map_aggregate((args, kwargs or {}), self._ref)
        read = [leaf for leaf in _leaves((args, kwargs or {})) if isinstance(leaf, Tensor)]
        versions = [tensor._version for tensor in read]
        first, with_gradient = len(self._recorder.operators), torch.is_grad_enabled()
        result = func(*args, **(kwargs or {}))
        made = tensors_in(result)
        written = [
            tensor for tensor, was in zip(read, versions, strict=True) if tensor._version != was
        ]
        if written or any(tensor not in self._numbers for tensor in made):
            for tensor in made:
                self._add(tensor, None)
            self.calls.append(
                Call(
                    func,
                    arguments,
                    self.numbers(read),
                    self.numbers(made),
                    self.numbers(written),
                    tuple(self._recorder.view(tensor).value for tensor in (*made, *written)),
                    range(first, len(self._recorder.operators)),
                    with_gradient,
                )
            )
        return result

    def _call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        return self.__torch_function__(function, (), args, kwargs)

    def numbers(self, tensors: Iterable[Tensor]) -> tuple[int, ...]:
        """Look up tensors; those that no call has made are constants of the module's code."""
        return tuple(self._add(tensor, tensor) for tensor in tensors)

    def _add(self, tensor: Tensor, source: str | Tensor | None) -> int:
        if tensor not in self._numbers:
            self._numbers[tensor] = len(self.tensors)
            view = self._recorder.view(tensor)
            self.tensors.append(CallTensor(source, self._recorder.storage(view), view))
        return int(self._numbers[tensor])

    def _ref(self, argument: Any) -> Any:
        return Ref(self._add(argument, argument)) if isinstance(argument, Tensor) else argument


def _recorded(
    name: str, module: nn.Module, inputs: Inputs, batch_size: int, held: Mapping[str, Tensor]
) -> CallGraph:
    tensors, names = make_inputs(inputs, batch_size, "meta"), [wanted.name for wanted in inputs]
    recorder = Recorder(dict(module.named_parameters()), tensors, names=names)
    calls = _CallRecorder(recorder, held, tensors)
    outputs = run(name, module, tensors, recorder, calls, names=names)
    taken, returned = calls.numbers(tensors), calls.numbers(outputs)
    layers = find_layers(recorder.graph(outputs))
    for node in nodes_behind(outputs):
        if issubclass(type(node), BackwardCFunction):
            raise UntraceableError(
                f"{name} cannot be cut: {node.name()} is of a torch.autograd.Function, whose "
                "gradient is not that of its calls"
            )
    for tensor in calls.tensors:
        on_samples = layers.of_values[tensor.view.value] != CONSTANT
        if isinstance(tensor.source, Tensor) and (tensor.source.is_meta or on_samples):
            raise UntraceableError(
                f"{name} cannot be cut: it computes with other means than the calls of PyTorch"
            )
    return CallGraph(tuple(calls.calls), tuple(calls.tensors), taken, returned, layers)


def _joined(name: str, two: Call, three: Call, many: Call) -> Call:
    """Join the records of one call for the batches of `BATCHES`."""

    def common(a: Any, b: Any, c: Any) -> Any:
        if type(a) is type(b) is type(c) and a == b == c:
            return a
        if all(
            isinstance(number, int | float) and not isinstance(number, bool) for number in (a, b, c)
        ):
            slope = b - a
            if math.isclose(a + slope * (BATCHES[2] - BATCHES[0]), c, rel_tol=1e-12):
                return PerSample(a - slope * BATCHES[0], slope)
        raise UntraceableError(
            f"{name} cannot be cut: it calls {two.name!r} with arguments that neither stay the "
            "same nor grow in proportion to the number of samples"
        )

    arguments = (_leaves((call.name, call.arguments)) for call in (two, three, many))
    _, *joined = (common(*same) for same in zip_longest(*arguments))
    leaves = iter(joined)
    return replace(two, arguments=map_aggregate(two.arguments, lambda _: next(leaves)))


def _leaves(tree: Any) -> list[Any]:
    leaves: list[Any] = []
    map_aggregate(tree, leaves.append)
    return leaves
