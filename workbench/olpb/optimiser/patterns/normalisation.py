"""Fusion of a batch normalisation into the convolution before it, in inference.

Both are linear: the convolution gets other weights, which follow from constants and are folded.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from typing import Any

from workbench.graphs.graph import Operand, Operator, Value, View
from workbench.graphs.operator_graph import OperatorGraph
from workbench.olpb.optimiser.convolutions import Norm, folded_bias, folded_weight
from workbench.olpb.optimiser.rewriting import makers, reads, without


def normalisation(graph: OperatorGraph) -> OperatorGraph:
    """With folded convolutions in the place of pairs."""
    made, read, constant = makers(graph), reads(graph), graph.outside
    operators, values = list(graph.operators), list(graph.values)
    preparation, removed = list(graph.preparation), set[int]()
    for at, one in enumerate(operators):
        before = made.get(one.reads[0].value) if one.name == "native_batch_norm" else None
        if before is None or not _fits(operators[before], one, constant):
            continue
        if read[one.reads[0].value] != 1 or before in removed:
            continue
        weight, bias = _weights(operators[before], one, values)
        preparation += [weight, bias]
        operators[at] = _folded(operators[before], one, weight.makes[0], bias.makes[0])
        removed.add(before)
    if not removed:
        return graph
    found = replace(
        graph,
        operators=tuple(operators),
        values=tuple(values),
        preparation=tuple(preparation),
    )
    return without(found, removed)


def _fits(convolution: Operator, one: Operator, constant: Container[int]) -> bool:
    """Whether one is in inference, directly after a convolution with constant weights."""
    args, _ = one.arguments
    if convolution.name != "convolution" or convolution.arguments[0][6] or args[5]:
        return False
    held = [*convolution.reads[1:], *one.reads[1:]]
    return convolution.makes[0] == one.reads[0] and all(view.value in constant for view in held)


def _weights(before: Operator, one: Operator, values: list[Value]) -> tuple[Operator, Operator]:
    """Operators that make the folded weight and bias."""
    weight, bias = (_view(before, number) for number in (1, 2))
    norm = [_view(one, number) for number in (1, 2, 3, 4)]
    eps, mean = one.arguments[0][7], norm[2]
    assert weight is not None
    assert mean is not None
    return (
        _making(folded_weight, [weight, *norm], eps, like=weight, values=values),
        _making(folded_bias, [bias, *norm], eps, like=mean, values=values),
    )


def _view(one: Operator, argument: int) -> View | None:
    found = one.arguments[0][argument]
    return one.reads[found.read] if isinstance(found, Operand) else None


def _making(
    function: Callable[..., Any],
    read: Sequence[View | None],
    eps: float,
    *,
    like: View,
    values: list[Value],
) -> Operator:
    """An operator on a convolution's weight or bias, and what is known of the normalisation."""
    taken = [view for view in read if view is not None]
    numbers = iter(range(len(taken)))
    numbered = [None if view is None else Operand(next(numbers)) for view in read]
    first, scale, shift, mean, variance = numbered
    norm = Norm(scale, shift, mean, variance, eps)  # type: ignore[arg-type]
    storage = 1 + max(value.storage for value in values)
    result = replace(like, value=len(values))
    values.append(Value("operator", storage, like.size_bytes))
    return Operator(
        function.__name__,
        False,
        tuple(taken),
        (result,),
        0,
        0,
        0,
        "forward",
        function,
        ((first, norm), {}),
        (result,),
    )


def _folded(before: Operator, one: Operator, weight: View, bias: View) -> Operator:
    args, kwargs = before.arguments
    return replace(
        before,
        reads=(before.reads[0], weight, bias),
        arguments=((Operand(0), Operand(1), Operand(2), *args[3:]), kwargs),
        makes=one.makes[:1],
        results=one.results[:1],
    )
