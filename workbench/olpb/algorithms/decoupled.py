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

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from workbench.utils.checks import UserError


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
