"""Judges claims by stored results, by recordings, or by frames at hand; runs nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from workbench.clusters.testbeds import load_calibration
from workbench.reproduction import manifest, provenance, systems
from workbench.reproduction import results as stored_results
from workbench.reproduction.claims import (
    MISSES,
    Answer,
    Cause,
    Claim,
    accepted,
    claims_of,
    judge,
    load_claims,
)
from workbench.reproduction.figure import Answers, Figure, JointClaims, answers_of
from workbench.reproduction.recordings import UNTRACEABLE, load_all
from workbench.reproduction.scorecard.card import Row, Scorecard, Verdicts
from workbench.utils import files
from workbench.utils.checks import check_name
from workbench.utils.numbers import counted

if TYPE_CHECKING:
    import polars as pl

    from workbench.reproduction.notebook import Results

PAPER = "paper"
"""The scale of the paper's own sizes, which claims are about."""
FEWEST_SEEDS = 3
"""With fewer, the spread over seeds excuses nothing: two runs say little of how far runs differ."""


def of_results(results: Path | None = None, system: str | None = None) -> Scorecard:
    """Judge claims by the stored results.

    Parameters
    ----------
    results
        Folder that `workbench reproduce` wrote; ``data/results`` by default.
    system
        Whose claims; by default those of all systems.

    Raises UnknownNameError: there is no such system, or a figure answers an unknown claim.
    """
    folder = results or stored_results.default_folder()
    chosen = list(dict.fromkeys(load_claims()["system"]))
    if system is not None:
        chosen = [check_name("system", stored_results.system_named(system), chosen)]
    revision, dirty = provenance.revision(files.ROOT)
    cards = []
    for name in chosen:
        made, frames, damaged = stored_results.load(folder, name)
        card = of_frames(
            name,
            frames,
            scale=made.scale if made else None,
            damaged=damaged,
            same_code=made is not None and not dirty and made.made_by(revision),
        )
        cards.append(card)
    return Scorecard(
        tuple(row for card in cards for row in card.rows),
        tuple(note for card in cards for note in card.notes),
    )


def of_frames(
    system: str,
    frames: Mapping[str, pl.DataFrame],
    *,
    scale: str | None = None,
    damaged: Sequence[Path] = (),
    same_code: bool = True,
) -> Scorecard:
    """Judge a system's claims by frames in memory, as a notebook has them while it runs.

    Each claim is judged once, by the strongest evidence that answers it: what was recorded at scale
    ``paper``, else these frames, else what was recorded at another scale. What only a training of
    the paper's size decides (`Figure.needs_paper_size`) is not judged by a smaller one.

    Parameters
    ----------
    frames
        By name, as the notebook keeps them; empty where nothing is stored.
    scale
        At which they were made.
    damaged
        Other stored files that were altered after the run.
    same_code
        Whether the present code made the frames; other code may lack rows that answers look for.
    """
    claims, sources = claims_of(system), systems.judged(system)
    for source in sources:
        for name in (*source.answers, *source.causes):
            check_name("claim", name, claims)
    answers = answers_of(sources, frames, same_code=same_code)
    run = Evidence(f"this run, {scale or 'unknown'} scale", scale, answers)
    recordings, notes = _recordings(system)
    ranked = [
        *(recording for recording in recordings if recording.scale == PAPER),
        run,
        *(recording for recording in recordings if recording.scale != PAPER),
    ]
    notes += [
        f"{name}: its answer failed on rows that other code made, {evidence.name} ({error})"
        for evidence in ranked
        for name, error in evidence.answers.failed.items()
    ]
    waiting = _waiting(system, answers, frames, damaged)
    causes = {name: cause for source in sources for name, cause in source.causes.items()}
    fitted = fitted_on(system, claims)
    rows = []
    for name, claim in claims.items():
        role = "input" if claim.check == "input" else "fit" if name in fitted else "predicted"
        deciding, weaker, lacking = _decide(claim, ranked, waiting)
        by_claim = deciding.answers.by_claim if deciding else {name: Answer(not_run=lacking)}
        answer = by_claim[name]
        verdict, reason = judge(claim, claims.values(), by_claim)
        row = Row(
            claim,
            role,
            verdict,
            reason,
            replace(answer, timed=answer.timed and deciding is run),
            evidence=deciding.name if deciding else "",
            weaker=weaker.answers.by_claim[name].ours if weaker else None,
            weaker_evidence=weaker.name if weaker else "",
            cause=cause_of(claim, answer, causes.get(name)) if verdict in MISSES else None,
        )
        rows.append(row)
    return Scorecard(tuple(rows), tuple(notes))


def verdicts(results: Results, *sources: Figure | JointClaims) -> Verdicts:
    """Judge what figures claim, alone or jointly, by what a notebook has shown so far."""
    shown = list(sources)
    figures = {source.id for source in shown if isinstance(source, Figure)}
    shown += [
        source
        for source in systems.judged(results.system)
        if figures.issuperset(figure.id for figure in source.figures)
    ]
    claims = {claim for source in shown for claim in source.answers}
    card = of_frames(results.system, results.frames, scale=results.shared.get("scale"))
    return Verdicts(tuple(row for row in card.rows if row.claim.id in claims))


class Evidence(NamedTuple):
    """Answers by frames that may be compared: of the same scale, data and seeds."""

    name: str
    scale: str | None
    answers: Answers


