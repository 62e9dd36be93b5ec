"""What the papers report against what the workbench gets: claims, the rule, the scorecard.

Claims are rows of ``data/claims.csv``. Each system answers its own in
``workbench/SYSTEM/answers.py``, by one function from the frames that its notebook stored to an
`Answer` for each claim::

    def answers(frames: Mapping[str, pl.DataFrame]) -> dict[str, Answer]: ...

It answers what the given frames allow and leaves out what needs a frame that is not there.
`verdict` holds the rule, the same for every claim; `scorecard` puts claims, answers and verdicts
together::

    claim.py       what a paper states
    table.py       the table of claims
    answer.py      what we get for one claim, and which systems answer
    rule.py        the one rule, from a claim and ours to a verdict
    roles.py       what a claim is to us: given, fitted on or predicted
    excuse.py      why a claim has no answer, and the command that makes one
    row.py         one claim, judged
    card.py        the scorecard: all rows, their totals and errors
    judging.py     makes the scorecard from stored results or from frames at hand
    text.py        the scorecard as text; terminal.py, markdown.py: two of its formats
    words.py       what these have in common
"""

from workbench.claims.answer import Answer, built
from workbench.claims.card import Scorecard
from workbench.claims.claim import CHECKS, COLUMNS, Claim
from workbench.claims.judging import of_frames, scorecard
from workbench.claims.roles import ROLES, fitted_on
from workbench.claims.row import Row
from workbench.claims.rule import (
    OTHER_TOLERANCE,
    REFERENCES,
    TOLERANCES,
    VERDICTS,
    siblings,
    tolerance,
    verdict,
)
from workbench.claims.table import load_claims
from workbench.claims.text import render

__all__ = [
    "CHECKS",
    "COLUMNS",
    "OTHER_TOLERANCE",
    "REFERENCES",
    "ROLES",
    "TOLERANCES",
    "VERDICTS",
    "Answer",
    "Claim",
    "Row",
    "Scorecard",
    "built",
    "fitted_on",
    "load_claims",
    "of_frames",
    "render",
    "scorecard",
    "siblings",
    "tolerance",
    "verdict",
]
