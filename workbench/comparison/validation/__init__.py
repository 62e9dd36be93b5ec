"""Predicted and simulated times against measured ones: of every system, and of your own runs.

`validate` takes epochs that you have measured. `cases` are trainings of every system that this
machine measures with processes; `recording` has their recorded runs, `errors` how far each way of
answering is off.
"""

from workbench.comparison.validation.own_runs import validate

__all__ = ["validate"]
