"""A training job, the same for all its workers, and the progress of a worker and its peers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from workbench.clusters import Cluster


@dataclass(frozen=True, eq=False, kw_only=True)
class Job:
    """A training job, the same for all workers of a run."""

    network: Cluster
    shards: Sequence[NDArray[np.int64]]  # training samples of each node
    epoch_samples: int  # all nodes together
    seed: int
    batch_size: int  # at first
    sample_s: Sequence[float]  # seconds of learning from a sample at speed 1, by node
    learning_rate: float
    evaluate_every: int  # epochs or iterations
    patience_s: float = math.inf  # silence after which a peer counts as gone
    tensor_bytes: tuple[float, ...] = ()  # a model's tensors on the links, if they count one by one
    host_s: float = 0.0  # in every iteration
    iteration_factor: float = 1.0  # iterations of a longer training that each one stands for
    variables: tuple[slice, ...] = ()  # slices of the flat vector
    last_iteration: float = math.inf

    def evaluates(self, at: int, last: float) -> bool:
        """Whether models are evaluated at the end of an epoch or iteration."""
        return not at % self.evaluate_every or at == last


@dataclass(eq=False)
class Progress:
    """Progress of a worker and, as far as it knows, of its peers.

    `undelivered` counts own messages that no receiver has acknowledged yet, only for systems that
    are ``acknowledged``.
    """

    iteration: int = 0  # the last one computed; 0 before the first
    newest: dict[int, int] = field(default_factory=dict)  # iteration last heard of, by alive peer
    undelivered: int = 0


Synchronisation = Callable[[Progress], bool]
"""Whether a worker may begin its next iteration."""


def asynchronous(progress: Progress) -> bool:
    """Never wait."""
    del progress
    return True
