"""What each scale means for DLion. Times and bytes are always those of the paper's size."""

from __future__ import annotations

from workbench.dlion.paper.testbed import (
    CPU_ENVIRONMENTS,
    DYNAMIC,
    Learner,
)
from workbench.experiments import Scaled

_SMALL = Learner("cipher_small", "cipher", stands_for=8.0, local_batch=16, learning_rate=0.5)
_TINY = _SMALL._replace(stands_for=120.0)

LEARNERS = Scaled(smoke=_TINY, default=_SMALL, paper=Learner())
"""In Cipher's place. One iteration stands for several, one sample for several of its samples."""
MOBILE_LEARNERS = Scaled(
    smoke=_TINY._replace(timed="mobilenet_v1", stands_for=1200.0),
    default=_SMALL._replace(timed="mobilenet_v1", stands_for=45.0),
    paper=Learner("mobilenet_v1_cifar", "mobilenet_v1"),
)
"""In MobileNet's."""
AT_DEFAULT = "digits"
"""Data: in the few hundred iterations of minutes hardly anything is learnt from cluttered ones."""
SAMPLES = Scaled[int | None](smoke=240, default=1500, paper=None)
"""At most; None for all."""
TEST_SAMPLES = Scaled[int | None](smoke=60, default=200, paper=None)
EVALUATE_EVERY = Scaled(smoke=3, default=20, paper=100)
"""Iterations of the learner."""
SEEDS = Scaled(smoke=1, default=1, paper=3)
ENVIRONMENTS = Scaled(
    smoke=("homo_a", "hetero_sys_a"),
    default=("homo_a", "hetero_sys_a"),
    paper=(*CPU_ENVIRONMENTS, *DYNAMIC),
)
"""In which all combinations of techniques are trained."""
CONVERGED_S = Scaled(smoke=1500.0, default=3000.0, paper=3000.0)
"""Seconds in which Fig. 21 takes a training for converged."""
LARGEST = Scaled(smoke=12, default=24, paper=64)
"""Workers."""
TIMING_PERIOD = Scaled(smoke=3, default=15, paper=100)
"""Iterations of the learner from one timing of batches to the next. Below ``paper`` it is longer
than the paper's in time, since each computes gradients for nothing but their time."""
PROCESSES = Scaled(smoke=1, default=None, paper=None)
"""That trainings run in; None for one a core."""
