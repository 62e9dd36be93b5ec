"""A tape: the operators of one pass that a gradient passes through, with their numbers.

`record` runs a module with its loss, in double precision, in the mode that it is in, and on real
numbers, so control flow that depends on them is followed. `torch.fx` traces it as operators that
write nothing in place. Autograd tells which values carry a gradient: not what was detached or
computed without gradients. A trace is certified: its gradients are those of the module.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.func import functional_call, functionalize
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from workbench.olpb.algorithms.levels import Flow
from workbench.profiles.autograd_nodes import nodes_behind
from workbench.profiles.copies import check_has_parameters, real_copy
from workbench.profiles.explained import explained
from workbench.profiles.graph import UntraceableError
from workbench.profiles.inputs import arguments
from workbench.profiles.private import FOLLOWING_NUMBERS, storage_key
from workbench.profiles.recorder import WEIGHTED, tensors_in
from workbench.profiles.recording import learning
from workbench.utils.checks import UserError, check_kind

Loss = Callable[[Any, Tensor], Tensor]
"""A function of what a module returns, and the targets, that gives a number."""

Samples = Tensor | Sequence[Tensor] | Mapping[str, Tensor]
"""A batch: one input of the module, several in their order, or by name."""


@dataclass(frozen=True, eq=False)
class Tape:
    """A traced pass: its nodes, in the order in which they ran, and the numbers that each had.

    A call is an operator that a gradient passes through and that is not a view. Values that calls
    make are known by the place of their node in `nodes`.
    """

    graph: GraphModule
    nodes: tuple[Node, ...]  # of the graph
    numbers: Mapping[Node, Any]
    carrying: frozenset[Node]
    views: frozenset[Node]  # of carrying ones: those that show numbers of others
    random_states: Mapping[Node, Tensor]  # before an operator that draws
    parameters: Mapping[Node, str]  # those that learn
    loss: float

    @cached_property
    def calls(self) -> tuple[Node, ...]:
        """Operators that the loss depends on, in the order in which they ran."""
        needed, kept = set(self.nodes[-1].all_input_nodes), list[Node]()
        for node in reversed(self.nodes[:-1]):
            if node in needed and node in self.carrying:
                needed.update(node.all_input_nodes)
                if node.op == "call_function" and not passes_on(node, self.views):
                    kept.append(node)
        return tuple(reversed(kept))

    @cached_property
    def flow(self) -> Flow:
        """Its calls without their numbers."""
        number_of, makers = {call: at for at, call in enumerate(self.calls)}, dict[int, int]()
        for place, node in enumerate(self.nodes):
            maker = node.args[0] if node.target is operator.getitem else node
            is_value = node in self.carrying and isinstance(self.numbers[node], Tensor)
            if is_value and isinstance(maker, Node) and maker in number_of:
                makers[place] = number_of[maker]
        place_of = {node: place for place, node in enumerate(self.nodes)}
        read = (self.sources(call.all_input_nodes) for call in self.calls)
        sources = (frozenset(place_of[node] for node in nodes) & makers.keys() for nodes in read)
        ends = (place_of[source] for source in self.sources(self.nodes[-1].all_input_nodes))
        return Flow(
            tuple(map(name_of, self.calls)),
            tuple(is_weighted(call) for call in self.calls),
            tuple(sources),
            makers,
            frozenset(ends),
        )

    def sources(self, read: Iterable[Node]) -> set[Node]:
        """Parameters, and values of calls, whose numbers nodes show."""
        shown, waiting = set[Node](), [*read]
        while waiting:
            source = waiting.pop()
            if source in self.views:
                waiting += source.all_input_nodes
            elif source in self.carrying:
                shown.add(source)
        return shown

    def takes(self, tensors: Sequence[Tensor]) -> bool:
        """Whether parameters, buffers, inputs and target have the shapes that the graph is for."""
        own = [self.numbers[node].shape for node in self.nodes if node.op == "placeholder"]
        return own == [tensor.shape for tensor in tensors]

    def parameters_of(self, calls: Sequence[int]) -> list[Node]:
        """Parameters that calls read."""
        read = self.sources(node for at in calls for node in self.calls[at].all_input_nodes)
        return [node for node in self.parameters if node in read]

    def run(self, calls: Sequence[int], known: Mapping[Node, Tensor]) -> dict[Node, Any]:
        """Run some calls, and views of what they read and make, on other numbers.

        What carries no gradient has the numbers that it had. `known` are all others that the calls
        read and do not make.
        """
        own, numbers = {self.calls[at] for at in calls}, dict[Node, Any](known)

        def number(node: Node) -> Any:
            return numbers[node] if node in self.carrying else self.numbers[node]

        with torch.random.fork_rng(devices=[]):
            for node in self.nodes:
                if node in numbers or node not in self.carrying or node.op != "call_function":
                    continue
                read = self.carrying.intersection(node.all_input_nodes)
                if node in own or (passes_on(node, self.views) and read <= numbers.keys()):
                    if node in self.random_states:
                        torch.set_rng_state(self.random_states[node])
                    args, kwargs = tree_map_only(Node, number, (node.args, node.kwargs))
                    numbers[node] = node.target(*args, **kwargs)  # type: ignore[operator]
        return numbers


def passes_on(node: Node, views: Collection[Node]) -> bool:
    """Whether a node is a view, or one of several results, and no operator of its own."""
    return node.target is operator.getitem or node in views


def name_of(call: Node) -> str:
    """Name of an operator, as PyTorch calls it."""
    return str(call.target._overloadpacket.__name__)  # type: ignore[union-attr]


def is_weighted(call: Node) -> bool:
    """Whether an operator multiplies with, or looks up in, a matrix."""
    return call.target._overloadpacket in WEIGHTED  # type: ignore[union-attr]


def record(
    module: nn.Module, x: Samples, y: Tensor, loss: Loss | None = None, *, like: Tape | None = None
) -> Tape:
    """Trace a copy of a module and its loss; see `gradients.scan_gradients`.

    The graph of `like`, an earlier tape of the module, serves again where shapes are the same and
    it gives the same loss: control flow may depend on numbers.
    """
    name = type(check_kind("module", module, nn.Module, "a module")).__name__
    check_has_parameters(name, module)
    copied = real_copy(name, module, "cpu").double()
    for part, original in zip(copied.modules(), module.modules(), strict=True):
        part.training = original.training
        for key, held in vars(part).items():  # tensors that are neither parameters nor buffers
            if isinstance(held, Tensor):
                setattr(part, key, _double(held))
    named = x if isinstance(x, Mapping) else {}
    given = x if isinstance(x, list | tuple) else tuple(named.values()) if named else (x,)
    inputs = tuple(_double(check_kind("x", tensor, Tensor, "a tensor")) for tensor in given)
    target = _double(check_kind("y", y, Tensor, "a tensor"))
    if not target.numel():
        raise UserError(f"y has shape {tuple(target.shape)}; give at least one sample")
    parameters, buffers = dict(copied.named_parameters()), dict(copied.named_buffers())

    def forward(
        parameters: dict[str, Tensor],
        buffers: dict[str, Tensor],
        inputs: tuple[Tensor, ...],
        target: Tensor,
    ) -> Tensor:
        with explained(name, copied):
            taken = arguments(tuple(named) or ("",) * len(inputs), inputs)
            returned = functional_call(copied, {**parameters, **buffers}, *taken)
        return (loss or _loss_for(name, returned, target))(returned, target)

    def given_again() -> Any:
        """Arguments whose changes in place reach nobody else."""
        return parameters, *tree_map_only(Tensor, Tensor.clone, (buffers, inputs, target))

    start = torch.get_rng_state()
    with learning():
        value = forward(*given_again())
    _check_loss(name, value)
    reader = None
    if like is not None and like.takes(tree_leaves(given_again())):
        reader = _Reader.of(like.graph, start, given_again())
    if reader is None or not torch.allclose(reader.loss, value, 1e-9, 0):
        with learning():
            torch.set_rng_state(start)
            graph = _traced(_detaching(forward), given_again())
            torch.set_rng_state(start)
            graph = _traced(graph, given_again())  # composite operators write in place within
        for node in graph.graph.nodes:
            if node.target is torch.ops.aten.copy_.default:  # of a buffer, at the end
                graph.graph.erase_node(node)
        reader = _Reader.of(graph, start, given_again())
        _certify(
            name,
            value,
            reader,
            [parameter for parameter in parameters.values() if parameter.requires_grad],
        )
    nodes = tuple(reader.module.graph.nodes)
    learnt = {
        node: key
        for node, (key, held) in zip(nodes, parameters.items(), strict=False)
        if held.requires_grad
    }
    return Tape(
        reader.module,
        nodes,
        tree_map_only(Tensor, Tensor.detach, reader.numbers),
        frozenset(reader.carrying),
        frozenset(reader.views),
        reader.random_states,
        learnt,
        value.item(),
    )


def _traced(function: Callable[..., Any], given: Sequence[Any]) -> GraphModule:
    pure = functionalize(function, remove="mutations")
    # A pure operator that autograd has no derivative of (2.13).
    replaced = {torch.ops.aten.copy.default: _copied}
    traced: GraphModule = make_fx(pure, replaced, **FOLLOWING_NUMBERS)(*given)
    return traced


def _copied(into: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    return source.to(into.dtype).expand(into.shape).clone()


def _detaching(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Write into a trace, which does not say so, what is computed without gradients."""

    def detached(*given: Any) -> Tensor:
        with _Detaching():  # type: ignore[no-untyped-call]
            return function(*given)

    return detached


