"""Charts of OLPB's paper: frame to chart."""

from workbench.olpb.paper.charts.memory import arena

__all__ = ["arena"]
