"""Predictions against measured times: those of others, and those of this machine's processes.

`validate` predicts the rows of a corpus, a table of times that others measured; `corpora` has a
module for each, `against` fits constants and says how far predictions are off. `cases` are
trainings of every system that this machine measures with processes; `recording` has their recorded
runs, `errors` how far each way of answering is off.
"""

from workbench.comparison.validation.against import validate

__all__ = ["validate"]
