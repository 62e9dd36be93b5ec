"""Who computes, over which links; the papers' testbeds."""

from workbench.clusters.link import Link
from workbench.clusters.testbeds import load_testbed

__all__ = ["Link", "load_testbed"]
