"""What the papers state, our answers, and the rule that compares the two.

Claims are rows of ``data/claims.csv``; the figures of a system's ``paper/`` answer them. `verdict`
is the rule, the same for every claim. `workbench.reproduction.scorecard` judges stored results by
it.
"""

from workbench.reproduction.claims.claim import (
    CAUSES,
    Answer,
    Cause,
    Claim,
    claims_of,
    load_claims,
    paper_value,
    paper_values,
)
from workbench.reproduction.claims.rule import (
    MET,
    MISSES,
    VERDICTS,
    accepted,
    judge,
    tolerance,
    verdict,
    verdicts,
)

__all__ = [
    "CAUSES",
    "MET",
    "MISSES",
    "VERDICTS",
    "Answer",
    "Cause",
    "Claim",
    "accepted",
    "claims_of",
    "judge",
    "load_claims",
    "paper_value",
    "paper_values",
    "tolerance",
    "verdict",
    "verdicts",
]
