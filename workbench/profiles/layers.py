"""The layer that each operator belongs to (DynaComm, Cai et al. 2021, Sec. III-A).

"If the computation graph contains branches, the parameters from different branches with the same
depth will be considered as one layer. As for the transformation layers with no actual parameter,
[…] they are considered as a computation portion of their previous layer."

The rule, for operators in the order in which the module calls them:

- An operator that multiplies with, or looks up in, a matrix not used before (`Operator.weighted`:
  convolution, matrix product, embedding, recurrent cell, …) is one deeper than its deepest input.
  Every other operator is as deep as its deepest input.
- Depth is the number of the layer; depth 0, before the first weighted operator, is layer 1.
- So normalisation, biases, scales, activations and poolings belong to the layer before, and so
  does a further use of tied weights, though never to a layer before the weights' own.
- A normalisation with weights of its own whose input crosses the cut behind it anyway, as that of a
  residual connection does, belongs to the layer that uses its result. So one tensor crosses a cut
  between blocks of a transformer that normalise first, not two.
- What is computed from parameters alone (weight normalisation) belongs to the layer that uses it;
  what nothing uses (a counter of batches) to that of the operator before.
- A parameter that is never used belongs to the layer of the one registered before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.profiles.graph import Operator, OperatorGraph, Parameter

CONSTANT = -1  # depth of what no input of the module has touched


@dataclass(frozen=True)
class Layers:
    """The chain of layers that a graph is, numbered from 1.

    A layer is named after the first module in it that bears weights, ``+2`` if two more compute
    beside it. Frozen parameters make layers as others do.
    """

    names: tuple[str, ...]
    parameters: tuple[tuple[Parameter, ...], ...]  # a tied one at its first use
    of_operators: tuple[int, ...]
    of_values: tuple[int, ...]  # layer that made each; `CONSTANT` if no input has touched it
    first_uses: Mapping[int, int]  # layer of each operator that is the first to use a parameter
    tied: Mapping[Parameter, tuple[int, ...]]  # layers of each parameter that several of them use

    @property
    def trained(self) -> tuple[tuple[Parameter, ...], ...]:
        """Parameters of each layer that are not frozen: what is updated, and what travels."""
        return tuple(
            tuple(parameter for parameter in layer if parameter.is_trained)
            for layer in self.parameters
        )


def find_layers(graph: OperatorGraph) -> Layers:
    """Give every operator of a graph its layer."""
    rule = _Rule(graph)
    for operator in graph.operators:
        rule.add(operator)
    if graph.modules is None:
        rule.defer_normalisations()
    homes, names = rule.homes, graph.modules or ()
    count = max([1, len(names), *homes.values()])
    parameters: list[list[Parameter]] = [[] for _ in range(count)]
    home = 1
    for index, parameter in enumerate(graph.parameters):
        home = homes.get(index, home)
        parameters[home - 1].append(parameter)
    if not names:
        names = tuple(
            _name(rule.bearers.get(layer), within) for layer, within in enumerate(parameters, 1)
        )
    return Layers(
        names,
        tuple(map(tuple, parameters)),
        tuple(rule.layers),
        tuple(depth if depth == CONSTANT else max(depth, 1) for depth in rule.depths),
        rule.first_uses,
        {
            graph.parameters[index]: tuple(sorted(layers))
            for index, layers in sorted(rule.uses.items())
            if len(layers) > 1
        },
    )


class _Rule:
    """State of the rule after some of a graph's operators."""

    def __init__(self, graph: OperatorGraph) -> None:
        self.graph = graph
        self.layers: list[int] = []  # layer of each operator so far
        self.homes: dict[int, int] = {}  # parameter -> its layer
        self.bearers: dict[int, list[str]] = {}  # layer -> who bears its matrices
        self.first_uses: dict[int, int] = {}
        self.uses: dict[int, set[int]] = {}  # parameter -> all layers that use it
        self.normalising: list[int] = []  # operators with new parameters, none of them a matrix
        # Of each value: its depth, the parameters that a constant is made from, and the operators
        # that made it and have no layer of their own yet.
        self.depths = [0 if value.origin == "input" else CONSTANT for value in graph.values]
        self.made_from = [value.parameters for value in graph.values]
        self.pending: dict[int, tuple[int, ...]] = dict.fromkeys(range(len(graph.values)), ())

    def add(self, operator: Operator) -> None:
        index = len(self.layers)
        read = [view.value for view in operator.reads]
        parameters = frozenset[int]().union(*(self.made_from[value] for value in read))
        depth = max((self.depths[value] for value in read), default=CONSTANT)
        pending: tuple[int, ...] = ()
        self.layers.append(max(operator.module_layer, self.layers[-1] if self.layers else 1))
        if depth == CONSTANT:
            pending = (*(earlier for value in read for earlier in self.pending[value]), index)
            if not operator.makes:  # a view, such as a transposed weight
                self.pending |= dict.fromkeys(read, pending)
        else:
            depth = self._depth(operator, depth, parameters)
            parameters = frozenset()
            for earlier in (index, *(before for value in read for before in self.pending[value])):
                self.layers[earlier] = max(depth, 1)
            for value in read:
                self.pending[value] = ()
        for made in operator.makes:
            self.depths[made.value] = depth
            self.made_from[made.value] = parameters
            self.pending[made.value] = pending

    def _depth(self, operator: Operator, depth: int, parameters: frozenset[int]) -> int:
        """Depth of an operator on activations of `depth`; new parameters find a home there."""
        new = sorted(parameters - self.homes.keys())
        matrices = [parameter for parameter in new if self.graph.parameters[parameter].is_matrix]
        starts = operator.weighted and bool(matrices)
        if self.graph.modules is not None:
            depth = max(depth, operator.module_layer)
        else:
            depth = max(
                [
                    depth + starts,
                    *(self.homes[parameter] for parameter in parameters if parameter in self.homes),
                ]
            )
        layer = max(depth, 1)
        self.homes.update(dict.fromkeys(new, layer))
        for parameter in parameters:
            self.uses.setdefault(parameter, set()).add(layer)
        if new:
            self.first_uses[len(self.layers) - 1] = layer
        if starts:
            bearer = _bearer(self.graph.parameters[matrices[0]].name)
            self.bearers.setdefault(layer, []).append(bearer)
        elif new:
            self.normalising.append(len(self.layers) - 1)
        return depth

    def defer_normalisations(self) -> None:
        """Move normalisations to the layer that uses their result, where their input crosses."""
        operators, makers = self.graph.operators, dict[int, int]()
        readers: dict[int, set[int]] = {}
        for index, operator in enumerate(operators):
            makers |= {made.value: index for made in operator.makes}
            for view in operator.reads:
                readers.setdefault(view.value, set()).add(index)
        outputs = {view.value for view in self.graph.outputs}
        for index in reversed(self.normalising):
            part = self._whole_normalisation(index, makers, readers, outputs)
            results = {made.value for at in part for made in operators[at].makes}
            users = {at for value in results for at in readers.get(value, ())} - part
            if not users or results & outputs:
                continue
            layer = min(self.layers[at] for at in users)
            inputs = {view.value for at in part for view in operators[at].reads} - results
            crosses = all(
                any(self.layers[at] >= layer for at in readers[value] - part)
                if self.depths[value] != CONSTANT
                else readers[value] <= part  # weights that nothing else uses
                for value in inputs
            )
            if layer > self.layers[index] and crosses:
                self._move(part, layer)

    def _whole_normalisation(
        self, index: int, makers: dict[int, int], readers: dict[int, set[int]], outputs: set[int]
    ) -> set[int]:
        """An operator that scales, and those of its layer whose results nothing else uses."""
        operators, part, waiting = self.graph.operators, set[int](), {index}
        while waiting:
            at = waiting.pop()
            part.add(at)
            near = {makers[view.value] for view in operators[at].reads if view.value in makers}
            near |= {  # views of its results
                reader
                for made in operators[at].makes
                for reader in readers.get(made.value, ())
                if not operators[reader].makes
            }
            for other in near - part:
                made = {view.value for view in operators[other].makes}
                users = {reader for value in made for reader in readers.get(value, ())}
                used = {reader for reader in users if operators[reader].makes}
                same = self.layers[other] == self.layers[index]
                if same and not operators[other].weighted and not made & outputs and used <= part:
                    waiting.add(other)
        return part

    def _move(self, part: set[int], layer: int) -> None:
        for at in part:
            operator = self.graph.operators[at]
            self.layers[at] = layer
            for made in operator.makes:
                self.depths[made.value] = layer
            if at in self.first_uses:
                self.first_uses[at] = layer
            for value in (view.value for view in operator.reads):
                for parameter in self.made_from[value]:
                    self.homes[parameter] = layer
                    self.uses[parameter] = {layer}


def _name(bearers: list[str] | None, parameters: list[Parameter]) -> str:
    if not bearers:
        return parameters[0].name
    return bearers[0] + (f" +{len(bearers) - 1}" if len(bearers) > 1 else "")


def _bearer(parameter: str) -> str:
    """Name of the module whose weight a parameter is, else of the parameter itself."""
    for ending in (".parametrizations.weight.original", ".parametrizations.weight.original0"):
        parameter = parameter.removesuffix(ending)
    return parameter.removesuffix(".weight")