class _Detaching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        return out if torch.is_grad_enabled() else tree_map_only(Tensor, Tensor.detach, out)


class _Reader(Interpreter):
    """Keeps what each node had: numbers, and the generator's state before one that draws."""

    def __init__(self, graph: GraphModule) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.module: GraphModule = graph
        self.numbers: dict[Node, Any] = {}
        self.random_states: dict[Node, Tensor] = {}
        self.carrying: set[Node] = set()
        self.views: set[Node] = set()

    @classmethod
    def of(cls, graph: GraphModule, random_state: Tensor, given: Any) -> _Reader:
        """Run a graph, and keep its numbers."""
        reader = cls(graph)
        with learning():
            torch.set_rng_state(random_state)
            reader.run(*tree_leaves(given), enable_io_processing=False)
        return reader

    @property
    def loss(self) -> Tensor:
        """Result of the graph."""
        (last,) = next(iter(reversed(self.module.graph.nodes))).all_input_nodes
        loss: Tensor = self.numbers[last]
        return loss

    def run_node(self, n: Node) -> Any:
        if torch.Tag.nondeterministic_seeded in getattr(n.target, "tags", ()):
            self.random_states[n] = torch.get_rng_state()
        self.numbers[n] = numbers = super().run_node(n)
        if any(tensor.requires_grad for tensor in tensors_in(numbers)):
            self.carrying.add(n)
            read = tensors_in([self.numbers[node] for node in n.all_input_nodes])
            is_view = _storages(numbers) <= _storages(read)
            if n.target is operator.getitem:
                is_view = n.args[0] in self.views
            if n.op == "call_function" and is_view:
                self.views.add(n)
        return numbers


