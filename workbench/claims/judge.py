"""Judges claims by answers to them and to their siblings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from workbench.claims.answer import Answer
from workbench.claims.claim import Claim, claims_of, siblings
from workbench.claims.rule import verdict


def judge(claim: Claim, own: Iterable[Claim], found: Mapping[str, Answer]) -> tuple[str, str]:
    """Return the verdict on a claim by the answers to it and its siblings, and the reason.

    `own` are all claims of its system; `found` has an answer to this claim unless it is an input.
    """
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
        if other.id in found and found[other.id].ours is not None
    ]
    reached, reason = verdict(claim, answer.ours, beside)
    if claim.check == "order" and answer.detail:
        return reached, answer.detail
    return reached, "; ".join(part for part in (reason, answer.detail) if part)


def verdicts(system: str, answers: Mapping[str, Answer]) -> dict[str, str]:
    """Return the verdict on each claim on a system that the answers have a value for."""
    claims = claims_of(system)
    return {
        name: judge(claim, claims.values(), answers)[0]
        for name, claim in claims.items()
        if name in answers and answers[name].ours is not None
    }
