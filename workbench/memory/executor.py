"""Runs operators of a graph on registers: the tensor that holds each value, by number.

A register shows its value in one form, its base; other views of the value are shown from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from workbench.profiles.copies import held_tensors
from workbench.profiles.graph import Operand, Operator, OperatorGraph, View
from workbench.profiles.private import OpOverload, has_kernel, neg_view
from workbench.profiles.recorder import returned, view_of
from workbench.utils.checks import UserError, check_kind, listed

Registers = dict[int, Tensor]
Call = Callable[[Registers], None]
Bases = Mapping[int, View]


def run(
    graph: OperatorGraph, inputs: Sequence[Tensor] | Tensor, module: nn.Module | None = None
) -> tuple[Tensor, ...]:
    """Run a graph's operators one after the other on real tensors; return the graph's outputs.

    With the weights of `module`, by default those of the module that was traced; a model by name
    has the same random weights each time. Neither it nor the inputs are changed. Raises ValueError:
    inputs of other shapes or types.
    """
    check_kind("graph", graph, OperatorGraph, "one that was traced")
    registers = input_registers(graph, inputs) | held_registers(graph, module)
    bases = bases_of(graph, registers)
    with torch.no_grad():
        for operator, ending in zip(graph.operators, _last_reads(graph), strict=True):
            if operator.makes:
                call_of(operator, bases)(registers)
            for value in ending:
                registers.pop(value, None)
    return tuple(shown(registers[view.value], view, bases) for view in graph.outputs)


def _last_reads(graph: OperatorGraph) -> list[list[int]]:
    """Values to let go of after each operator: nothing reads them later or returns them."""
    seen = {view.value for view in graph.outputs}
    ending: list[list[int]] = []
    for operator in reversed(graph.operators):
        values = dict.fromkeys(view.value for view in (*operator.reads, *operator.makes))
        ending.append([value for value in values if value not in seen])
        seen |= values.keys()
    return ending[::-1]


def input_registers(graph: OperatorGraph, inputs: Sequence[Tensor] | Tensor) -> Registers:
    """Registers of a graph's inputs; copies of those that operators write into."""
    wanted = "give tensors, as in (x, y)"
    tensors = [inputs] if isinstance(inputs, Tensor) else listed("inputs", inputs, wanted)
    for tensor in tensors:
        check_kind("an input", tensor, Tensor, "a tensor")
    check_inputs(graph, tensors)
    laid = {v.value: laid_out(tensor, v) for v, tensor in zip(graph.inputs, tensors, strict=True)}
    return {value: _own(graph, value, tensor) for value, tensor in laid.items()}


def held_registers(graph: OperatorGraph, module: nn.Module | None = None) -> Registers:
    """Registers of all else before the first operator: what the module holds, and constants.

    Operators of the graph's preparation have run.
    """
    if module is None and graph.module is None:
        raise UserError(f"{graph.name} has no weights to run with: give run(…) a module")
    if module is None:
        module = graph.module()  # type: ignore[misc]
    check_kind("module", module, nn.Module, "a module of PyTorch")
    held = dict(module.named_parameters()) | held_tensors(module)
    registers = dict(graph.literals)
    for value, about in enumerate(graph.values):
        if about.name and about.origin != "input":
            if about.name not in held:
                raise UserError(f"{graph.name}: the module holds no {about.name!r}")
            registers[value] = _own(graph, value, held[about.name].detach())
    bases = bases_of(graph, registers)
    with torch.no_grad():
        for operator in graph.preparation:
            call_of(operator, bases)(registers)
    return registers


def _own(graph: OperatorGraph, value: int, tensor: Tensor) -> Tensor:
    return tensor.clone() if graph.values[value].storage in graph.written else tensor


