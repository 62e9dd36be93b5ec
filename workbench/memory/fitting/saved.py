"""Plans within a budget that are made on one machine, and trained with on another."""

from __future__ import annotations

import json
import os
from typing import Any

from workbench.memory.fitting.planning import FORMAT, Used
from workbench.memory.fitting.profile import Profile
from workbench.memory.process import OPTIMIZERS
from workbench.utils.checks import UserError, check_whole, is_number
from workbench.utils.files import read_text

_LAYOUTS = ("like", "contiguous", "expanded")


def read_plan(path: str | os.PathLike[str]) -> tuple[int, str, Used, Profile]:
    """Budget in bytes, optimizer, what the loss was seen to do, and the operators as measured."""
    text = read_text(path)
    try:
        saved = json.loads(text)
        if saved["format"] != FORMAT or saved["optimizer"] not in OPTIMIZERS:
            raise ValueError
        used = Used({int(at): layout for at, layout in saved["gradients"].items()},
                    _number(saved["loss_share"]))  # fmt: skip
        if not set(used.gradients.values()) <= {*_LAYOUTS}:
            raise ValueError
        scratch = tuple(check_whole("scratch_bytes", one, 0) for one in saved["scratch_bytes"])
        profile = Profile(tuple(map(_number, saved["seconds"])), scratch, str(saved["graph"]))
        if len(profile.seconds) != len(scratch):
            raise ValueError
        budget_bytes = check_whole("budget_bytes", saved["budget_bytes"], 0)
        return budget_bytes, saved["optimizer"], used, profile
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UserError(
            f"{path} is no plan that fit.save(…) wrote: save it again, as in "
            "memory.fit(…).fit.save('plan.json')"
        ) from None


def _number(value: Any) -> float:
    if not is_number(value) or not 0 <= value < float("inf"):
        raise ValueError
    return float(value)