def _decide(
    claim: Claim, ranked: Iterable[Evidence], waiting: Mapping[str, str]
) -> tuple[Evidence | None, Evidence | None, str]:
    """Return the strongest evidence for a claim, the next with a value, and what it waits for."""
    figures = figures_of(claim.id)
    needs_paper_size = any(figure.needs_paper_size for figure in figures)
    lacking = waiting.get(claim.id, "no figure answers it")
    if needs_paper_size:
        bases = (base.id for figure in figures for base in figure.bases)
        commands = ", ".join(f"`workbench record {claim.system} {base}`" for base in bases)
        lacking = f"needs scale paper: {commands}"
    deciding = weaker = not_run = None
    for evidence in ranked:
        answer = evidence.answers.by_claim.get(claim.id)
        is_enough = evidence.scale == PAPER or not needs_paper_size
        if answer and is_enough and answer.not_run:
            not_run = not_run or answer.not_run
        elif answer and is_enough and not deciding:
            deciding = evidence
        elif answer and answer.ours is not None and not weaker:
            weaker = evidence
    return deciding, weaker, not_run or lacking


def _waiting(
    system: str, answers: Answers, frames: Mapping[str, pl.DataFrame], damaged: Sequence[Path]
) -> dict[str, str]:
    """Return what each claim waits for that a run does not answer, with the command that helps."""
    command = f"run `{reproduce_command(system)}`"
    reasons = {}
    for claim in (*answers.missing, *answers.failed):
        needed = {manifest.NAME, *(f"{figure.id}.parquet" for figure in figures_of(claim))}
        lost = next((path for path in damaged if path.name in needed), None)
        if lost:
            reasons[claim] = f"{lost} is missing or no longer what the run wrote: {command}"
        elif not frames:
            reasons[claim] = f"no stored results: {command}"
        elif claim in answers.missing:
            reasons[claim] = f"this run has {answers.missing[claim]}: {command}"
        else:
            error = answers.failed[claim]
            reasons[claim] = f"its answer failed on rows that other code made ({error}): {command}"
    return reasons


def _recordings(system: str) -> tuple[list[Evidence], list[str]]:
    """Return what is recorded, together what may be compared, and what is wrong with the rest."""
    import polars as pl

    recordings, faults = load_all(system, systems.recordable(system))
    notes = [f"{system} {name}: {fault}" for name, fault in faults.items()]
    comparable: dict[tuple[object, ...], dict[str, pl.DataFrame]] = defaultdict(dict)
    for name, recording in recordings.items():
        made = recording.manifest
        if recording.traceable:
            alike = (recording.scale, tuple(sorted(made.data.items())), tuple(made.seeds))
            comparable[alike][name] = recording.frame
        else:
            notes.append(f"{system} {name}: {UNTRACEABLE}")
    evidence = []
    for frames in comparable.values():
        made = recordings[next(iter(frames))].manifest
        for figure in systems.figures(system).values():
            if figure.of and {base.id for base in figure.of} <= frames.keys():
                try:
                    frames[figure.id] = figure.compute(*(frames[base.id] for base in figure.of))
                except pl.exceptions.PolarsError as error:
                    notes.append(f"{system} {figure.id}: of rows that other code made ({error})")
        seeds = len(made.seeds)
        trained = [counted(seeds, "seed")] if seeds else []
        data = [Path(source).stem for source in made.data]
        name = ", ".join([f"recorded at {made.scale}", *trained, *data])
        answers = answers_of(systems.judged(system), frames, same_code=False)
        evidence.append(Evidence(name, made.scale, answers))
    return evidence, notes


def fitted_on(system: str, claims: Iterable[str]) -> frozenset[str]:
    """Return those of `claims` that a system's constants were calibrated on.

    Raises UnknownNameError: its calibration names a claim that is not among them.
    """
    known = list(claims)
    listed = load_calibration(system).get("fitted_on", [])
    return frozenset(check_name(f"claim in {system}.toml", claim, known) for claim in listed)


def cause_of(claim: Claim, answer: Answer, known: Cause | None) -> Cause:
    """Return why a claim is missed: the known cause, else noise if the spread covers the bar."""
    cause = known or Cause("ours", "not explained yet")
    seeds, spread, ours = answer.seeds or 0, answer.spread, answer.ours
    if cause.kind == "ours" and seeds >= FEWEST_SEEDS and spread is not None and ours is not None:
        low, high = accepted(claim)
        if low - spread <= ours <= high + spread:
            why = f"± {spread:.3g} over {seeds} seeds"
            cause = Cause("noise", f"{why}; {known.why}" if known else why)
    if seeds == 1 and cause.kind != "paper":
        cause = Cause(cause.kind, f"{cause.why} (provisional: one seed)")
    return cause


def figures_of(claim: str) -> tuple[Figure, ...]:
    """Return the figures whose frames answer a claim; none for an input."""
    for source in systems.judged(claim.partition(".")[0]):
        if claim in source.answers:
            return source.figures
    return ()


def reproduce_command(system: str) -> str:
    """Return the command that makes a system's results."""
    notebooks = sorted(files.NOTEBOOKS.glob(f"*_{system}.ipynb"))
    return f"workbench reproduce {notebooks[0].stem if notebooks else system}"
