"""The workbench: how neural networks are trained across devices, edge servers and clouds."""

__version__ = "0.1.0"
