"""Patterns that fuse what follows a convolution into it.

In inference a batch normalisation is linear, as the convolution is, which gets other weights; they
follow from constants and are folded. An addition and ReLU are done while the result is written.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from typing import Any

from workbench.graphs.graph import Operand, Operator, OperatorGraph, Value, View
from workbench.graphs.optimiser.convolutions import Form, Norm, convolve, folded_bias, folded_weight
from workbench.graphs.optimiser.rewriting import makers, reads, without


def normalisation(graph: OperatorGraph) -> OperatorGraph:
    """With folded convolutions in the place of pairs."""
    made, read, constant = makers(graph), reads(graph), graph.outside
    operators, values = list(graph.operators), list(graph.values)
    preparation, removed = list(graph.preparation), set[int]()
    for at, operator in enumerate(operators):
        before = made.get(operator.reads[0].value) if operator.name == "native_batch_norm" else None
        if before is None or not _fits(operators[before], operator, constant):
            continue
        if read[operator.reads[0].value] != 1 or before in removed:
            continue
        weight, bias = _weights(operators[before], operator, values)
        preparation += [weight, bias]
        operators[at] = _folded(operators[before], operator, weight.makes[0], bias.makes[0])
        removed.add(before)
    if not removed:
        return graph
    changed = replace(graph, values=tuple(values), preparation=tuple(preparation))
    return without(replace(changed, operators=tuple(operators)), removed)


def _fits(convolution: Operator, norm: Operator, constant: Container[int]) -> bool:
    """Whether one is in inference, directly after a convolution with constant weights."""
    args, _ = norm.arguments
    if convolution.name != "convolution" or convolution.arguments[0][6] or args[5]:
        return False
    held = [*convolution.reads[1:], *norm.reads[1:]]
    return convolution.makes[0] == norm.reads[0] and all(view.value in constant for view in held)


def _weights(
    before: Operator, norm_operator: Operator, values: list[Value]
) -> tuple[Operator, Operator]:
    """Operators that make the folded weight and bias."""
    weight, bias = (_view(before, number) for number in (1, 2))
    norm = [_view(norm_operator, number) for number in (1, 2, 3, 4)]
    eps, mean = norm_operator.arguments[0][7], norm[2]
    assert weight is not None
    assert mean is not None
    return (
        _making(folded_weight, [weight, *norm], eps, like=weight, values=values),
        _making(folded_bias, [bias, *norm], eps, like=mean, values=values),
    )


def _view(operator: Operator, argument: int) -> View | None:
    given = operator.arguments[0][argument]
    return operator.reads[given.read] if isinstance(given, Operand) else None


def _making(
    function: Callable[..., Any],
    read: Sequence[View | None],
    eps: float,
    *,
    like: View,
    values: list[Value],
) -> Operator:
    """An operator on a convolution's weight or bias, and what is known of the normalisation."""
    taken = tuple(view for view in read if view is not None)
    numbers = iter(range(len(taken)))
    operands: Iterator[Any] = (view and Operand(next(numbers)) for view in read)
    first, scale, shift, mean, variance = operands
    arguments: Any = ((first, Norm(scale, shift, mean, variance, eps)), {})
    storage = 1 + max(value.storage for value in values)
    result = replace(like, value=len(values))
    values.append(Value("operator", storage, like.size_bytes))
    return Operator(function.__name__, taken, (result,), (result,), function, arguments)


def _folded(before: Operator, norm: Operator, weight: View, bias: View) -> Operator:
    args, kwargs = before.arguments
    return replace(
        before,
        reads=(before.reads[0], weight, bias),
        arguments=((Operand(0), Operand(1), Operand(2), *args[3:]), kwargs),
        makes=norm.makes[:1],
        results=norm.results[:1],
    )


def writing(graph: OperatorGraph) -> OperatorGraph:
    """With convolutions that add and clip in the place of convolutions and what follows them."""
    made, read = makers(graph), reads(graph)
    operators, removed = list(graph.operators), set[int]()
    for at, operator in enumerate(operators):
        if operator.phase != "forward" or operator.name not in ("add", "relu"):
            continue
        for operand in operator.reads:
            before = made.get(operand.value)
            if before is None or before in removed or read[operand.value] != 1:
                continue
            fused = _fused(operators[before], operator, operand)
            if fused is not None:
                operators[at] = fused
                removed.add(before)
                break
    return without(replace(graph, operators=tuple(operators)), removed) if removed else graph


def _fused(before: Operator, after: Operator, operand: View) -> Operator | None:
    """A convolution that does what comes after it, if it can; `operand` is its result."""
    if before.makes[:1] != (operand,) or operand.dtype != "float32" or len(operand.shape) != 4:
        return None
    known = _known(before)
    if known is None or known["relu"]:
        return None
    if after.name == "relu":
        return _convolution(before, after, known | {"relu": True}, before.reads)
    others = [view for view in after.reads if view != operand]
    plain = len(after.arguments[0]) == 2 and not after.arguments[1] and len(after.reads) == 2
    if known["added"] is not None or len(others) != 1 or not plain:
        return None
    (other,) = others
    if replace(other, value=operand.value) != operand:
        return None
    known |= {"added": Operand(len(before.reads))}
    return _convolution(before, after, known, (*before.reads, other))


def _known(before: Operator) -> dict[str, object] | None:
    """Arguments of `convolve` that do what a convolution does."""
    args, kwargs = before.arguments
    if before.function is convolve:
        return dict(kwargs)
    if before.name != "convolution" or args[6]:
        return None
    image, weight, bias, stride, padding, dilation, _, _, groups = args
    known = {"image": image, "weight": weight, "bias": bias, "added": None, "relu": False}
    return known | {"form": Form(stride, padding, dilation, groups)}


def _convolution(
    before: Operator, after: Operator, known: dict[str, object], read: tuple[View, ...]
) -> Operator:
    added = known["added"]
    words = ["convolution", *(["add"] if added else []), *(["relu"] if known["relu"] else [])]
    return replace(
        before,
        name="+".join(words),
        reads=read,
        makes=after.makes,
        results=after.results,
        function=convolve,
        arguments=((), known),
        may_overwrite=_place(read, added.read) if isinstance(added, Operand) else frozenset(),
    )


def _place(read: Sequence[View], added: int) -> frozenset[int]:
    """Where it may write: what is added, unless that is the image, whose neighbours it reads."""
    once = sum(view.value == read[added].value for view in read) == 1
    return frozenset({added}) if once else frozenset()
