"""Recorded rows by the names that other modules know; see `workbench.experiments.recordings`."""

from workbench.experiments.recordings import FOLDER, UNTRACEABLE, load, load_all
from workbench.experiments.recordings import Recording as Recorded

__all__ = ["FOLDER", "UNTRACEABLE", "Recorded", "load", "load_all"]
