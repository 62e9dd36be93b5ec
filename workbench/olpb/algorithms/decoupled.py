"""Decoupled parallel back-propagation, DPB: modules learn from gradients of earlier iterations.

Huo, Gu, Yang and Huang 2018, *Decoupled Parallel Backpropagation with Convergence Guarantee*, Eq. 8
and Alg. 1: a network is cut into K modules, each on a node. In iteration t every module passes the
batch t forward, one after the other; then all go backward at once, each with the gradient that the
module after it found an iteration before. So module k, from 0, goes backward through batch
t - (K - 1 - k). It keeps what it has passed forward, with a copy of the weights that it used then,
until that batch's gradient comes; in its first K - 1 - k iterations it has none, and learns
nothing.

All modules passed a batch s with their weights of iteration s, so

    w_k(t + 1) = w_k(t) - step of dL_s/dw_k at w(s),   s = t - (K - 1 - k)

which is stochastic gradient descent with each module's gradients late, and descent itself with one
module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Generic, TypeVar

import numpy as np

from workbench.utils.checks import UserError

Weights = TypeVar("Weights")
Pass = TypeVar("Pass")
"""A batch in a module: inputs, outputs, and a copy of the weights between them."""
Gradient = TypeVar("Gradient")


@dataclass(frozen=True)
class Module(Generic[Weights, Pass]):
    """A module's state between two steps."""

    place: int  # k, from 0 at the input
    modules: int  # K
    weights: Weights
    passes: tuple[Pass, ...] = ()  # batches that have not gone backward, the oldest first

    @property
    def late(self) -> int:
        """Iterations between a batch's pass forward and its gradient: K - 1 - k."""
        return self.modules - 1 - self.place

    @property
    def due(self) -> bool:
        """Whether the oldest pass goes backward next; in the first iterations none does."""
        return len(self.passes) > self.late


def forward(state: Module[Weights, Pass], run: Callable[[Weights], Pass]) -> Module[Weights, Pass]:
    """Pass a batch forward, and keep what `run` makes of it with the current weights."""
    assert not state.due, "it goes backward before it passes another batch on"
    return replace(state, passes=(*state.passes, run(state.weights)))


def backward(
    state: Module[Weights, Pass], learn: Callable[[Weights, Pass], tuple[Weights, Gradient]]
) -> tuple[Module[Weights, Pass], Gradient | None]:
    """Learn from the oldest pass, and forget it; in the first iterations, nothing.

    `learn` gives the next weights, and the gradient for the module before.
    """
    if not state.due:
        return state, None
    weights, gradient = learn(state.weights, state.passes[0])
    return replace(state, weights=weights, passes=state.passes[1:]), gradient


def cut(costs: Sequence[float], modules: int) -> tuple[range, ...]:
    """Cut a line of layers into modules, none of them empty, whose dearest costs the least.

    Of several such cuts, the one with the longest modules first.
    """
    if modules > len(costs):
        layers = f"{len(costs)} layer{'' if len(costs) == 1 else 's'}"
        raise UserError(f"{layers} cannot be cut into {modules} modules; use at most {len(costs)}")
    before = [0.0, *accumulate(map(float, costs))]
    from_to = np.subtract.outer(before, before)[np.tril_indices(len(before), -1)]
    candidates = np.unique(from_to).tolist()  # what any span of layers costs
    low, high = 0, len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        if len(_filled(before, candidates[middle], modules)) == modules + 1:
            high = middle
        else:
            low = middle + 1
    ends = _filled(before, candidates[low], modules)
    return tuple(range(start, end) for start, end in pairwise(ends))


def _filled(before: Sequence[float], most: float, modules: int) -> list[int]:
    """Ends of modules of at most this cost, each as long as it can be; too few if it is too low."""
    layers, ends = len(before) - 1, [0]
    for module in range(modules):
        latest = layers - (modules - 1 - module)  # a layer stays for each of the others
        end = ends[-1]
        while end < latest and before[end + 1] - before[ends[-1]] <= most:
            end += 1
        if end == ends[-1]:
            return ends
        ends.append(end)
    return ends if ends[-1] == layers else ends[:-1]
