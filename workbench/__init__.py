"""The workbench: how neural networks are trained across devices, edge servers and clouds."""

from workbench.utils import instruction_set

__version__ = "0.1.0"

instruction_set.fix()
