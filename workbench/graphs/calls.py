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
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.fx.node import map_aggregate
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from workbench.graphs.autograd_nodes import nodes_behind
from workbench.graphs.copies import meta_copy
from workbench.graphs.graph import OperatorGraph, UntraceableError, View
from workbench.graphs.inputs import Shapes, make_inputs
from workbench.graphs.layers import CONSTANT, Layers, find_layers
from workbench.graphs.recorder import Recorder, tensors_in
from workbench.graphs.recording import run

# Two, since batch normalisation refuses one. Three and a large prime show what changes with the
# number of samples: halves and remainders of small numbers may look alike.
BATCHES = (2, 3, 1009)


@dataclass(frozen=True)
class Ref:
    """Stands for a tensor, by number."""

    tensor: int


@dataclass(frozen=True)
class PerSample:
    """Stands for a number that grows with the samples: ``constant + slope * samples``."""

    constant: float
    slope: float


@dataclass(frozen=True, eq=False)
class Call:
    """A call of PyTorch.

    Attributes
    ----------
    arguments
        Positional and by name, with `Ref` for tensors and `PerSample` for numbers of samples.
    reads, results, writes
        Tensors by number, and what they show: its arguments before the call; what it returns and
        which arguments it wrote into, after it.
    operators
        Numbers of those that do it.
    with_gradient
        Whether autograd may record it.
    """

    function: Callable[..., Any]
    arguments: Any
    reads: tuple[tuple[int, View], ...]
    results: tuple[tuple[int, View], ...]
    writes: tuple[tuple[int, View], ...]
    operators: range
    with_gradient: bool

    @property
    def name(self) -> str:
        """The function's name."""
        return str(getattr(self.function, "__name__", self.function))


@dataclass(frozen=True, eq=False)
class CallGraph:
    """Calls of a module in their order.

    Attributes
    ----------
    sources
        Where each tensor comes from: the name under which the module holds it, a constant of the
        module's code, or None for inputs and results of calls.
    inputs, outputs
        Tensors that the module takes and returns, and what they show.
    with_samples
        Tensors that have the samples in their first dimension.
    graph, layers
        The operators that do the calls. As all that is shown, for a batch of two.
    """

    calls: tuple[Call, ...]
    sources: tuple[str | Tensor | None, ...]
    inputs: tuple[tuple[int, View], ...]
    outputs: tuple[tuple[int, View], ...]
    with_samples: frozenset[int]
    graph: OperatorGraph
    layers: Layers

    def storage(self, view: View) -> int:
        """Number of the storage that a view is of."""
        return self.graph.values[view.value].storage

    def layer_of(self, view: View) -> int:
        """Layer that made what a view shows; `CONSTANT` if no input has touched it."""
        return self.layers.of_values[view.value]

    def run(
        self, calls: Iterable[Call], module: nn.Module, tensors: dict[int, Tensor], like: Tensor
    ) -> None:
        """Run calls, adding what they return to `tensors`, by number.

        `like` is any tensor of the batch: its samples and device are those of all.
        """

        def value(argument: Any) -> Any:
            if isinstance(argument, Ref):
                return self.tensor(argument.tensor, module, tensors)
            if isinstance(argument, PerSample):
                return argument.constant + argument.slope * len(like)
            on_meta = isinstance(argument, torch.device) and argument.type == "meta"
            return like.device if on_meta else argument

        for call in calls:
            args, kwargs = map_aggregate(call.arguments, value)
            with nullcontext() if call.with_gradient else torch.no_grad():
                results = tensors_in(call.function(*args, **kwargs))
            tensors.update(zip((number for number, _ in call.results), results, strict=True))

    def tensor(self, number: int, module: nn.Module, tensors: Mapping[int, Tensor]) -> Tensor:
        """Return a tensor by its number: one of `tensors`, else what the module holds."""
        if number in tensors:
            return tensors[number]
        source = self.sources[number]
        found = attrgetter(source)(module) if isinstance(source, str) else source
        assert isinstance(found, Tensor)
        return found


def trace_calls(module: nn.Module, shapes: Shapes, dtype: str) -> CallGraph:
    """Trace a module in the modes in which its parts are.

    Raises
    ------
    UntraceableError
        The module asks for numbers, or its calls depend on the number of samples otherwise than
        in proportion.
    ValueError
        As `workbench.graphs.trace`.
    """
    name = type(module).__name__
    copied = meta_copy(name, module)
    for part, original in zip(copied.modules(), module.modules(), strict=True):
        part.training = original.training
    held = dict(copied.named_parameters()) | dict(copied.named_buffers())
    for prefix, part in copied.named_modules():
        attributes = {f"{prefix}.{key}".lstrip("."): value for key, value in vars(part).items()}
        held |= {key: value for key, value in attributes.items() if isinstance(value, Tensor)}
    two, three, many = (
        _recorded(name, copied, make_inputs(shapes, batch, dtype, "meta"), held)
        for batch in BATCHES
    )
    if not len(two.calls) == len(three.calls) == len(many.calls):
        raise UntraceableError(f"{name} makes more or fewer calls as the number of samples changes")
    alike = zip(two.calls, three.calls, many.calls, strict=True)
    joined = tuple(_joined(name, *calls) for calls in alike)
    grown = _shapes(three)
    with_samples = {
        number
        for number, shape in _shapes(two).items()
        if shape[:1] == BATCHES[:1] and (BATCHES[1], *shape[1:]) == grown[number]
    }
    return replace(two, calls=joined, with_samples=frozenset(with_samples))


