"""Importance sampling: single points drawn in proportion to their losses (a baseline)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from workbench.edgegossip.aggregation.aggregation import Aggregation, Indices
from workbench.edgegossip.algorithms.effects import checked_effects, in_batches, quota
from workbench.utils.checks import UserError


def importance(
    aggregation: Aggregation, effects: ArrayLike, ratio: float, batch_size: int, seed: int = 0
) -> list[Indices]:
    """Points drawn in proportion to their own losses; a `Strategy`'s `select`."""
    losses = checked_effects(effects, len(aggregation.members))
    return importance_sample(losses, ratio, batch_size, seed)


def importance_sample(
    losses: ArrayLike, ratio: float, batch_size: int, seed: int = 0
) -> list[Indices]:
    """Draw points one after the other, each in proportion to its loss among those left.

    After Katharopoulos and Fleuret (ICML 2018), whose samples follow an upper bound of each
    gradient or, as the paper here describes it, the loss. Points without loss come last, in random
    order.

    Deviation: drawn without replacement, since an epoch here processes a share of the data, and not
    weighted by the inverse of the probabilities, so the gradient is that of the points drawn and
    not an estimate of the whole. What is drawn first is learnt from first.

    Deviation: by the paper, importance sampling keeps its subset unchanged during training. Here it
    is drawn again each epoch, from the losses of all points under the present weights, whose
    evaluation is charged: otherwise the ablation would compare rankings of different age, and
    platforms whose ratios change need subsets of changing size.
    """
    weights = checked_effects(losses)
    if weights.min() < 0 or weights.max() == np.inf:
        raise UserError(
            f"losses from {weights.min():g} to {weights.max():g} give no probabilities; "
            "they must be finite and not negative"
        )
    # Of exponential waiting times of rates w each is the first with probability w / W: sorting
    # them is drawing without replacement. In logarithms, since losses may be tiny.
    rng = np.random.default_rng(seed)
    waiting, tie = rng.standard_exponential((2, len(weights)))
    with np.errstate(divide="ignore"):
        order = np.lexsort((tie, np.log(waiting) - np.log(weights)))
    return in_batches(order[: quota(len(weights), ratio)].astype(np.int64), batch_size)
