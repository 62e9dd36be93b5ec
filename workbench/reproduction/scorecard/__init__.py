"""The papers' numbers against the workbench's: every claim judged, as table, text and picture.

`of_results` judges stored results, `of_frames` the frames of a notebook, `verdicts` its figures;
none runs anything.
"""

from workbench.reproduction.scorecard.card import ROLES, Row, Scorecard, Verdicts
from workbench.reproduction.scorecard.judging import fitted_on, of_frames, of_results, verdicts
from workbench.reproduction.scorecard.one_claim import one_claim
from workbench.reproduction.scorecard.picture import check_picture, picture, show, write
from workbench.reproduction.scorecard.text import FORMATS, render

__all__ = [
    "FORMATS",
    "ROLES",
    "Row",
    "Scorecard",
    "Verdicts",
    "check_picture",
    "fitted_on",
    "of_frames",
    "of_results",
    "one_claim",
    "picture",
    "render",
    "show",
    "verdicts",
    "write",
]
