"""Plans within a budget that are made on one machine, and trained with on another."""

from __future__ import annotations

import json
import os

from workbench.memory.fitting.planning import FORMAT, Used, sha256_of
from workbench.memory.fitting.profile import Profile
from workbench.utils.checks import UserError
from workbench.utils.files import read_text


def read_plan(path: str | os.PathLike[str]) -> tuple[int, str, Used, Profile]:
    """Budget in bytes, optimizer, what the loss was seen to do, and the operators as measured."""
    text = read_text(path)
    try:
        saved = json.loads(text)
        if saved["format"] != FORMAT or saved.pop("sha256") != sha256_of(saved):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UserError(
            f"{path} is damaged, or is no plan that fit.save(…) wrote: save it again, as in "
            "memory.fit(…).fit.save('plan.json')"
        ) from None
    used = Used({int(at): one for at, one in saved["gradients"].items()}, saved["loss_share"])
    profile = Profile(tuple(saved["seconds"]), tuple(saved["scratch_bytes"]), saved["graph"])
    return saved["budget_bytes"], saved["optimizer"], used, profile
