"""One claim, judged: a line of the scorecard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.claims.answer import Answer
from workbench.claims.claim import Claim
from workbench.claims.rule import siblings, verdict


@dataclass(frozen=True)
class Row:
    """One claim, judged. `difference` is ours less the paper's, in the claim's unit."""

    id: str
    system: str
    source: str
    setting: str
    metric: str
    unit: str
    check: str
    role: str
    paper: float | str
    ours: float | bool | None
    difference: float | None
    verdict: str
    reason: str


def judged(claim: Claim, own: Sequence[Claim], found: Mapping[str, Answer], fit: bool) -> Row:
    """Return the row of one claim.

    Parameters
    ----------
    claim
        Which one.
    own
        All claims of its system.
    found
        By id: an answer to each of them, save those that check for an input.
    fit
        Whether constants were calibrated on it.
    """
    answer = found.get(claim.id)
    ours = answer.ours if answer else None
    difference = None
    if isinstance(claim.paper, float) and ours is not None:
        difference = float(ours) - claim.paper
    reached, reason = _judge(claim, own, found)
    return Row(
        id=claim.id,
        system=claim.system,
        source=claim.source,
        setting=claim.setting,
        metric=claim.metric,
        unit=claim.unit,
        check=claim.check,
        role="input" if claim.check == "input" else "fit" if fit else "predicted",
        paper=claim.paper,
        ours=ours,
        difference=difference,
        verdict=reached,
        reason=reason,
    )


def _judge(claim: Claim, own: Sequence[Claim], found: Mapping[str, Answer]) -> tuple[str, str]:
    if claim.check == "input":
        detail = found[claim.id].detail if claim.id in found else ""
        return "input", detail or claim.note
    answer = found[claim.id]
    if answer.not_run:
        return "not run", answer.not_run
    if answer.ours is None:
        return "not reproduced", answer.detail
    beside = [
        (other, float(found[other.id].ours or 0.0))
        for other in siblings(claim, own)
        if found[other.id].ours is not None
    ]
    reached, reason = verdict(claim, answer.ours, beside)
    return reached, "; ".join(part for part in (reason, answer.detail) if part)
