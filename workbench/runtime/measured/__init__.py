"""Runs worker programs as real processes, over links of the stated speed."""

from workbench.runtime.measured.measuring import measure
from workbench.runtime.measured.run import MeasuredRun
from workbench.runtime.measured.sessions import session

__all__ = ["MeasuredRun", "measure", "session"]
