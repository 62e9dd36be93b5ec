"""What the papers state, our answers, and the rule that compares the two.

Claims are rows of ``data/claims.csv``; the figures of a system's ``paper/`` answer them. `verdict`
is the rule, the same for every claim. `workbench.scorecard` judges stored results by it.
"""

from workbench.claims.answer import CAUSES, Answer, Cause
from workbench.claims.claim import COLUMNS, Claim, claims_of, load_claims, paper_value, siblings
from workbench.claims.rule import (
    MET,
    MISSES,
    VERDICTS,
    accepted,
    compared_with,
    judge,
    tolerance,
    verdict,
    verdicts,
)

__all__ = [
    "CAUSES",
    "COLUMNS",
    "MET",
    "MISSES",
    "VERDICTS",
    "Answer",
    "Cause",
    "Claim",
    "accepted",
    "claims_of",
    "compared_with",
    "judge",
    "load_claims",
    "paper_value",
    "siblings",
    "tolerance",
    "verdict",
    "verdicts",
]
