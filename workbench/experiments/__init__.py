"""What the experiments of all systems share.

An experiment is a function from parameters to a polars frame. `sweep` makes its rows point by
point: it shows progress, keeps finished rows at Ctrl-C (`ExperimentInterrupted`) and failed points
as rows with a reason, goes on where it was stopped if it has a folder for that, and can run points
in parallel processes or on a Ray cluster. `Scaled` holds a size at each scale, `data_set` chooses
the data. `workbench.experiments.record` runs an experiment of hours once, and
`workbench.experiments.recordings` reads its rows.
"""

from workbench.experiments.data import data_set
from workbench.experiments.scales import Scaled, processes_at, seeds_from
from workbench.experiments.sweep import ExperimentInterrupted, grid, interruptible, sweep, whole

__all__ = [
    "ExperimentInterrupted",
    "Scaled",
    "data_set",
    "grid",
    "interruptible",
    "processes_at",
    "seeds_from",
    "sweep",
    "whole",
]
