"""What each scale means for HierTrain; figures that are not named here are always whole."""

from __future__ import annotations

from workbench.experiments import Scaled

REPEATS = Scaled(smoke=1, default=5, paper=21)
"""Table II."""
SAMPLES = Scaled(smoke=160, default=2000, paper=None)
"""Trainings: of a data set; None for all."""
EPOCHS = Scaled(smoke=1, default=6, paper=50)
"""Trainings."""
SEEDS = Scaled(smoke=1, default=1, paper=5)
"""Trainings of each kind."""
BITS = Scaled(
    smoke=(1, 8, 32), default=(1, 2, 3, 4, 5, 6, 7, 8, 32), paper=(1, 2, 3, 4, 5, 6, 7, 8, 32)
)
"""JALAD's c."""
DEVICES = Scaled(smoke=(2, 3, 4), default=(2, 4, 6, 8, 12), paper=tuple(range(2, 13)))
"""Fleets."""
EDGES = Scaled(smoke=(1, 2), default=(1, 2, 3), paper=(1, 2, 3))
"""Fleets."""
DRAWS = Scaled(smoke=(2,), default=(0, 1), paper=tuple(range(10)))
"""Fleets of each size, by number; at smoke one in which it matters who is assigned where."""
PROCESSES = Scaled(smoke=1, default=None, paper=None)
"""That trainings and fleets are done in; None for one a core."""
