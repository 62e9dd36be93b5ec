"""What the papers state, our answers, and the rule that compares the two.

Claims are rows of ``data/claims.csv``; the figures of a system's ``paper/`` answer them. `verdict`
is the rule, the same for every claim. `workbench.scorecard` judges stored results by it.
"""

from workbench.claims.answer import Answer
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
from workbench.claims.judge import judge, verdicts
from workbench.claims.rule import (
    MET,
    MISSES,
    OTHER_TOLERANCE,
    REFERENCES,
    TOLERANCES,
    VERDICTS,
    accepted,
    tolerance,
    verdict,
)

__all__ = [
    "CAUSES",
    "CHECKS",
    "COLUMNS",
    "MET",
    "MISSES",
    "OTHER_TOLERANCE",
    "REFERENCES",
    "TOLERANCES",
    "VERDICTS",
    "Answer",
    "Cause",
    "Claim",
    "accepted",
    "claims_of",
    "judge",
    "load_claims",
    "paper_value",
    "siblings",
    "tolerance",
    "verdict",
    "verdicts",
]