def check_inputs(graph: OperatorGraph, tensors: Sequence[Tensor]) -> None:
    """Refuse inputs that the graph was not traced for."""
    wanted = [(view.shape, view.dtype) for view in graph.inputs]
    forms = [(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")) for tensor in tensors]
    if wanted != forms:
        raise UserError(
            f"{graph.name} was traced for inputs {_forms(wanted)}; it is given {_forms(forms)}"
        )


def _forms(forms: Sequence[tuple[tuple[int, ...], str]]) -> str:
    return ", ".join(f"{dtype} of shape {shape}" for shape, dtype in forms) or "none"


def bases_of(graph: OperatorGraph, outside: Mapping[int, Tensor]) -> dict[int, View]:
    """Form of each value's register; `outside` are registers of what the module holds."""
    operators = (*graph.preparation, *graph.operators)
    bases = {
        view.value: view
        for operator in operators
        for view in operator.results
        if any(view.value == made.value for made in operator.makes)
    }
    bases |= {value: view_of(tensor, value, 0) for value, tensor in outside.items()}
    return bases | {view.value: view for view in graph.inputs}


def call_of(
    operator: Operator,
    bases: Bases,
    over: int | None = None,
    *,
    places: Mapping[int, Tensor] | None = None,
    again: bool = False,
    state: int | None = None,
) -> Call:
    """Compile an operator that makes something into a call on registers.

    Parameters
    ----------
    over
        Value in whose register its one result is written.
    places
        Memory that its results are written into, by number.
    again
        Whether it ran before, so that running statistics are left alone.
    state
        Register with the state of the generator that it draws from; by default PyTorch's.
    """
    function, (args, kwargs) = operator.function, arguments_of(operator, again=again)
    reads = [
        (at, operator.reads[at].value, _reader(operator, operator.reads[at], bases))
        for at in operands_in((args, kwargs))
    ]
    count = len(operator.reads)
    makes = {view.value for view in operator.makes}
    made = [(at, view) for at, view in enumerate(operator.results) if view.value in makes]
    positional_fillers = [
        (at, _filler(argument)) for at, argument in enumerate(args) if _has_operand(argument)
    ]
    fillers = [
        (key, _filler(argument)) for key, argument in kwargs.items() if _has_operand(argument)
    ]
    out: str | None = None
    if over is not None or (places is not None and _is_dense(operator.results)):
        function, out = writing_form(function) or (function, None)
    if over is not None:
        at_place = lens(made[0][1], bases[over])

    def run(registers: Registers) -> None:
        read: list[Any] = [None] * count
        for at, value, look in reads:
            read[at] = registers[value] if look is None else look(registers[value])
        positional, by_name = list(args), kwargs
        for at, fill in positional_fillers:
            positional[at] = fill(read)
        if fillers:
            by_name = kwargs | {key: fill(read) for key, fill in fillers}
        into = places
        if over is not None:
            into = {0: registers[over] if at_place is None else at_place(registers[over])}
        if into is not None and out is not None:
            by_name = by_name | {out: into[0]}
        if state is not None:
            generator = torch.Generator()
            generator.set_state(registers[state])
            by_name = by_name | {"generator": generator}
        results = function(*positional, **by_name)
        if isinstance(results, Tensor):
            results = (results,)
        elif results is not None:
            results = [
                result
                for result in returned(function, (positional, by_name), results)
                if isinstance(result, Tensor)
            ]
        for at, view in made:
            if into is None:
                registers[view.value] = laid_out(results[at], view)
            else:
                if out is None:
                    _store(results[at], into[at], span(view))
                registers[view.value] = into[at]

    return run


def arguments_of(operator: Operator, *, again: bool = False) -> Any:
    """Arguments without the running statistics that a normalisation has no need of."""
    args, kwargs = operator.arguments
    if operator.name == "native_batch_norm" and again and args[5]:
        args = (*args[:3], None, None, *args[5:])  # counted in once
    if operator.name == "native_batch_norm_backward" and args[7]:  # by those of the batch alone
        args = (*args[:3], None, None, *args[5:])
    return args, kwargs


def operands_in(arguments: Any) -> list[int]:
    """Numbers of the tensors, among those that an operator reads, that arguments contain."""
    operands = (leaf.read for leaf in tree_leaves(arguments) if isinstance(leaf, Operand))
    return sorted(set(operands))


def _has_operand(argument: Any) -> bool:
    return any(isinstance(leaf, Operand) for leaf in tree_leaves(argument))


def _filler(argument: Any) -> Callable[[Sequence[Tensor]], Any]:
    """A function that puts tensors in the place of an argument's operands."""
    if isinstance(argument, Operand):
        number = argument.read
        return lambda read: read[number]
    if isinstance(argument, list) and all(isinstance(item, Operand) for item in argument):
        numbers = [item.read for item in argument]
        return lambda read: [read[number] for number in numbers]
    return lambda read: tree_map_only(Operand, lambda operand: read[operand.read], argument)


def _reader(operator: Operator, view: View, bases: Bases) -> Callable[[Tensor], Tensor] | None:
    look = lens(view, bases[view.value])
    if operator.name.startswith("as_strided"):  # counts from where the traced memory begins
        return lambda base: _in_memory_of_its_own(base if look is None else look(base), view)
    return look


def _in_memory_of_its_own(tensor: Tensor, view: View) -> Tensor:
    flat = tensor.new_empty(span(view))
    return torch.as_strided(flat, view.shape, view.strides, view.offset).copy_(tensor)


def lens(view: View, base: View) -> Callable[[Tensor], Tensor] | None:
    """A function from a register of form `base` to a view of its value; None where it is that."""
    if replace(view, value=base.value) == base:
        return None
    return partial(_shown, view=view, offset=base.offset)


def shown(register: Tensor, view: View, bases: Bases) -> Tensor:
    """A view of a register's value."""
    look = lens(view, bases[view.value])
    return register if look is None else look(register)


def placed(memory: Tensor, view: View) -> Tensor:
    """A view of a value that begins where `memory` does."""
    return _shown(memory, view, 0)


def _shown(base: Tensor, view: View, offset: int) -> Tensor:
    """The part of a value's memory that a view shows; `base` begins at `offset` in it."""
    dtype = getattr(torch, view.dtype)
    start = base.storage_offset() - offset
    if base.dtype != dtype:
        count = max(0, -(-span(view) * dtype.itemsize // base.itemsize))
        base = base.conj() if base.is_conj() else base
        base = neg_view(base) if base.is_neg() else base
        base = torch.as_strided(base, (count,), (1,), start).view(dtype)
        start = base.storage_offset()
    return _with_bits(torch.as_strided(base, view.shape, view.strides, start + view.offset), view)


def laid_out(tensor: Tensor, view: View) -> Tensor:
    """A tensor with the strides and bits that were traced; itself where it has them."""
    bits = (tensor.is_conj(), tensor.is_neg())
    if (tensor.stride(), *bits) == (view.strides, view.is_conj, view.is_neg):
        return tensor
    dtype = getattr(torch, view.dtype)
    empty = torch.empty_strided(view.shape, view.strides, dtype=dtype)
    return _with_bits(empty, view).copy_(tensor)


def _with_bits(tensor: Tensor, view: View) -> Tensor:
    """The same memory, read conjugated and negated as the view is."""
    tensor = tensor if tensor.is_conj() == view.is_conj else tensor.conj()
    return tensor if tensor.is_neg() == view.is_neg else neg_view(tensor)


def span(view: View) -> int:
    """Numbers from the beginning of a value's memory to the last that a view shows."""
    last = ((count - 1) * stride for count, stride in zip(view.shape, view.strides, strict=True))
    return view.offset + 1 + sum(last)


def _is_dense(views: Sequence[View]) -> bool:
    """Whether views show every number of their memory once, and as it is."""
    return all(
        torch.Size(view.shape).numel() == span(view) and not (view.is_conj or view.is_neg)
        for view in views
    )


def _store(result: Tensor, place: Tensor, count: int) -> None:
    """Copy a result; where it shows no number, or some twice, all `count` of its memory."""
    if result.numel() in (0, count):
        place.copy_(result)
    else:
        _memory(place, count).copy_(_memory(result, count))


def _memory(tensor: Tensor, count: int) -> Tensor:
    """Numbers of a tensor's memory up to its last one, flat."""
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.storage_offset() + last + 1 - count
    return torch.as_strided(tensor, (count,), (1,), start)


@cache
def writing_form(function: Any) -> tuple[Any, str] | None:
    """The overload of a function that writes its one result into a tensor, and that one's name.

    Forms of several results are left out: that of `native_batch_norm` computes other numbers where
    its input has gaps.
    """
    if not isinstance(function, OpOverload):
        return None
    if function is torch.ops.aten.relu.default:
        return _relu, "out"
    wanted = [(argument.name, str(argument.type)) for argument in function._schema.arguments]
    packet: Any = function._overloadpacket
    for name in packet.overloads():
        other = getattr(packet, name)
        taken = [
            (argument.name, str(argument.type))
            for argument in other._schema.arguments
            if not argument.is_out
        ]
        names = [argument.name for argument in other._schema.arguments if argument.is_out]
        if len(names) == 1 and taken == wanted and has_kernel(other):
            return other, names[0]
    return None


def _relu(tensor: Tensor, *, out: Tensor) -> Tensor:
    torch.ops.aten.clamp_min.out(tensor, 0, out=out)
    return out