def _shapes(graph: CallGraph) -> dict[int, tuple[int, ...]]:
    results = (one for call in graph.calls for one in call.results)
    return {number: view.shape for number, view in (*graph.inputs, *results)}


class _CallRecorder(TorchFunctionMode):
    """Follows the calls of one forward pass, beside a `Recorder` of its operators."""

    def __init__(
        self, recorder: Recorder, held: Mapping[str, Tensor], inputs: Sequence[Tensor]
    ) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.sources: list[str | Tensor | None] = []
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
        kwargs = kwargs or {}
        read = [one for one in _leaves((args, kwargs)) if isinstance(one, Tensor)]
        reads = self.showing(read)
        versions = [tensor._version for tensor in read]
        arguments = map_aggregate((args, kwargs), self._ref)
        first, with_gradient = len(self._recorder.operators), torch.is_grad_enabled()
        result = func(*args, **kwargs)
        made = tensors_in(result)
        written = [
            one for one, version in zip(read, versions, strict=True) if one._version != version
        ]
        new = [tensor for tensor in made if tensor not in self._numbers]
        for tensor in new:
            self._add(tensor, None)
        if new or written:
            operators = range(first, len(self._recorder.operators))
            results, writes = self.showing(made), self.showing(written)
            self.calls.append(
                Call(func, arguments, reads, results, writes, operators, with_gradient)
            )
        return result

    def showing(self, tensors: Sequence[Tensor]) -> tuple[tuple[int, View], ...]:
        """Numbers of tensors, and what they show now."""
        return tuple((self._number(tensor), self._recorder.view(tensor)) for tensor in tensors)

    def _number(self, tensor: Tensor) -> int:
        self._add(tensor, tensor)
        return int(self._numbers[tensor])

    def _add(self, tensor: Tensor, source: str | Tensor | None) -> None:
        if tensor not in self._numbers:
            self._numbers[tensor] = len(self.sources)
            self.sources.append(source)

    def _ref(self, argument: Any) -> Any:
        return Ref(self._number(argument)) if isinstance(argument, Tensor) else argument


def _recorded(
    name: str, module: nn.Module, inputs: tuple[Tensor, ...], held: Mapping[str, Tensor]
) -> CallGraph:
    recorder = Recorder(dict(module.named_parameters()), inputs, by_modules=False)
    calls = _CallRecorder(recorder, held, inputs)
    given = calls.showing(inputs)
    outputs = run(name, module, inputs, recorder, calls)
    shown = calls.showing(outputs)
    graph = recorder.graph(outputs)
    found = CallGraph(
        tuple(calls.calls),
        tuple(calls.sources),
        given,
        shown,
        frozenset(),
        graph,
        find_layers(graph),
    )
    for node in nodes_behind(outputs):
        if issubclass(type(node), BackwardCFunction):
            raise UntraceableError(f"{name} has a torch.autograd.Function, {node.name()}")
    for number, view in (*(one for call in found.calls for one in call.reads), *shown):
        source = found.sources[number]
        if isinstance(source, Tensor) and (source.is_meta or found.layer_of(view) != CONSTANT):
            raise UntraceableError(f"{name} computes a tensor by other means than PyTorch's calls")
    return found


def _joined(name: str, two: Call, three: Call, many: Call) -> Call:
    """One call out of what it was for the batches of `BATCHES`."""

    def changing() -> UntraceableError:
        return UntraceableError(
            f"{name} calls {two.name!r} with arguments that neither stay the same nor grow in "
            "proportion to the number of samples"
        )

    def common(a: Any, b: Any, c: Any) -> Any:
        if type(a) is type(b) is type(c) and a == b == c:
            return a
        if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in (a, b, c)):
            raise changing()
        slope = b - a
        if not math.isclose(a + slope * (BATCHES[2] - BATCHES[0]), c, rel_tol=1e-12):
            raise changing()
        return PerSample(a - slope * BATCHES[0], slope)

    arguments = [_leaves(call.arguments) for call in (two, three, many)]
    if not (two.name == three.name == many.name and len(set(map(len, arguments))) == 1):
        raise changing()
    leaves = iter([common(*same) for same in zip(*arguments, strict=True)])
    return replace(two, arguments=map_aggregate(two.arguments, lambda _: next(leaves)))


def _leaves(tree: Any) -> list[Any]:
    found: list[Any] = []
    map_aggregate(tree, found.append)
    return found
