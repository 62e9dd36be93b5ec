"""Patterns that fuse what follows a convolution into it.

In inference a batch normalisation is linear, as the convolution is, which gets other weights; they
follow from constants and are folded. An addition and ReLU are done while the result is written.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from workbench.memory.optimiser.simplification import makers, reads, without
from workbench.profiles.graph import Operand, Operator, OperatorGraph, Value, View


def normalisation(graph: OperatorGraph) -> OperatorGraph:
    """Put a convolution with folded weights in the place of one and its batch normalisation."""
    made, read = makers(graph), reads(graph)
    operators, values = list(graph.operators), list(graph.values)
    preparation, removed = list(graph.preparation), set[int]()
    for at, operator in enumerate(operators):
        before = made.get(operator.reads[0].value) if operator.name == "native_batch_norm" else None
        if before is None or before in removed or read[operator.reads[0].value] != 1:
            continue
        convolution = operators[before]
        if not _folds(convolution, operator, graph.outside):
            continue
        weight, bias = _weights(convolution, operator, values)
        preparation += [weight, bias]
        args, kwargs = convolution.arguments
        operators[at] = replace(
            convolution,
            reads=(convolution.reads[0], *weight.makes, *bias.makes),
            arguments=((Operand(0), Operand(1), Operand(2), *args[3:]), kwargs),
            makes=operator.makes[:1],
            results=operator.results[:1],
        )
        removed.add(before)
    if not removed:
        return graph
    changed = replace(graph, values=tuple(values), preparation=tuple(preparation))
    return without(replace(changed, operators=tuple(operators)), removed)


def _folds(convolution: Operator, norm: Operator, constant: Container[int]) -> bool:
    """Whether a normalisation in inference directly follows a convolution of constant weights."""
    is_plain = convolution.name == "convolution" and not convolution.arguments[0][6]
    is_training = norm.arguments[0][5]
    held = [*convolution.reads[1:], *norm.reads[1:]]
    return (
        is_plain
        and not is_training
        and convolution.makes[0] == norm.reads[0]
        and all(view.value in constant for view in held)
    )


class Norm(NamedTuple):
    """A batch normalisation in inference; scale and shift are None where it has none."""

    scale: Tensor | None
    shift: Tensor | None
    mean: Tensor
    variance: Tensor
    eps: float

    @property
    def factor(self) -> Tensor:
        """Factor of each channel."""
        factor = torch.rsqrt(self.variance + self.eps)
        return factor if self.scale is None else factor * self.scale


def folded_weight(weight: Tensor, norm: Norm) -> Tensor:
    """Weight of a convolution that does the normalisation after it, too."""
    return weight * norm.factor.reshape(-1, *[1] * (weight.dim() - 1))


def folded_bias(bias: Tensor | None, norm: Norm) -> Tensor:
    """Bias of such a convolution."""
    shifted = ((0 if bias is None else bias) - norm.mean) * norm.factor
    return shifted if norm.shift is None else shifted + norm.shift


def _weights(
    convolution: Operator, norm: Operator, values: list[Value]
) -> tuple[Operator, Operator]:
    """Operators that make the folded weight and bias, new values."""
    weight, bias = (_argument(convolution, number) for number in (1, 2))
    of_norm = [_argument(norm, number) for number in (1, 2, 3, 4)]
    eps, mean = norm.arguments[0][7], of_norm[2]
    assert weight is not None
    assert mean is not None

    def making(function: Callable[..., Tensor], own: View | None, like: View) -> Operator:
        views = tuple(view for view in (own, *of_norm) if view is not None)
        operands = iter(map(Operand, range(len(views))))
        filled: Iterator[Any] = (view and next(operands) for view in (own, *of_norm))
        first, scale, shift, average, variance = filled
        arguments: Any = ((first, Norm(scale, shift, average, variance, eps)), {})
        result = replace(like, value=len(values))
        storage = 1 + max(value.storage for value in values)
        values.append(Value("operator", storage, like.size_bytes))
        return Operator(function.__name__, views, (result,), (result,), function, arguments)

    return making(folded_weight, weight, weight), making(folded_bias, bias, mean)


def _argument(operator: Operator, number: int) -> View | None:
    argument = operator.arguments[0][number]
    return operator.reads[argument.read] if isinstance(argument, Operand) else None


def writing(graph: OperatorGraph) -> OperatorGraph:
    """Let convolutions add what is added to their result, and clip it."""
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


def convolve(
    image: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    added: Tensor | None = None,
    relu: bool = False,
) -> Tensor:
    """Return a convolution, plus `added` if given, clipped at zero if asked."""
    result = torch.nn.functional.conv2d(image, weight, bias, stride, padding, dilation, groups)
    result = result if added is None else result + added
    return result.relu_() if relu else result


def _fused(before: Operator, after: Operator, operand: View) -> Operator | None:
    """A convolution that does what comes after it, if it can; `operand` is its result."""
    if before.makes[:1] != (operand,) or operand.dtype != "float32" or len(operand.shape) != 4:
        return None
    args, named = before.arguments
    if before.function is not convolve:
        if before.name != "convolution" or args[6]:
            return None
        _, _, _, stride, padding, dilation, _, _, groups = args
        named = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    views, may_overwrite = before.reads, before.may_overwrite
    if "relu" in named:
        return None
    if after.name == "relu":
        named = named | {"relu": True}
    else:
        others = [view for view in after.reads if view != operand]
        is_sum = len(after.arguments[0]) == 2 and not after.arguments[1] and len(after.reads) == 2
        if "added" in named or len(others) != 1 or not is_sum:
            return None
        if replace(others[0], value=operand.value) != operand:
            return None
        added = Operand(len(views))
        named, views = named | {"added": added}, (*views, *others)
        # It may write where the summand is, unless that is the image, whose neighbours it reads.
        is_image = any(view.value == others[0].value for view in before.reads)
        may_overwrite = frozenset() if is_image else frozenset({added.read})
    return replace(
        before,
        name=f"{before.name}+{after.name}",
        reads=views,
        makes=after.makes,
        results=after.results,
        function=convolve,
        arguments=(args[:3], named),
        may_overwrite=may_overwrite,
    )
