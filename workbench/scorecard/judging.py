"""Makes the scorecard, from stored results or from frames at hand; runs nothing."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from workbench import results as stored_results
from workbench import systems
from workbench.claims import (
    MISSES,
    Answer,
    Cause,
    Claim,
    accepted,
    claims_of,
    compared_with,
    judge,
    load_claims,
)
from workbench.clusters.testbeds import load_calibration
from workbench.experiments.figure import answers_of
from workbench.parameters import Value
from workbench.scorecard.scorecard import Row, Scorecard
from workbench.store import provenance
from workbench.utils import files
from workbench.utils.checks import check_name

if TYPE_CHECKING:
    import polars as pl

PAPER = "paper"
"""The scale of the paper's own sizes, which claims are about."""
FEWEST_SEEDS = 3
"""With fewer, the spread over seeds excuses nothing: two runs say little of how far runs differ."""
_STATED = ("id", "system", "source", "setting", "metric", "unit", "check")


def of_results(results: Path | None = None, system: str | None = None) -> Scorecard:
    """Judge claims by the stored results, without running anything.

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
    cards = []
    revision, _ = provenance.revision(files.ROOT)
    for name in chosen:
        manifest = stored_results.manifest(folder, name)
        cards.append(
            of_frames(
                name,
                stored_results.load(folder, name),
                scale=manifest.scale if manifest else None,
                parameters=manifest.arguments if manifest else None,
                damaged=stored_results.damaged(folder, name),
                other_commit=manifest is not None and manifest.revision != revision,
            )
        )
    return Scorecard(
        rows=tuple(row for card in cards for row in card.rows),
        scales={name: scale for card in cards for name, scale in card.scales.items()},
        missing={name: command for card in cards for name, command in card.missing.items()},
        unanswered=tuple(name for card in cards for name in card.unanswered),
        recorded={name: made for card in cards for name, made in card.recorded.items()},
    )


def of_frames(
    system: str,
    frames: Mapping[str, pl.DataFrame],
    *,
    scale: str | None = None,
    recorded: Mapping[str, pl.DataFrame] | None = None,
    parameters: Mapping[str, Value] | None = None,
    damaged: Sequence[Path] = (),
    other_commit: bool = False,
) -> Scorecard:
    """Judge one system's claims by frames in memory, as a notebook has them while it runs.

    Each claim is judged once, by the strongest evidence that answers it: what was recorded at scale
    ``paper``, else these frames, else what was recorded at another scale. What only a training of
    the paper's size decides (`Figure.needs_paper_size`) is not judged by a smaller one.

    Parameters
    ----------
    frames
        By name, as the notebook keeps them; empty where nothing is stored.
    scale, parameters
        With which they were made; the latter explain why a claim has no answer.
    recorded
        Frames recorded in one run at scale ``paper``, by the same names; by default those in
        ``data/recorded``, of every scale.
    damaged
        Other stored files that were altered after the run.
    other_commit
        Whether another commit than the present one made them, so that they may lack rows that
        answers look for.
    """
    own = claims_of(system)
    figures = systems.judged(system)
    for figure in figures:
        for claim in (*figure.answers, *figure.causes):
            check_name("claim", claim, own)
    may_lack_rows = other_commit or bool(_changed(system, parameters or {}))
    answers, faults = answers_of(figures, frames, may_lack_rows=may_lack_rows)
    evidence = [_Evidence(f"this run, {scale or 'unknown'} scale", scale, answers, here=True)]
    if recorded is None:
        recordings, made = _recordings(system)
    else:
        recordings, made = [_Recording("recorded", PAPER, dict(recorded))], {}
    for recording in recordings:
        answers, lacking = answers_of(figures, recording.frames)
        place = 0 if recording.scale == PAPER else len(evidence)
        evidence.insert(place, _Evidence(recording.name, recording.scale, answers))
        if lacking:
            named = f"{system} {', '.join(recording.frames)}, recorded"
            fault = next(iter(lacking.values()))
            made[named] = f"of another version, so not all claims are judged ({fault})"
    answered = {name for source in evidence for name in source.answers}
    learnt = {
        claim: tuple(base.id for figure in source.figures for base in figure.bases)
        for source in figures
        if source.needs_paper_size
        for claim in source.answers
    }
    waiting = [
        name
        for name, claim in own.items()
        if name not in answered
        and claim.check != "input"
        and set(learnt.get(name, ())) <= set(frames)
    ]
    why = "given to the model"  # as inputs are, which need no answer
    if waiting:
        why = _why_unanswered(system, frames, parameters or {}, damaged)
    again = f"run `{reproduce_command(system)} --force`"
    judged_by = _JudgedBy(
        tuple(own.values()),
        evidence,
        learnt=learnt,
        causes={claim: why for figure in figures for claim, why in figure.causes.items()},
        fitted=fitted_on(system, own),
        faults={
            claim: f"the stored results are of another version ({fault}): {again}"
            for claim, fault in faults.items()
        },
        unanswered=why,
    )
    return Scorecard(
        rows=tuple(_judged(claim, judged_by) for claim in own.values()),
        scales={system: scale or "an unknown"} if frames else {},
        missing={} if frames or damaged else {system: reproduce_command(system)},
        unanswered=tuple(waiting) if frames and not damaged else (),
        recorded=made,
    )


@dataclass(frozen=True)
class _Recording:
    """Recorded frames that may be compared: of the same scale, data and seeds."""

    name: str
    scale: str
    frames: dict[str, pl.DataFrame]


@dataclass(frozen=True)
class _Evidence:
    """Answers by frames that may be compared, and whether this machine has just made them."""

    name: str
    scale: str | None
    answers: Mapping[str, Answer]
    here: bool = False


@dataclass(frozen=True)
class _JudgedBy:
    """What all claims of a system are judged by; `evidence` has the strongest first."""

    own: Sequence[Claim]
    evidence: Sequence[_Evidence]
    learnt: Mapping[str, tuple[str, ...]]
    causes: Mapping[str, Cause]
    fitted: Collection[str]
    faults: Mapping[str, str]
    unanswered: str

    def decides(self, source: _Evidence, claim: str) -> bool:
        """Whether this evidence has an answer to a claim, and is strong enough to judge by."""
        large = claim not in self.learnt or source.scale == PAPER
        return large and claim in source.answers and not source.answers[claim].not_run

    def waits_for(self, claim: str) -> str:
        """What a claim waits for that no evidence decides."""
        said = [source for source in self.evidence if claim in source.answers]
        if claim in self.learnt:
            system = claim.partition(".")[0]
            record = ", ".join(f"`workbench record {system} {name}`" for name in self.learnt[claim])
            recorded = [source.answers[claim].not_run for source in said if source.scale == PAPER]
            return next(iter(recorded), f"needs scale paper: {record}")
        lacking = self.faults.get(claim, self.unanswered)
        return next((source.answers[claim].not_run for source in said), lacking)


def _recordings(system: str) -> tuple[list[_Recording], dict[str, str]]:
    """Return recorded frames, those together that may be compared, and what to say of each."""
    import polars as pl

    from workbench.experiments import recorded

    recordings, faults = recorded.load_all(system, systems.recordable(system))
    made = {f"{system} {name}": text for name, text in faults.items()}
    alike: dict[str, _Recording] = {}
    for name, recording in recordings.items():
        manifest = recording.manifest
        scale, data, seeds = manifest.arguments["scale"], manifest.data, manifest.seeds
        of = json.dumps([scale, dict(data), list(seeds)], sort_keys=True)
        plural = "" if len(seeds) == 1 else "s"
        trained = [f"{len(seeds)} seed{plural}"] if seeds else []
        text = ", ".join(
            [f"recorded at {scale}", *trained, *(Path(source).stem for source in data)]
        )
        made[f"{system} {name}"] = text + recording.doubt
        if not recording.traceable:
            continue
        alike.setdefault(of, _Recording(text, scale, {})).frames[name] = recording.frame
    of_others = [figure for figure in systems.figures(system).values() if figure.of]
    for one, figure in product(alike.values(), of_others):
        if {base.id for base in figure.of} <= one.frames.keys():
            try:
                frame = figure.compute(*(one.frames[base.id] for base in figure.of))
            except pl.exceptions.PolarsError as error:
                made[f"{system} {figure.id}"] = f"of recordings of another version ({error})"
            else:
                one.frames[figure.id] = frame
    return list(alike.values()), made


def fitted_on(system: str, claims: Iterable[str]) -> frozenset[str]:
    """Return those of `claims` that a system's constants were calibrated on.

    Raises UnknownNameError: its calibration names a claim that is not among them.
    """
    known = list(claims)
    listed = load_calibration(system).get("fitted_on", [])
    return frozenset(check_name(f"claim in {system}.toml", claim, known) for claim in listed)


def _judged(claim: Claim, by: _JudgedBy) -> Row:
    deciding = next((source for source in by.evidence if by.decides(source, claim.id)), None)
    answers = deciding.answers if deciding else {claim.id: Answer(not_run=by.waits_for(claim.id))}
    others = (source for source in by.evidence if source is not deciding)
    weaker = (source for source in others if claim.id in source.answers)
    beside = next((source for source in weaker if source.answers[claim.id].ours is not None), None)
    answer = answers[claim.id]
    reached, reason = judge(claim, by.own, answers)
    difference = None
    if isinstance(claim.paper, float) and answer.ours is not None:
        difference = float(answer.ours) - claim.paper
    cause = _cause(claim, answer, by.causes.get(claim.id)) if reached in MISSES else None
    return Row(
        **{name: getattr(claim, name) for name in _STATED},
        role="input" if claim.check == "input" else "fit" if claim.id in by.fitted else "predicted",
        paper=claim.paper,
        ours=answer.ours,
        difference=difference,
        verdict=reached,
        reason=reason,
        timed=answer.timed and deciding is not None and deciding.here,
        evidence=deciding.name if deciding else "",
        beside=beside.answers[claim.id].ours if beside else None,
        beside_evidence=beside.name if beside else "",
        caveat=answer.caveat,
        compared=compared_with(claim, by.own, answers),
        cause=cause.kind if cause else "",
        cause_reason=cause.why if cause else "",
    )


def _cause(claim: Claim, answer: Answer, known: Cause | None) -> Cause:
    """Why a claim is missed: by chance, if enough seeds are far enough apart; else as is known."""
    cause = known or Cause("ours", "not explained yet")
    enough = answer.seeds is None or answer.seeds >= FEWEST_SEEDS
    if enough and answer.spread is not None and answer.ours is not None:
        low, high = accepted(claim)
        if low - answer.spread <= answer.ours <= high + answer.spread:
            of = f"{answer.seeds} seeds" if answer.seeds else "repeats"
            why = f"± {answer.spread:.3g} over {of}"
            cause = Cause("noise", f"{why}; {known.why}" if known else why)
    if answer.seeds == 1 and cause.kind != "paper":
        cause = Cause(cause.kind, f"{cause.why} (provisional: one seed)")
    return cause


def _why_unanswered(
    system: str,
    frames: Mapping[str, pl.DataFrame],
    parameters: Mapping[str, Value],
    damaged: Sequence[Path],
) -> str:
    """Say what unanswered claims wait for, with the command that helps."""
    command = reproduce_command(system)
    if damaged:
        named = ", ".join(map(str, damaged))
        are = "are" if len(damaged) > 1 else "is"
        return f"{named} {are} missing or no longer what the run wrote: run `{command}`"
    if not frames:
        return f"no stored results: run `{command}`"
    changed = ", ".join(f"{name}={value}" for name, value in _changed(system, parameters).items())
    if changed:
        return f"it is about other parameters than the run had ({changed}): run `{command}`"
    return f"the stored results have no answer to it: run `{command} --force`"


def reproduce_command(system: str) -> str:
    """Return the command that makes a system's results."""
    path = _notebook(system)
    return f"workbench reproduce {path.stem if path else system}"


def _changed(system: str, parameters: Mapping[str, Value]) -> dict[str, Value]:
    """Return those parameters, by name, that `workbench reproduce` would set otherwise."""
    path = _notebook(system)
    if path is None or not parameters:
        return {}
    from workbench.reproduction.notebooks import read_notebook, resolve

    try:
        notebook = read_notebook(path)
    except ValueError:  # the results can still be judged; to refuse it is for `reproduce`
        return {}
    usual = resolve([notebook], scale=None, given={})[notebook.name]
    return {
        name: value
        for name, value in sorted(parameters.items())
        if name in usual and value != usual[name]
    }


def _notebook(system: str) -> Path | None:
    """Return the notebook that makes a system's results; None if it has none."""
    return next(iter(sorted(files.NOTEBOOKS.glob(f"*_{system}.ipynb"))), None)
