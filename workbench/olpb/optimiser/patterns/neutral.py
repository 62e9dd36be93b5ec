"""Adding zero, multiplying by one, and copies: the result is the operand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from workbench.graphs.graph import Operand, Operator, View
from workbench.graphs.operator_graph import OperatorGraph
from workbench.olpb.optimiser.rewriting import instead_of, makers, without

_NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "div": 1, "pow": 1}
_COMMUTES = {"add", "mul"}
_FULL = {"zeros": 0, "zeros_like": 0, "ones": 1, "ones_like": 1}


def neutral(graph: OperatorGraph) -> OperatorGraph:
    """Without operators that return what they are given."""
    made = makers(graph)

    def number(argument: object, one: Operator) -> object:
        """A number, or that of which a tensor is full."""
        if not isinstance(argument, Operand):
            return argument
        maker = made.get(one.reads[argument.read].value)
        return None if maker is None else _FULL.get(graph.operators[maker].name)

    other: dict[int, int] = {}
    removed = set[int]()
    for at, one in enumerate(graph.operators):
        kept = _kept(one, number)
        if kept is not None and len(one.makes) == 1:
            (result,) = one.makes
            if replace(kept, value=result.value) == result:
                other[result.value] = kept.value
                removed.add(at)
    return without(instead_of(graph, other), removed) if removed else graph


def _kept(one: Operator, number: Callable[[object, Operator], object]) -> View | None:
    """The operand that an operator returns, if it does."""
    args, kwargs = one.arguments
    if one.name == "clone" and not kwargs:
        return one.reads[0]
    if one.name not in _NEUTRAL or len(args) != 2 or kwargs.get("rounding_mode"):
        return None
    pairs = [args, args[::-1]] if one.name in _COMMUTES else [args]
    if kwargs.get("alpha", 1) != 1:
        pairs = [args]
    for operand, other in pairs:
        if isinstance(operand, Operand) and number(other, one) == _NEUTRAL[one.name]:
            return one.reads[operand.read]
    return None
