"""The rule that turns our values for claims into verdicts, the same for every claim."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from workbench.reproduction.claims.claim import Answer, Claim, claims_of

VERDICTS = ("near", "holds", "trend", "not reproduced", "not run", "input")
MET, MISSES = VERDICTS[:2], VERDICTS[2:4]

# What `near` allows: this share of the paper's value; of percent also some points.
TOLERANCES: Mapping[str, float] = {"x": 0.15, "samples": 0.25}
OTHER_TOLERANCE = 0.10
POINTS, POINTS_BELOW_TEN = 3.0, 1.0  # the second of a paper's value below 10

# The value at which a claim of this unit says "no difference".
REFERENCES: Mapping[str, float] = {"percent": 0.0, "percentage points": 0.0, "x": 1.0}


def tolerance(unit: str, paper: float) -> float:
    """Return how far from the paper's value is `near`, in the claim's unit; see `verdict`."""
    relative = TOLERANCES.get(unit, OTHER_TOLERANCE) * abs(paper)
    if unit not in ("percent", "percentage points"):
        return relative
    return max(POINTS_BELOW_TEN if abs(paper) < 10 else POINTS, relative)


def accepted(claim: Claim) -> tuple[float, float]:
    """Return the least and the largest number by which a claim is met."""
    if claim.check == "range":
        return claim.bounds
    value = float(claim.value)
    if claim.check == "at_most":
        return -math.inf, value
    if claim.check == "at_least":
        return value, math.inf
    allowed = tolerance(claim.unit, value)
    return value - allowed, value + allowed


def verdict(
    claim: Claim, ours: float | bool, siblings: Sequence[tuple[Claim, float]] = ()
) -> tuple[str, str]:
    """Judge a claim by the rule that holds for all of them.

    ========  ====================================================================================
    check     rule
    ========  ====================================================================================
    near      `near` within 15 % of the paper's value (x), 25 % (samples), 10 % (all else); percent
              and percentage points also within 3 points, or 1 point where the paper's value is
              below 10. A number that misses is `trend` if its ordering holds: it lies on the
              paper's side of no difference (0 for percent, 1 for x), and above or below each
              sibling as in the paper, siblings whose paper's values are near each other left
              aside. With nothing to be ordered by, or the wrong way round, it is
              `not reproduced`.
    at_most   `holds` if ours is no more than the paper's value, else `not reproduced`
    at_least  `holds` if ours is no less, else `not reproduced`
    range     `holds` from the low to the high end, both included, else `not reproduced`
    order     `holds` if the statement is true of ours, else `not reproduced`
    input     `input` always: a value given to the model is not a result of it
    ========  ====================================================================================

    `ours` is in the claim's unit, a truth value for an order (else TypeError); `siblings` come with
    our numbers for them. Returns one of `VERDICTS`, and the reason where ours misses.
    """
    if isinstance(ours, bool) != (claim.check == "order"):
        wanted = "true or false" if claim.check == "order" else "a number"
        raise TypeError(f"{claim.id}: ours is {ours!r}, but the check {claim.check!r} is {wanted}")
    match claim.check:
        case "input":
            return "input", ""
        case "order":
            return ("holds", "") if ours else ("not reproduced", "the order does not hold")
        case "near":
            return _near(claim, ours, siblings)
    low, high = accepted(claim)
    if low <= ours <= high:
        return "holds", ""
    side, bound = ("above", high) if ours > high else ("below", low)
    return "not reproduced", f"{abs(ours - bound):.3g}{_unit(claim)} {side} {bound:g}"


def _near(claim: Claim, ours: float, siblings: Sequence[tuple[Claim, float]]) -> tuple[str, str]:
    paper = float(claim.value)
    allowed = tolerance(claim.unit, paper)
    if _within(ours - paper, allowed):
        return "near", ""
    side = "above" if ours > paper else "below"
    miss = f"{abs(ours - paper):.3g}{_unit(claim)} {side} (near: {allowed:.3g})"
    orderings = []  # (compared with, the paper's side of it, our side)
    if claim.unit in REFERENCES:
        reference = REFERENCES[claim.unit]
        orderings.append((f"{reference:g}", _sign(paper - reference), _sign(ours - reference)))
    for sibling, our_sibling in siblings:
        stated = float(sibling.value)
        if not _within(paper - stated, max(allowed, tolerance(sibling.unit, stated))):
            name = sibling.id.rpartition(".")[2]
            orderings.append((name, _sign(paper - stated), _sign(ours - our_sibling)))
    sides = {1: "above", 0: "equal to", -1: "below"}
    wrong = [
        f"{sides[theirs]} {name}" for name, theirs, our_side in orderings if theirs != our_side
    ]
    if wrong:
        return "not reproduced", f"{miss}, not {', '.join(wrong)} as in the paper"
    if not orderings:
        return "not reproduced", f"{miss}, no ordering to fall back on"
    return "trend", f"{miss}, the ordering holds"


def _within(gap: float, allowed: float) -> bool:
    # The slack is for rounding alone: 42.86 - 38.574 is 4.286000000000001.
    return abs(gap) <= allowed * (1 + 1e-9) + 1e-12


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _unit(claim: Claim) -> str:
    """The unit of a difference, after a space; none of a bare number."""
    if claim.unit in ("count", "exponent"):
        return ""
    return " points" if claim.unit in ("percent", "percentage points") else f" {claim.unit}"


def _are_siblings(claim: Claim, other: Claim) -> bool:
    """Whether the paper states both beside each other, as numbers to compare."""

    def family(claim: Claim) -> tuple[str, str, str]:
        return claim.id.rpartition(".")[0], claim.unit, claim.check

    return claim.id != other.id and family(claim) == family(other)


def judge(claim: Claim, claims: Iterable[Claim], answers: Mapping[str, Answer]) -> tuple[str, str]:
    """Return the verdict on a claim by the answers to it and its siblings, and the reason.

    `claims` are all of its system; `answers` has this claim unless it is an input.
    """
    if claim.check == "input":
        detail = answers[claim.id].detail if claim.id in answers else ""
        return "input", detail or claim.note
    answer = answers[claim.id]
    if answer.not_run:
        return "not run", answer.not_run
    if answer.ours is None:
        return "not reproduced", answer.detail
    siblings = [
        (other, float(sibling.ours))
        for other in claims
        if _are_siblings(claim, other)
        and (sibling := answers.get(other.id)) is not None
        and sibling.ours is not None
    ]
    reached, reason = verdict(claim, answer.ours, siblings)
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
