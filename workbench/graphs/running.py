"""Runs the operators of a graph one by one, on real tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from workbench.graphs.graph import Operand, Operator, Recording, View
from workbench.graphs.private import neg_view
from workbench.graphs.recorder import returned, tensors_in
from workbench.graphs.recording import held_tensors
from workbench.utils.checks import UserError


def run(
    graph: Recording, inputs: Sequence[Tensor] | Tensor, module: nn.Module | None
) -> tuple[Tensor, ...]:
    """See `OperatorGraph.run`. What no operator reads any more is let go of."""
    known = dict(sources(graph, inputs, module))
    last = last_reads(graph)
    with torch.no_grad():
        for number, operator in enumerate(graph.operators):
            step(operator, known)
            for value in last[number]:
                known.pop(value, None)
    return tuple(shown(known[view.value], view) for view in graph.outputs)


def step(operator: Operator, known: dict[int, Tensor]) -> None:
    """Run one operator, adding the values that it makes to the known ones."""
    if operator.makes:
        read = [shown(known[view.value], view) for view in operator.reads]
        made = tensors_in(call(operator, read))
        for view, tensor in zip(operator.results, made, strict=True):
            is_all = tensor.nbytes == tensor.untyped_storage().nbytes()
            base = laid_out(tensor, view) if is_all else whole(tensor) if view.offset else tensor
            known.setdefault(view.value, base)


def laid_out(tensor: Tensor, view: View) -> Tensor:
    """A tensor with the strides and bits that were traced: those of inputs and results may differ.

    Itself where it has them.
    """
    bits = (tensor.is_conj(), tensor.is_neg())
    if (tensor.stride(), *bits) == (view.strides, view.is_conj, view.is_neg):
        return tensor
    return empty(view).copy_(tensor)


def empty(view: View) -> Tensor:
    """A tensor of the form of a view, in memory of its own."""
    dtype = getattr(torch, view.dtype)
    return _with_bits(torch.empty_strided(view.shape, view.strides, dtype=dtype), view)


def _with_bits(tensor: Tensor, view: View) -> Tensor:
    """The same memory, read conjugated and negated as the view is."""
    tensor = tensor if tensor.is_conj() == view.is_conj else tensor.conj()
    return tensor if tensor.is_neg() == view.is_neg else neg_view(tensor)


def call(operator: Operator, read: Sequence[Tensor]) -> Any:
    """Call an operator's function on what it reads."""
    if operator.name.startswith("as_strided"):
        pairs = zip(read, operator.reads, strict=True)
        read = [_in_memory_of_its_own(tensor, view) for tensor, view in pairs]
    args, kwargs = tree_map_only(Operand, lambda tensor: read[tensor.read], operator.arguments)
    return returned(operator.function, (args, kwargs), operator.function(*args, **kwargs))


def _in_memory_of_its_own(tensor: Tensor, view: View) -> Tensor:
    """A copy that begins where it does in the traced memory: offsets are counted from there."""
    flat = tensor.new_empty(span(view))
    return torch.as_strided(flat, view.shape, view.strides, view.offset).copy_(tensor)


def takes_pivots(function: Any) -> bool:
    """Whether an operator reads rows of a matrix by number, counted from one."""
    schema = getattr(function, "_schema", None)
    return schema is not None and any("pivots" in one.name for one in schema.arguments)


def span(view: View) -> int:
    """Numbers from the beginning of a value's memory to the last that a view shows."""
    last = ((count - 1) * stride for count, stride in zip(view.shape, view.strides, strict=True))
    return view.offset + 1 + sum(last)


def shown(base: Tensor, view: View, offset: int = 0) -> Tensor:
    """Part of a value's memory that a view shows; `base` begins at `offset` in it."""
    dtype = getattr(torch, view.dtype)
    start = base.storage_offset() - offset
    if base.dtype != dtype:
        count = max(0, -(-span(view) * dtype.itemsize // base.itemsize))
        base = base.conj() if base.is_conj() else base
        base = neg_view(base) if base.is_neg() else base
        base = torch.as_strided(base, (count,), (1,), start).view(dtype)
        start = base.storage_offset()
    return _with_bits(torch.as_strided(base, view.shape, view.strides, start + view.offset), view)


def whole(tensor: Tensor) -> Tensor:
    """All that a tensor's storage holds, flat."""
    count = tensor.untyped_storage().nbytes() // tensor.itemsize
    return torch.as_strided(tensor, (count,), (1,), 0)


def last_reads(graph: Recording) -> list[list[int]]:
    """By operator: the values that are read by it and by no later one, outputs excepted."""
    kept = {view.value for view in graph.outputs}
    seen, found = set(kept), [list[int]() for _ in graph.operators]
    for number in reversed(range(len(graph.operators))):
        operator = graph.operators[number]
        for view in (*operator.reads, *operator.makes):
            if view.value not in seen:
                seen.add(view.value)
                found[number].append(view.value)
    return found


def sources(
    graph: Recording, inputs: Sequence[Tensor] | Tensor, module: nn.Module | None
) -> Iterator[tuple[int, Tensor]]:
    """Values that come from outside: inputs, and what the module holds; copies of what changes."""
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    check_inputs(graph, given)
    pairs = zip(graph.inputs, given, strict=True)
    yield from ((view.value, laid_out(tensor, view)) for view, tensor in pairs)
    module = module or _traced(graph)
    held = dict(module.named_parameters()) | held_tensors(module)
    known = dict(graph.written_down)
    for number, value in enumerate(graph.values):
        if value.name and value.origin != "input":
            if value.name not in held:
                raise UserError(f"{graph.name}: the module holds no {value.name!r}")
            tensor = held[value.name].detach()
            known[number] = tensor.clone() if value.storage in graph.written else tensor
    with torch.no_grad():
        for operator in graph.preparation:
            step(operator, known)
    yield from known.items()


def check_inputs(graph: Recording, given: Sequence[Tensor]) -> None:
    """Refuse inputs that the graph was not traced for."""
    wanted = [(view.shape, view.dtype) for view in graph.inputs]
    forms = [(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")) for tensor in given]
    if wanted != forms:
        raise UserError(
            f"{graph.name} was traced for inputs {_forms(wanted)}; it is given {_forms(forms)}"
        )


def _forms(forms: Sequence[tuple[tuple[int, ...], str]]) -> str:
    return ", ".join(f"{dtype} of shape {shape}" for shape, dtype in forms) or "none"


def _traced(graph: Recording) -> nn.Module:
    if graph.module is None:
        raise UserError(f"{graph.name} has no weights to run with: give run(…) a module")
    return graph.module()
