"""Frames of many points as one frame; see `workbench.experiments.sweep.joined`."""

from workbench.experiments.sweep import Part, joined

__all__ = ["Part", "joined"]
