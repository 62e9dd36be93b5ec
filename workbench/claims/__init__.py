"""The papers' numbers against the workbench's: claims, the rule, the scorecard.

Claims are rows of ``data/claims.csv``; a system's ``paper/answers.py`` maps stored frames to them.
`verdict` is the rule, the same for every claim. `scorecard` judges stored results, `of_frames` the
frames of a notebook; neither runs anything.
"""

from workbench.claims.answer import Answer, Table, answered, built, stored_answers
from workbench.claims.cause import CAUSES, Cause
from workbench.claims.claim import (
    CHECKS,
    COLUMNS,
    Claim,
    claims_of,
    load_claims,
    paper_value,
    siblings,
)
from workbench.claims.judging import fitted_on, judge, of_frames, scorecard, verdicts
from workbench.claims.picture import picture, show, write
from workbench.claims.rule import (
    OTHER_TOLERANCE,
    REFERENCES,
    TOLERANCES,
    VERDICTS,
    tolerance,
    verdict,
)
from workbench.claims.scorecard import ROLES, Row, Scorecard
from workbench.claims.text import render

__all__ = [
    "CAUSES",
    "CHECKS",
    "COLUMNS",
    "OTHER_TOLERANCE",
    "REFERENCES",
    "ROLES",
    "TOLERANCES",
    "VERDICTS",
    "Answer",
    "Cause",
    "Claim",
    "Row",
    "Scorecard",
    "Table",
    "answered",
    "built",
    "claims_of",
    "fitted_on",
    "judge",
    "load_claims",
    "of_frames",
    "paper_value",
    "picture",
    "render",
    "scorecard",
    "show",
    "siblings",
    "stored_answers",
    "tolerance",
    "verdict",
    "verdicts",
    "write",
]
