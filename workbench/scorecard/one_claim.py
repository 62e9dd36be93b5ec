"""One claim in full: what the paper states, ours, the evidence, and how to make it again."""

from __future__ import annotations

import fnmatch
import math
import textwrap
from collections.abc import Iterator
from pathlib import Path

from workbench import systems
from workbench.claims import accepted, claims_of, load_claims
from workbench.experiments import recorded
from workbench.experiments.figure import Figure
from workbench.scorecard.judging import PAPER, of_results, reproduce_command
from workbench.scorecard.scorecard import ROLES, Row, text_of
from workbench.utils import files
from workbench.utils.checks import check_name

WIDTH = 100
_LABEL = 10


def one_claim(claim: str, results: Path | None = None) -> str:
    """Return what is known of a claim, as text: value, rule, evidence, cause of a miss, command.

    Parameters
    ----------
    claim
        Its id, as the scorecard and ``data/claims.csv`` have it: ``dlion.fig11.homo_a.gaia``; or
        the beginning of several, such as ``dlion.fig11``, or a pattern, such as ``dlion.*.ako``.
    results
        Folder that `workbench reproduce` wrote; ``data/results`` by default.

    Raises UnknownNameError: there is no such claim.
    """
    ids = claims_named(claim)
    named = dict.fromkeys(one.partition(".")[0] for one in ids)
    cards = [of_results(results, system) for system in named]
    return "\n\n".join(_described(row) for card in cards for row in card.rows if row.id in ids)


def claims_named(claim: str) -> list[str]:
    """Return the claim of this id, or those whose ids begin with it up to a dot or match it."""
    ids = load_claims()["id"].to_list()
    if matching := fnmatch.filter(ids, claim):
        return matching
    beginning = claim
    while beginning:
        found = [name for name in ids if f"{name}.".startswith(f"{beginning}.")]
        if found:
            break
        beginning = beginning.rpartition(".")[0]
    if beginning != claim or not claim:
        check_name("claim", claim, found if beginning else dict.fromkeys(load_claims()["system"]))
    return found


def _described(row: Row) -> str:
    lines = {
        "states": f"{row.source}: {row.metric}{f' ({row.setting})' if row.setting else ''}",
        "paper": row.paper_text,
        "ours": f"{row.ours_text} {row.symbol}".rstrip() if row.ours is not None else "-",
        "verdict": row.verdict,
        "rule": _rule(row),
        "role": f"{row.role}: {ROLES[row.role]}",
        "judged by": row.evidence or "nothing yet",
        "beside": f"{row.beside_text} ({row.beside_evidence})" if row.beside_evidence else "",
        "why": row.reason,
        "cause": f"{row.cause}: {row.cause_reason}" if row.cause else "",
        "but": row.caveat,
    }
    parts = [
        *lines.items(),
        *(("recorded", text) for text in _recordings(row.id)),
        *(("again", command) for command in commands(row.id)),
        ("shown in", ", ".join(places(row.id))),
    ]
    return "\n".join([row.id, *(line for name, text in parts for line in _labelled(name, text))])


def figures_of(claim: str) -> tuple[Figure, ...]:
    """Return the figures whose frames answer a claim; none for an input."""
    for source in systems.judged(claim.partition(".")[0]):
        if claim in source.answers:
            return source.figures
    return ()


def _rule(row: Row) -> str:
    if row.check in ("order", "input"):
        return {"order": "the statement is true of ours", "input": "given to the model"}[row.check]
    low, high = accepted(claims_of(row.system)[row.id])
    if math.isinf(low) or math.isinf(high):
        return f"{'at most' if math.isinf(low) else 'at least'} {row.paper_text.split(' ', 1)[1]}"
    ours = [] if row.ours is None else [row.ours]
    return f"met from {text_of(low, ours)} to {text_of(high, ours)} {row.symbol}".rstrip()


def commands(claim: str) -> list[str]:
    """Return the commands that make what a claim is judged by: a recording, or a notebook's run."""
    system = claim.partition(".")[0]
    return list(
        dict.fromkeys(
            _record_command(system, figure)
            if figure.recorded
            and (figure.needs_paper_size or not figure.live or recording_of(system, figure))
            else reproduce_command(system)
            for figure in _computed(claim)
        )
    )


def recording_of(system: str, figure: Figure) -> recorded.Recorded | None:
    """Return a figure's recording if claims may be judged by it.

    What is learnt, or else made live, is judged at scale ``paper`` alone.
    """
    found = recorded.load(system, figure.id) if figure.recorded else None
    large = found is not None and found.scale == PAPER
    return found if large or not (figure.needs_paper_size or figure.live) else None


def places(claim: str) -> list[str]:
    """Return where a claim's figures show: the notebook, and the file if they are drawn."""
    system = claim.partition(".")[0]
    notebook = reproduce_command(system).rpartition(" ")[2]
    found = []
    for figure in figures_of(claim):
        path = files.home() / "figures" / f"{system}_{figure.id}.svg"
        found.append(f"figures/{path.name}" if path.exists() else f"{figure.id} in {notebook}")
    return found


def _computed(claim: str) -> list[Figure]:
    """Return the figures that are computed for a claim, not from others' frames."""
    bases = (base for figure in figures_of(claim) for base in figure.bases)
    return list({figure.id: figure for figure in bases}.values())


def _recordings(claim: str) -> Iterator[str]:
    system = claim.partition(".")[0]
    for figure in _computed(claim):
        recording = recorded.load(system, figure.id) if figure.recorded else None
        if recording is not None:
            made = recording.manifest
            commit = (made.revision or "no revision")[:12]
            if made.extended_at:
                commit += f", its last seeds at {made.extended_at[:12]}"
            yield f"{figure.id}: {recording}; at {commit}"


def _record_command(system: str, figure: Figure) -> str:
    """Return the command that makes a recording again, with the arguments it was made with."""
    words = ["workbench record", system, figure.id]
    recording = recording_of(system, figure)
    arguments = dict(recording.manifest.arguments) if recording else {}
    scale, seeds = arguments.pop("scale", PAPER), arguments.pop("seeds", None)
    words += [f"--scale {scale}"] if scale != PAPER else []
    words += [f"--seeds {seeds}"] if seeds else []
    usual = figure.parameters()
    words += [f"-p {name}={value}" for name, value in arguments.items() if usual.get(name) != value]
    replaces = recorded.load(system, figure.id) is not None
    return " ".join([*words, "--force"] if replaces else words)


def _labelled(name: str, text: str) -> list[str]:
    indent = " " * (_LABEL + 2)
    first = f"  {name:<{_LABEL}}"
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False
    )
