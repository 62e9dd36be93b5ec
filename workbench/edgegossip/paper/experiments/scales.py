"""What each scale means for EdgeGossip. Times are always those of the paper's size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from workbench.edgegossip.paper.testbed import (
    DEPLOYMENTS,
    EPOCHS,
    MODELS,
    POINTS,
    STATED,
)
from workbench.experiments import Scaled


class Learner(NamedTuple):
    """A model that learns, itself timed or in the place of one that is.

    Attributes
    ----------
    model
        Of the zoo.
    epochs, batch_size, learning_rate
        Of the training.
    """

    model: str
    epochs: int
    batch_size: int
    learning_rate: float


class Measuring(NamedTuple):
    """What `workbench.edgegossip.profiling_runs` measures."""

    sizes: Sequence[int]
    seconds_per_point: float
    repeats: int
    every_s: float


_BATCH: int = STATED["training"]["batch_size"]
_RATE: float = STATED["training"]["learning_rate"]

LEARNERS = Scaled(
    smoke=dict.fromkeys(MODELS, Learner("lenet5", 2, 16, 0.02))
    | {MODELS[1]: Learner("alexnet_small", 2, 16, 0.02)},
    default=dict.fromkeys(MODELS, Learner("lenet5", 20, 16, 0.02)),
    paper={name: Learner(name, EPOCHS, _BATCH, _RATE) for name in MODELS},
)
"""By the model that is timed."""
SAMPLES = Scaled[int | None](smoke=240, default=1500, paper=POINTS)
"""At most."""
TEST_SAMPLES = Scaled(smoke=60, default=1000, paper=None)
"""At most; None for all."""
EVALUATE_EVERY = Scaled(smoke=1, default=4, paper=1)
"""Epochs."""
SEEDS = Scaled(smoke=1, default=3, paper=3)
"""Trainings of each kind."""
ALL_TECHNIQUES = Scaled(smoke=MODELS[3:], default=MODELS[3:], paper=MODELS)
"""Models that are trained with each technique of aggregation; the others with the first."""
LARGER = Scaled(smoke=(8,), default=(8,), paper=DEPLOYMENTS[1:])
"""Numbers of platforms in Fig. 6, trained."""
PASSES = Scaled(smoke=2, default=15, paper=40)
"""Of LeNet-5 over the aggregated points in Fig. 3b."""
AGGREGATED = Scaled(smoke=300, default=6000, paper=POINTS)
"""Points in Fig. 7; images are shifted copies where there are not so many."""
DECOMPOSED = Scaled(smoke=200, default=2000, paper=12_000)
"""Points in Fig. 3a, where whole data sets are decomposed in full."""
TAUGHT = Scaled(smoke=200, default=2000, paper=8000)
"""Points in Fig. 3b, which are aggregated for each seed."""
PROCESSES = Scaled(smoke=1, default=None, paper=None)
"""That trainings run in; None for one a core."""

PAPER_SIZES_BYTES = tuple(step * 10**power for power in range(6, 11) for step in (1, 2, 5))[:13]
# As many and as far apart, but begun ten times a second: beside the smallest two cores are all but
# free, beside the largest two without a pause, and a second sees some jobs from begin to end.
SIZES_BYTES = tuple(size // 500 for size in PAPER_SIZES_BYTES)
MEASURING = Scaled(
    smoke=None,
    default=Measuring(SIZES_BYTES, 0.5, 2, 0.1),
    paper=Measuring(PAPER_SIZES_BYTES, 60.0, 5, 60.0),
)
"""Figs. 9 to 11; None for the recorded samples."""
RECORDING = Measuring(SIZES_BYTES, 1.0, 6, 0.1)
