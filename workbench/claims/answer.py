"""Our value for a claim, found in stored frames by a table of each system.

A system's ``paper/answers.py`` holds ``ANSWERS``, a `Table`, and ``at_paper_setting``, which takes
a frame's name and the frame and returns the rows that the paper's claims are about, none if the
frame was made with other settings. Where they apply it also holds ``LEARNT``, the claims that only
a training of the paper's size decides, and ``CAUSES``, why claims are missed. Keys of all three are
claims' ids, or the first parts of several.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

from workbench.claims.cause import Cause
from workbench.names import check_name

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """Our value for one claim.

    Attributes
    ----------
    ours
        In the claim's unit; whether it holds, for an order; None if there is no value.
    detail
        Briefly, where `ours` comes from, or why there is none.
    not_run
        If the claim cannot be answered yet: what it waits for.
    caveat
        What is to be known of it also where the claim is met.
    timed
        Whether it is a measured time, which differs from run to run.
    seeds
        Of how many trainings, alike but for their seed, `ours` is the mean; None if of none.
    spread
        Half the range over these seeds, or over repeats, in the claim's unit; None if not known.
    """

    ours: float | bool | None = None
    detail: str = ""
    not_run: str = ""
    timed: bool = False
    seeds: int | None = None
    spread: float | None = None
    caveat: str = ""

    def __post_init__(self) -> None:
        plain = getattr(self.ours, "item", None)  # of NumPy's numbers, whose bool is not Python's
        if plain is not None:
            object.__setattr__(self, "ours", plain())
        if self.ours is None:
            if not (self.detail or self.not_run):
                raise AssertionError("an answer without a value says why, in detail or not_run")
        elif self.not_run:
            raise AssertionError(f"an answer has a value, {self.ours}, or did not run; not both")
        elif not math.isfinite(self.ours):
            raise AssertionError(
                f"ours is {self.ours}; where there is no value give None and a detail"
            )

    @classmethod
    def over_seeds(cls, values: Sequence[float], detail: str = "", *, caveat: str = "") -> Answer:
        """The mean of a number that each seed has, and how far seeds are apart."""
        spread = (max(values) - min(values)) / 2 if len(values) > 1 else None
        return cls(fmean(values), detail, seeds=len(values), spread=spread, caveat=caveat)


Table = Mapping[str, tuple[str | tuple[str, ...], Callable[..., Answer | None]]]
"""Claim, or the first parts of several claims' ids -> the frames needed, and what answers by them.

The function gets what the id has beyond the key, part by part, and then the frames. It returns None
if the frames have no answer.
"""


def built(system: str) -> bool:
    """Whether the workbench has this system, that is, answers to its claims."""
    try:
        return importlib.util.find_spec(f"workbench.{system}.paper.answers") is not None
    except ModuleNotFoundError:
        return False


def stored_answers(
    system: str, claims: Iterable[str], frames: Mapping[str, pl.DataFrame]
) -> tuple[dict[str, Answer], str]:
    """Return a system's answers from its stored frames, by claim, where the frames have one.

    Also returns what was not found in the frames, if they are of another version. An answer to a
    claim that does not exist is an UnknownNameError.
    """
    import polars as pl

    module = _module(system)
    there, faults = dict[str, pl.DataFrame](), []
    for name, frame in frames.items():
        try:
            there[name] = module.at_paper_setting(name, frame)
        except pl.exceptions.PolarsError as error:
            faults.append(_first_line(error))
    found, more = answered(module.ANSWERS, claims, there)
    return found, next(iter((*faults, *more)), "")


def answered(
    table: Table, claims: Iterable[str], frames: Mapping[str, pl.DataFrame]
) -> tuple[dict[str, Answer], list[str]]:
    """Answer those of `claims` whose frames have rows; also return what frames lacked."""
    import polars as pl

    found, faults = dict[str, Answer](), []
    for claim, (parts, (needed, function)) in _by_claim(table, claims).items():
        names = (needed,) if isinstance(needed, str) else needed
        if any(name not in frames or frames[name].is_empty() for name in names):
            continue
        try:
            answer = function(*parts, *(frames[name] for name in names))
        except (KeyError, pl.exceptions.PolarsError) as error:
            faults.append(_first_line(error))
        else:
            if answer is not None:
                found[claim] = answer
    return found, faults


def learnt(system: str, claims: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the claims that only a training of the paper's size decides, with its experiments."""
    own, module = list(claims), _module(system)
    needed = {claim: names for claim, (_, (names, _)) in _by_claim(module.ANSWERS, own).items()}
    marked = _by_claim(dict.fromkeys(getattr(module, "LEARNT", ())), own)
    return {
        claim: (names,) if isinstance(names := needed[claim], str) else names for claim in marked
    }


def causes(system: str, claims: Iterable[str]) -> dict[str, Cause]:
    """Return the cause that a system's answers give for missing a claim, by claim."""
    known = _by_claim(getattr(_module(system), "CAUSES", {}), claims)
    return {claim: cause for claim, (_, cause) in known.items()}


def _module(system: str) -> Any:
    return importlib.import_module(f"workbench.{system}.paper.answers")


def _by_claim(
    table: Mapping[str, T], claims: Iterable[str]
) -> dict[str, tuple[tuple[str, ...], T]]:
    """The longest key that fits each claim: the parts beyond it, and its value.

    A key that fits none is an UnknownNameError.
    """
    ids = list(claims)
    for key in table:
        if all(_parts_after(key, claim) is None for claim in ids):
            check_name("claim", key, ids)
    found = {}
    for claim in ids:
        fitting = [key for key in table if _parts_after(key, claim) is not None]
        if fitting:
            key = max(fitting, key=len)
            found[claim] = (_parts_after(key, claim) or (), table[key])
    return found


def _parts_after(key: str, claim: str) -> tuple[str, ...] | None:
    """Parts of an id beyond those of a key; None if the key is no prefix."""
    if claim == key:
        return ()
    return tuple(claim[len(key) + 1 :].split(".")) if claim.startswith(f"{key}.") else None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