def _storages(numbers: Any) -> set[int]:
    return {storage_key(tensor) for tensor in tensors_in(numbers)}


def _certify(name: str, value: Tensor, reader: _Reader, learnt: Sequence[Tensor]) -> None:
    """Refuse a trace whose gradients are not the module's, or of complex numbers."""
    for node in reader.carrying:
        if any(map(torch.is_complex, tensors_in(reader.numbers[node]))):
            raise UntraceableError(f"{node} has complex numbers; gradients are of real ones")

    def gradients(loss: Tensor) -> Sequence[Tensor]:
        if not loss.requires_grad:
            return [torch.zeros_like(parameter) for parameter in learnt]
        return torch.autograd.grad(loss, learnt, allow_unused=True, materialize_grads=True)

    own, traced = gradients(value), gradients(reader.loss)
    largest = max(float(gradient.abs().max()) for gradient in own)
    for ours, theirs in zip(traced, own, strict=True):
        if not torch.allclose(ours, theirs, 1e-9, 1e-9 * largest, equal_nan=True):
            raise UntraceableError(
                f"{name} has gradients that its operators do not tell: look for a write in place "
                "under torch.no_grad()"
            )


def _check_loss(name: str, value: Any) -> None:
    """Refuse a loss that is not a finite number, or that nothing which learns changes."""
    if not isinstance(value, Tensor) or value.numel() != 1:
        form = f"of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
        raise UserError(f"the loss of {name} is {form}; it must be a single number")
    if not torch.isfinite(value).all():
        raise UserError(
            f"the loss of {name} is {value.item():g}; look for weights or inputs that are not "
            "finite, or too large"
        )
    if not value.requires_grad:
        raise UserError(f"the loss of {name} depends on none of its parameters that learn")
    for node in nodes_behind([value]):
        if issubclass(type(node), BackwardCFunction):
            raise UntraceableError(
                f"{name} has a gradient of its own, {type(node).__name__}, which its operators do "
                "not tell"
            )


def _double(tensor: Tensor) -> Tensor:
    here = tensor.detach().cpu()
    return here.double() if here.is_floating_point() else here


def _loss_for(name: str, returned: Any, y: Tensor) -> Loss:
    """Cross entropy for classes, else squared errors."""
    if not isinstance(returned, Tensor):
        raise UserError(f"{name} returns {type(returned).__name__}, not a tensor: give loss=…")
    if not y.is_floating_point():
        return lambda scores, y: functional.cross_entropy(scores, y.long())
    if returned.shape != y.shape:
        raise UserError(f"y has shape {tuple(y.shape)}, but {name} returns {tuple(returned.shape)}")
    return functional.mse_loss
