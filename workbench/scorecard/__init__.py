"""The papers' numbers against the workbench's: every claim judged, as table, text and picture.

`of_results` judges stored results, `of_frames` the frames of a notebook; neither runs anything.
"""

from workbench.scorecard.card import ROLES, Row, Scorecard
from workbench.scorecard.judging import fitted_on, of_frames, of_results
from workbench.scorecard.one_claim import one_claim
from workbench.scorecard.picture import picture, show, write
from workbench.scorecard.text import render

__all__ = [
    "ROLES",
    "Row",
    "Scorecard",
    "fitted_on",
    "of_frames",
    "of_results",
    "one_claim",
    "picture",
    "render",
    "show",
    "write",
]
