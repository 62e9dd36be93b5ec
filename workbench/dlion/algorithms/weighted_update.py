"""Weights of peers' gradients (Hong & Chandra 2021, Eqs. 4 and 7).

Deviation: n still counts workers that are gone, which the paper leaves open. Fewer gradients of the
same weights are added then, so that steps get smaller.
"""

from __future__ import annotations

from collections.abc import Callable

Weighting = Callable[[int, int, int, int], float]
"""Weight of a gradient, by the batches of sender and receiver, the global batch, and workers."""


def equal(sent: int, own: int, global_batch: int, workers: int) -> float:
    """Weight gradients by one over the number of workers, whatever the batches (Eq. 4)."""
    del sent, own, global_batch
    return 1 / workers


def dynamic(sent: int, own: int, global_batch: int, workers: int) -> float:
    """The dynamic batching weight, the sender's batch over the receiver's, over n (Eq. 7).

    The weights of a worker with a small batch so sum to more than one, of one with a large batch
    to less.
    """
    del global_batch
    return sent / own / workers


def by_samples(sent: int, own: int, global_batch: int, workers: int) -> float:
    """The sender's share of the global batch, so that weights sum to one. Not in the paper."""
    del own, workers
    return sent / global_batch


WEIGHTINGS: dict[str, Weighting] = {"equal": equal, "dynamic": dynamic, "by_samples": by_samples}
