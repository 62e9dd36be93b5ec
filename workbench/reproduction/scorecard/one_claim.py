"""A claim in full: what the paper states, ours, the evidence, and how to make it again."""

from __future__ import annotations

import difflib
import fnmatch
import math
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path

from workbench.reproduction.claims import accepted, load_claims
from workbench.reproduction.figure import Figure
from workbench.reproduction.recordings import Recording, load_all
from workbench.reproduction.scorecard.card import ROLES, Row
from workbench.reproduction.scorecard.judging import (
    PAPER,
    figures_of,
    of_results,
    reproduce_command,
)
from workbench.utils.checks import UnknownNameError, check_name

WIDTH = 100
_NEAREST = 4
"""Names that an unknown one is answered with."""


def one_claim(claim: str, results: Path | None = None) -> str:
    """Return what is known of a claim, as text: value, rule, evidence, cause of a miss, command.

    `claim` is its id, such as ``dlion.fig11.homo_a.gaia``; or the beginning of several, such as
    ``dlion.fig11``, or a pattern, such as ``dlion.*.ako``. Raises UnknownNameError: there is none.
    """
    ids = claims_named(claim)
    cards = [of_results(results, name) for name in dict.fromkeys(map(_system, ids))]
    rows = (row for card in cards for row in card.rows if row.claim.id in ids)
    return "\n\n".join("\n".join([row.claim.id, *_described(row)]) for row in rows)


def claims_named(claim: str) -> list[str]:
    """Return the claim of this id, or those whose ids begin with it up to a dot or match it.

    Raises UnknownNameError: there is none; it has the nearest ids and beginnings of ids.
    """
    ids = load_claims()["id"].to_list()
    named = [id for id in ids if f"{id}.".startswith(f"{claim}.") or fnmatch.fnmatch(id, claim)]
    if not named:
        systems = dict.fromkeys(map(_system, ids))
        system = check_name("claim", _system(claim), systems)
        of_system = [id.split(".") for id in ids if _system(id) == system]
        beginnings = {
            ".".join(parts[:count]) for parts in of_system for count in range(2, len(parts) + 1)
        }
        near = difflib.get_close_matches(claim, sorted(beginnings), n=_NEAREST, cutoff=0.0)
        raise UnknownNameError(
            f"unknown claim {claim!r}; the nearest are {', '.join(near)}. "
            f"`workbench scorecard --system {system}` prints all {len(of_system)} of {system}"
        )
    return named


def _system(claim: str) -> str:
    return claim.partition(".")[0]


def _described(row: Row) -> Iterator[str]:
    claim = row.claim
    weaker = f"{row.with_unit(row.weaker)} ({row.weaker_evidence})"
    lines = [
        ("states", f"{claim.source}: {claim.metric}{f' ({claim.setting})' * bool(claim.setting)}"),
        ("paper", row.paper_text),
        ("ours", row.with_unit(row.answer.ours)),
        ("verdict", row.verdict),
        ("rule", _rule(row)),
        ("role", f"{row.role}: {ROLES[row.role]}"),
        ("judged by", row.evidence or "nothing yet"),
        ("weaker", weaker if row.weaker_evidence else ""),
        ("why", row.reason),
        ("cause", f"{row.cause.kind}: {row.cause.why}" if row.cause else ""),
        ("but", row.answer.caveat),
    ]
    for figure in _computed(claim.id):
        recording, fault = _recording(claim.system, figure)
        if fault:
            lines.append(("recorded", fault))
        if recording:
            made = recording.manifest
            later = f", some rows at {made.extended_at[:12]}" if made.extended_at else ""
            commit = f"{(made.revision or 'no commit')[:12]}{later}"
            lines.append(("recorded", f"{figure.id}: {recording}; at {commit}"))
    again = "again" if row.evidence else "decide"
    lines += [(again, command) for command in commands(claim.id)]
    for label, text in lines:
        yield from textwrap.wrap(
            text,
            WIDTH,
            initial_indent=f"  {label:<10}",
            subsequent_indent=" " * 12,
            break_on_hyphens=False,
            break_long_words=False,
        )


def _rule(row: Row) -> str:
    if row.claim.check == "order":
        return "the statement is true of ours"
    if row.claim.check == "input":
        return "given to the model"
    low, high = accepted(row.claim)
    if math.isinf(low):
        return f"at most {high:g} {row.unit}"
    if math.isinf(high):
        return f"at least {low:g} {row.unit}"
    return f"met from {low:.4g} to {high:.4g} {row.unit}"


def commands(claim: str) -> list[str]:
    """Return the commands that make what a claim is judged by: a recording, or a notebook's run."""
    made = [_command(_system(claim), figure) for figure in _computed(claim)]
    return list(dict.fromkeys(made))


def _computed(claim: str) -> list[Figure]:
    """Return the figures that are computed for a claim, not from others' frames."""
    bases = (base for figure in figures_of(claim) for base in figure.bases)
    return list({figure.id: figure for figure in bases}.values())


def _recording(system: str, figure: Figure) -> tuple[Recording | None, str]:
    """Return the recording of a figure, and why it cannot be read."""
    found, faults = load_all(system, [figure.id] if figure.recorded else [])
    return found.get(figure.id), faults.get(figure.id, "")


def _command(system: str, figure: Figure) -> str:
    """Return the command for a figure: a recording is made with the arguments it has now."""
    recording, _ = _recording(system, figure)
    needs_paper_scale = figure.needs_paper_size or figure.live
    is_judged = recording and (recording.scale == PAPER or not needs_paper_scale)
    if not (is_judged or figure.needs_paper_size or (figure.recorded and not figure.live)):
        return reproduce_command(system)
    arguments = dict(recording.manifest.arguments) if recording and is_judged else {}
    scale, seeds = arguments.pop("scale", PAPER), arguments.pop("seeds", None)
    usual = figure.parameters()
    words = [
        f"workbench record {system} {figure.id}",
        *([f"--scale {scale}"] if scale != PAPER else []),
        *([f"--seeds {seeds}"] if seeds else []),
        *(
            f"-p {shlex.quote(f'{name}={value}')}"
            for name, value in arguments.items()
            if usual.get(name) != value
        ),
        *(["--force"] if recording else []),
    ]
    return " ".join(words)
