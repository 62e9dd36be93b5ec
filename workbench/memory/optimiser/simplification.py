"""Patterns that simplify: operators whose result is known, shared, or read by nobody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import replace

from workbench.profiles.graph import Operand, Operator, OperatorGraph, View, trained_statistics
from workbench.profiles.private import OpOverload
from workbench.profiles.recorder import seen_one_way, writes

Pattern = Callable[[OperatorGraph], OperatorGraph]
"""Returns an equal graph of fewer nodes; the same object where it finds nothing."""


def makers(graph: OperatorGraph) -> dict[int, int]:
    """Number of the operator that makes each value."""
    return {
        view.value: at for at, operator in enumerate(graph.operators) for view in operator.makes
    }


def reads(graph: OperatorGraph) -> Counter[int]:
    """Count how often each value is read or returned."""
    counts = Counter(view.value for operator in graph.operators for view in operator.reads)
    counts.update(view.value for view in graph.outputs)
    return counts


def is_pure(operator: Operator) -> bool:
    """Whether it does nothing but return what follows from what it reads."""
    function = operator.function
    if not isinstance(function, OpOverload):
        return True
    return not (operator.is_random or writes(function) or trained_statistics(operator))


def without(graph: OperatorGraph, removed: Container[int]) -> OperatorGraph:
    """The graph without some operators, by number."""
    left = tuple(operator for at, operator in enumerate(graph.operators) if at not in removed)
    return graph if len(left) == len(graph.operators) else replace(graph, operators=left)


def instead_of(graph: OperatorGraph, other: Mapping[int, int]) -> OperatorGraph:
    """The graph with other values of the same form in the place of some, by number."""

    def now(view: View) -> View:
        value = view.value
        while value in other:
            value = other[value]
        return view if value == view.value else replace(view, value=value)

    def rewritten(one: Operator) -> Operator:
        if not any(view.value in other for view in one.reads):
            return one
        read = tuple(map(now, one.reads))
        return replace(one, reads=read, may_overwrite=seen_one_way(one.may_overwrite, read))

    operators = tuple(map(rewritten, graph.operators))
    return replace(graph, operators=operators, outputs=tuple(map(now, graph.outputs)))


_NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "div": 1, "pow": 1}
_COMMUTES = {"add", "mul"}
_FULL = {"zeros": 0, "zeros_like": 0, "ones": 1, "ones_like": 1}


def neutral(graph: OperatorGraph) -> OperatorGraph:
    """Drop operators that return an operand: adding zero, multiplying by one, and copies."""
    made = makers(graph)

    def number(argument: object, operator: Operator) -> object:
        """The number that an argument is, or that a tensor is full of."""
        if not isinstance(argument, Operand):
            return argument
        maker = made.get(operator.reads[argument.read].value)
        return None if maker is None else _FULL.get(graph.operators[maker].name)

    other: dict[int, int] = {}
    removed = set[int]()
    for at, operator in enumerate(graph.operators):
        kept = _kept(operator, number)
        if kept is not None and len(operator.makes) == 1:
            (result,) = operator.makes
            if replace(kept, value=result.value) == result:
                other[result.value] = kept.value
                removed.add(at)
    return without(instead_of(graph, other), removed) if removed else graph


def _kept(operator: Operator, number: Callable[[object, Operator], object]) -> View | None:
    """The operand that an operator returns, if it does."""
    args, kwargs = operator.arguments
    if operator.name == "clone" and not kwargs:
        return operator.reads[0]
    if operator.name not in _NEUTRAL or len(args) != 2 or kwargs.get("rounding_mode"):
        return None
    pairs = [args, args[::-1]] if operator.name in _COMMUTES else [args]
    if kwargs.get("alpha", 1) != 1:
        pairs = [args]
    for operand, other in pairs:
        if isinstance(operand, Operand) and number(other, operator) == _NEUTRAL[operator.name]:
            return operator.reads[operand.read]
    return None


def views(graph: OperatorGraph) -> OperatorGraph:
    """Drop transposes, reshapes and slices: readers know which memory a view shows."""
    empty = {
        at
        for at, operator in enumerate(graph.operators)
        if not operator.makes and is_pure(operator)
    }
    return without(graph, empty)


def common(graph: OperatorGraph) -> OperatorGraph:
    """Put the first of equal operators in the place of all."""
    seen: dict[object, Operator] = {}
    other: dict[int, int] = {}
    removed = set[int]()
    for at, operator in enumerate(graph.operators):
        if not operator.makes or not is_pure(operator):
            continue
        read = (replace(view, value=other.get(view.value, view.value)) for view in operator.reads)
        first = seen.setdefault(
            (operator.function, repr(operator.arguments), tuple(read)), operator
        )
        if first is not operator:
            pairs = zip(operator.makes, first.makes, strict=True)
            other |= {view.value: earlier.value for view, earlier in pairs}
            removed.add(at)
    return without(instead_of(graph, other), removed) if removed else graph


def dead(graph: OperatorGraph) -> OperatorGraph:
    """Drop operators whose results are neither returned nor read by an operator that is needed."""
    needed = {view.value for view in graph.outputs}
    removed = set[int]()
    for at in reversed(range(len(graph.operators))):
        operator = graph.operators[at]
        if is_pure(operator) and not any(view.value in needed for view in operator.makes):
            removed.add(at)
        else:
            needed |= {view.value for view in operator.reads}
    return without(graph, removed)


def folding(graph: OperatorGraph) -> OperatorGraph:
    """Move operators on constants into the graph's preparation, before all runs.

    Weights are constants, too, unless a step of training changes them.
    """
    changing = {view.value for view in graph.inputs} | _written(graph)
    constant = graph.outside - changing
    constant |= {view.value for operator in graph.preparation for view in operator.makes}
    left, moved = [], list(graph.preparation)
    for operator in graph.operators:
        if (
            operator.makes
            and is_pure(operator)
            and all(view.value in constant for view in operator.reads)
        ):
            constant |= {view.value for view in operator.makes}
            moved.append(operator)
        else:
            left.append(operator)
    if len(left) == len(graph.operators):
        return graph
    return replace(graph, operators=tuple(left), preparation=tuple(moved))


def _written(graph: OperatorGraph) -> set[int]:
    """Values from outside that the graph changes: parameters by an update, and buffers."""
    made = {
        graph.values[view.value].storage for operator in graph.operators for view in operator.makes
    }
    updated = {
        view.value
        for operator in graph.operators
        if operator.phase == "update" or not is_pure(operator)
        for view in operator.reads
    }
    return updated | {at for at, value in enumerate(graph.values) if value.storage in made}
