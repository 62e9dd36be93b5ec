"""Makes the scorecard, from stored results or from frames at hand; runs nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workbench import results as stored_results
from workbench.claims.answer import Answer, built, stored_answers
from workbench.claims.claim import Claim, claims_of, load_claims, siblings
from workbench.claims.rule import verdict
from workbench.claims.scorecard import Row, Scorecard
from workbench.clusters.testbeds import load_calibration
from workbench.names import check_name
from workbench.parameters import Value

if TYPE_CHECKING:
    import polars as pl


def scorecard(
    results: Path | None = None, system: str | None = None, claims: pl.DataFrame | None = None
) -> Scorecard:
    """Judge claims by the stored results, without running anything.

    Parameters
    ----------
    results
        Folder that `workbench reproduce` wrote; ``data/results`` by default.
    system
        Whose claims; by default those of every system that is built.
    claims
        As `load_claims` returns; by default the workbench's own table.

    Raises
    ------
    UnknownNameError
        No claim is of this system, or an answer is to no claim.
    """
    folder = results or stored_results.default_folder()
    table = load_claims() if claims is None else claims
    systems = list(dict.fromkeys(table["system"]))
    if system is None:
        chosen = [one for one in systems if built(one)]
    else:
        chosen = [check_name("system", system, systems)]
    cards = []
    for one in chosen:
        manifest = stored_results.manifest(folder, one)
        cards.append(
            of_frames(
                one,
                stored_results.load(folder, one),
                scale=manifest.scale if manifest else None,
                parameters=manifest.parameters if manifest else None,
                damaged=stored_results.damaged(folder, one),
                claims=table,
            )
        )
    return Scorecard(
        rows=tuple(row for card in cards for row in card.rows),
        scales={one: scale for card in cards for one, scale in card.scales.items()},
        missing={one: command for card in cards for one, command in card.missing.items()},
        not_built={
            one: table["system"].to_list().count(one)
            for one in systems
            if one not in chosen and not built(one)
        },
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
    claims: pl.DataFrame | None = None,
) -> Scorecard:
    """Judge one system's claims by frames in memory, as a notebook has them while it runs.

    Parameters
    ----------
    frames
        By name, as the notebook keeps them; empty where nothing is stored.
    scale
        At which they were made.
    recorded
        Frames of one recorded run, by the same names, judged by the same rule beside them; by
        default those in ``data/recorded`` at scale ``paper``.
    parameters
        With which `frames` were made; used to explain why a claim has no answer.
    damaged
        Other stored files that were altered after the run.
    claims
        As `load_claims` returns; by default the workbench's own table.

    Raises
    ------
    UnknownNameError
        No claim is of this system, or an answer is to no claim.
    """
    own = claims_of(system, claims)
    here = built(system)
    found, fault = stored_answers(system, own, frames) if here else ({}, "")
    alike, made = _recorded(system) if recorded is None else ([recorded], dict[str, str]())
    earlier = dict[str, Answer]()
    for together in alike if here else ():
        answers, lacking = stored_answers(system, own, together)
        earlier |= answers
        if lacking:
            named = f"{system} {', '.join(together)}, recorded"
            made[named] = f"of another version, so not all claims are judged ({lacking})"
    waiting = [name for name, one in own.items() if name not in found and one.check != "input"]
    if waiting:
        why = "this system is not built yet"
        if here:
            why = _why_unanswered(system, frames, parameters or {}, fault, damaged)
        found |= dict.fromkeys(waiting, Answer(not_run=why))
    fitted = fitted_on(system, own)
    return Scorecard(
        rows=tuple(
            _judged(claim, list(own.values()), found, earlier, claim.id in fitted)
            for claim in own.values()
        ),
        scales={system: scale or "an unknown"} if frames else {},
        missing={system: _reproduce_command(system)} if here and not (frames or damaged) else {},
        not_built={},
        unanswered=tuple(waiting) if frames and not damaged else (),
        recorded=made,
    )


def _recorded(system: str) -> tuple[list[dict[str, pl.DataFrame]], dict[str, str]]:
    """Return the recorded frames that answer claims, and what to say of each recording.

    Claims are about the scale of the paper. Those are together that may be compared: of the same
    data and seeds.
    """
    from workbench.experiments import recorded

    found, faults = recorded.load_all(system)
    made = {f"{system} {name}": text for name, text in faults.items()}
    alike: dict[str, dict[str, pl.DataFrame]] = {}
    for name, one in found.items():
        made[f"{system} {name}"] = str(one)
        if one.manifest.arguments["scale"] == "paper":
            of = json.dumps([dict(one.manifest.data), list(one.manifest.seeds)], sort_keys=True)
            alike.setdefault(of, {}).update(one.frames)
        else:
            made[f"{system} {name}"] += "; answers no claim, which takes scale paper"
    return list(alike.values()), made


def fitted_on(system: str, claims: Iterable[str]) -> frozenset[str]:
    """Return those of `claims` that a system's constants were calibrated on.

    Raises UnknownNameError: its calibration names a claim that is not among them.
    """
    known = list(claims)
    listed = load_calibration(system).get("fitted_on", [])
    return frozenset(check_name(f"claim in {system}.toml", one, known) for one in listed)


def _judged(
    claim: Claim,
    own: Sequence[Claim],
    found: Mapping[str, Answer],
    recorded: Mapping[str, Answer],
    fit: bool,
) -> Row:
    answer = found.get(claim.id)
    ours = answer.ours if answer else None
    difference = None
    if isinstance(claim.paper, float) and ours is not None:
        difference = float(ours) - claim.paper
    reached, reason = judge(claim, own, found)
    earlier = recorded.get(claim.id)
    recorded_verdict, recorded_reason = judge(claim, own, recorded) if earlier else ("", "")
    return Row(
        **{name: getattr(claim, name) for name in _STATED},
        role="input" if claim.check == "input" else "fit" if fit else "predicted",
        paper=claim.paper,
        ours=ours,
        difference=difference,
        verdict=reached,
        reason=reason,
        timed=answer is not None and answer.timed,
        recorded=earlier.ours if earlier else None,
        recorded_verdict=recorded_verdict,
        recorded_reason=recorded_reason,
    )


_STATED = ("id", "system", "source", "setting", "metric", "unit", "check")


def verdicts(system: str, answers: Mapping[str, Answer]) -> dict[str, str]:
    """The verdict on each claim on a system that the answers have a value for."""
    claims = claims_of(system)
    return {
        name: judge(claim, claims.values(), answers)[0]
        for name, claim in claims.items()
        if name in answers and answers[name].ours is not None
    }


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


def _why_unanswered(
    system: str,
    frames: Mapping[str, pl.DataFrame],
    parameters: Mapping[str, Value],
    fault: str,
    damaged: Sequence[Path],
) -> str:
    """Say what unanswered claims wait for, with the command that helps."""
    command = _reproduce_command(system)
    if damaged:
        named = ", ".join(map(str, damaged))
        are = "are" if len(damaged) > 1 else "is"
        return f"{named} {are} missing or no longer what the run wrote: run `{command}`"
    if not frames:
        return f"no stored results: run `{command}`"
    if fault:
        return f"the stored results are of another version ({fault}): run `{command} --force`"
    changed = ", ".join(f"{name}={value}" for name, value in _changed(system, parameters).items())
    if changed:
        return f"the stored results were made with {changed}: run `{command}`"
    return f"the stored results have no answer to it: run `{command} --force`"


def _reproduce_command(system: str) -> str:
    path = _notebook(system)
    return f"workbench reproduce {path.stem if path else system}"


def _changed(system: str, parameters: Mapping[str, Value]) -> dict[str, Value]:
    """Return those parameters, by name, that `workbench reproduce` would set otherwise."""
    path = _notebook(system)
    if path is None or not parameters:
        return {}
    from workbench.reproduce import read_notebook, resolve

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
    """Return the notebook that makes a system's results; None if the clone has none."""
    folder = stored_results.repository() / "notebooks"
    return next(iter(sorted(folder.glob(f"*_{system}.ipynb"))), None)
