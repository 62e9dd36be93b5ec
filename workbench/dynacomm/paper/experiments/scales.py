"""What each scale means for DynaComm; figures that are not named here are always whole."""

from __future__ import annotations

from workbench.experiments import Scaled

BATCH_SIZES = Scaled(
    smoke=(8, 16, 24, 32, 64), default=tuple(range(4, 65, 2)), paper=tuple(range(1, 65))
)
"""Fig. 9a."""
REPEATS = Scaled(smoke=2, default=5, paper=5)
"""Table I, Fig. 12."""
TIMED_LAYERS = Scaled(
    smoke=(20, 40, 80),
    default=(25, 50, 100, 200, 400, 800),
    paper=(25, 50, 100, 200, 400, 800, 1200),
)
"""Fig. 12."""
PROFILED = Scaled(
    smoke={"lenet5": 2},
    default={"vgg19": 2, "resnet50": 4, "googlenet": 4, "inception_v4": 1, "resnet152": 1},
    paper={"vgg19": 8, "resnet50": 8, "googlenet": 32, "inception_v4": 32, "resnet152": 32},
)
"""Table II: batch size by model."""
PROFILED_REPEATS = Scaled(smoke=3, default=3, paper=9)
TRAINED = Scaled(smoke="resnet20_cifar", default="lenet5_cifar", paper="resnet20_cifar")
"""Fig. 10."""
SAMPLES = Scaled(smoke=64, default=2000, paper=None)
"""Fig. 10: of a data set; None for all."""
EPOCHS = Scaled(smoke=1, default=6, paper=200)
"""Fig. 10."""
ITERATIONS = Scaled(smoke=9, default=80, paper=780)
"""Re-planning."""
EPOCH_ITERATIONS = Scaled(smoke=3, default=10, paper=195)
"""Re-planning."""
WORKERS = Scaled(smoke=(1, 6), default=tuple(range(1, 9)), paper=tuple(range(1, 9)))
"""Fig. 11, simulated."""
SIMULATED_ITERATIONS = Scaled(smoke=2, default=2, paper=5)
"""Fig. 11, simulated; the last one counts."""
