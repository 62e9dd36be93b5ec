"""Operators of a graph as calls on registers: the tensor of each value that is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from workbench.graphs.graph import Operand, Operator, View
from workbench.graphs.private import has_kernel
from workbench.graphs.recorder import returned
from workbench.graphs.running import laid_out, shown

Registers = dict[int, Tensor]
Call = Callable[[Registers], None]


def call_of(
    operator: Operator,
    bases: Mapping[int, View],
    over: int | None = None,
    *,
    again: bool = False,
    state: int | None = None,
) -> Call:
    """A call of an operator; `bases` are views as which registers hold values.

    `over` is the value whose place its result takes; `again` leaves running statistics alone;
    `state` is the register with the state of the generator that is drawn from, if not PyTorch's.
    """
    function, (args, kwargs) = operator.function, arguments_of(operator, again=again)
    needed = operands_in((args, kwargs))
    reads = [
        (at, operator.reads[at].value, lens(operator.reads[at], bases[operator.reads[at].value]))
        for at in needed
    ]
    count = len(operator.reads)
    makes = {view.value for view in operator.makes}
    made = [
        (at, view.value, view) for at, view in enumerate(operator.results) if view.value in makes
    ]
    patches = [(at, _filler(one)) for at, one in enumerate(args) if _has_operand(one)]
    named = [(key, _filler(one)) for key, one in kwargs.items() if _has_operand(one)]
    if over is not None:
        function, (name,) = writing_form(function) or (function, ("",))
        form = lens(made[0][2], bases[over])

    def run(known: Registers) -> None:
        read: list[Any] = [None] * count
        for at, value, look in reads:
            read[at] = known[value] if look is None else look(known[value])
        positional, by_name = list(args), kwargs
        for at, fill in patches:
            positional[at] = fill(read)
        if named or over is not None:
            by_name = kwargs | {key: fill(read) for key, fill in named}
        if over is not None:
            by_name[name] = known[over] if form is None else form(known[over])
        if state is not None:
            generator = torch.Generator()
            generator.set_state(known[state])
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
        for at, value, view in made:
            known[value] = laid_out(results[at], view)

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
    """Which of the tensors that an operator reads are among arguments."""
    found = (leaf.read for leaf in tree_leaves(arguments) if isinstance(leaf, Operand))
    return sorted(set(found))


def lens(view: View, base: View) -> Callable[[Tensor], Tensor] | None:
    """What shows a view, given its value as another; None where it is the same."""
    if replace(view, value=base.value) == base:
        return None
    return partial(shown, view=view, offset=base.offset)


def _has_operand(argument: Any) -> bool:
    return any(isinstance(leaf, Operand) for leaf in tree_leaves(argument))


def _filler(argument: Any) -> Callable[[Sequence[Tensor]], Any]:
    """What puts tensors in the place of operands."""
    if isinstance(argument, Operand):
        number = argument.read
        return lambda read: read[number]
    fillers = [_filler(one) if _has_operand(one) else None for one in argument]
    pairs = list(zip(argument, fillers, strict=True))
    return lambda read: [one if fill is None else fill(read) for one, fill in pairs]


@cache
def writing_form(function: Any) -> tuple[Any, tuple[str, ...]] | None:
    """The overload of a function that writes into what it is given, and what that is called."""
    if function is torch.ops.aten.relu.default:
        return _relu, ("out",)
    wanted = [(argument.name, str(argument.type)) for argument in function._schema.arguments]
    packet = function._overloadpacket
    for name in packet.overloads():
        other = getattr(packet, name)
        taken = [
            (argument.name, str(argument.type))
            for argument in other._schema.arguments
            if not argument.is_out
        ]
        names = tuple(argument.name for argument in other._schema.arguments if argument.is_out)
        if names and taken == wanted and has_kernel(other):
            return other, names
    return None


def _relu(tensor: Tensor, *, out: Tensor) -> Tensor:
    torch.ops.aten.clamp_min.out(tensor, 0, out=out)
    return out
