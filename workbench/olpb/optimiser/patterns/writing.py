"""Fusion of what is done to a convolution's result: an addition, and ReLU, while it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from workbench.graphs.graph import Operand, Operator, View
from workbench.graphs.operator_graph import OperatorGraph
from workbench.olpb.optimiser.convolutions import Form, convolve
from workbench.olpb.optimiser.rewriting import makers, reads, without


def writing(graph: OperatorGraph) -> OperatorGraph:
    """With convolutions that add and clip in the place of convolutions and what follows them."""
    made, read = makers(graph), reads(graph)
    operators, removed = list(graph.operators), set[int]()
    for at, one in enumerate(operators):
        if one.phase != "forward" or one.name not in ("add", "relu"):
            continue
        for operand in one.reads:
            before = made.get(operand.value)
            if before is None or before in removed or read[operand.value] != 1:
                continue
            fused = _fused(operators[before], one, operand)
            if fused is not None:
                operators[at] = fused
                removed.add(before)
                break
    return without(replace(graph, operators=tuple(operators)), removed) if removed else graph


def _fused(before: Operator, one: Operator, operand: View) -> Operator | None:
    """A convolution that does what comes after it, if it can; `operand` is its result."""
    if before.makes[:1] != (operand,) or operand.dtype != "float32" or len(operand.shape) != 4:
        return None
    known = _known(before)
    if known is None or known["relu"]:
        return None
    if one.name == "relu":
        return _convolution(before, one, known | {"relu": True}, before.reads)
    others = [view for view in one.reads if view != operand]
    plain = len(one.arguments[0]) == 2 and not one.arguments[1] and len(one.reads) == 2
    if known["added"] is not None or len(others) != 1 or not plain:
        return None
    (other,) = others
    if replace(other, value=operand.value) != operand:
        return None
    known |= {"added": Operand(len(before.reads))}
    return _convolution(before, one, known, (*before.reads, other))


def _known(before: Operator) -> dict[str, object] | None:
    """Arguments of `convolve` that do what a convolution does."""
    args, kwargs = before.arguments
    if before.function is convolve:
        return dict(kwargs)
    if before.name != "convolution" or args[6]:
        return None
    image, weight, bias, stride, padding, dilation, _, _, groups = args
    found = {"image": image, "weight": weight, "bias": bias, "added": None, "relu": False}
    return found | {"form": Form(stride, padding, dilation, groups)}


def _convolution(
    before: Operator, one: Operator, known: dict[str, object], read: tuple[View, ...]
) -> Operator:
    added = known["added"]
    words = ["convolution", *(["add"] if added else []), *(["relu"] if known["relu"] else [])]
    return replace(
        before,
        name="+".join(words),
        reads=read,
        makes=one.makes,
        results=one.results,
        function=convolve,
        arguments=((), known),
        may_overwrite=_place(read, added.read) if isinstance(added, Operand) else frozenset(),
    )


def _place(read: Sequence[View], added: int) -> frozenset[int]:
    """Where it may write: what is added, unless that is the image, whose neighbours it reads."""
    once = sum(view.value == read[added].value for view in read) == 1
    return frozenset({added}) if once else frozenset()
