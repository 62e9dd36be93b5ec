"""Makes the scorecard, from stored results or from frames at hand; runs nothing."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workbench import results as stored_results
from workbench.claims.answer import Answer, built
from workbench.claims.card import Scorecard
from workbench.claims.claim import Claim
from workbench.claims.excuse import excuse, reproduce_command
from workbench.claims.roles import fitted_on
from workbench.claims.row import judged
from workbench.claims.table import load_claims
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
        What `workbench reproduce` wrote; ``data/results`` by default.
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
    )


def of_frames(
    system: str,
    frames: Mapping[str, pl.DataFrame],
    *,
    scale: str | None = None,
    parameters: Mapping[str, Value] | None = None,
    damaged: Sequence[Path] = (),
    claims: pl.DataFrame | None = None,
) -> Scorecard:
    """Judge one system's claims by frames at hand, as a notebook has them while it runs.

    Parameters
    ----------
    system
        Whose claims.
    frames
        By name, as the notebook keeps them; empty where nothing is stored.
    scale
        At which they were made.
    parameters
        With which they were made: what keeps a claim from an answer is looked for among these.
    damaged
        Files of others that are stored, but not what the run wrote.
    claims
        As `load_claims` returns; by default the workbench's own table.

    Raises
    ------
    UnknownNameError
        No claim is of this system, or an answer is to no claim.
    """
    table = load_claims() if claims is None else claims
    check_name("system", system, dict.fromkeys(table["system"]))
    own = [Claim(**one) for one in table.iter_rows(named=True) if one["system"] == system]
    ids = [claim.id for claim in own]
    here = built(system)
    found, fault = _answers(system, frames) if here else ({}, "")
    for name in found:
        check_name("claim", name, ids)
    waiting = [claim.id for claim in own if claim.id not in found and claim.check != "input"]
    if waiting:
        why = "this system is not built yet"
        if here:
            why = excuse(system, frames, parameters or {}, fault, damaged)
        found |= dict.fromkeys(waiting, Answer(not_run=why))
    fit = fitted_on(system, ids)
    return Scorecard(
        rows=tuple(judged(claim, own, found, claim.id in fit) for claim in own),
        scales={system: scale or "an unknown"} if frames else {},
        missing={system: reproduce_command(system)} if here and not (frames or damaged) else {},
        not_built={},
        unanswered=tuple(waiting) if frames and not damaged else (),
    )


def _answers(system: str, frames: Mapping[str, pl.DataFrame]) -> tuple[dict[str, Answer], str]:
    """Return a system's answers, and what they look for that the frames lack."""
    import polars as pl

    answers = importlib.import_module(f"workbench.{system}.paper.answers").answers
    try:
        return dict(answers(frames)), ""
    except (KeyError, pl.exceptions.PolarsError) as error:
        return {}, str(error).partition("\n")[0]
