"""Problems of pipelines, from a model's profile and its layer times on each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from workbench.clusters import Link
from workbench.pipelines.costs import Needed, Problem
from workbench.profiles import LayerTimes, ModelProfile
from workbench.utils.checks import UserError, check_kind, listed

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def problem_of(
    profile: ModelProfile,
    times: Sequence[LayerTimes],
    links: Mapping[tuple[int, int], Link],
    batch: int,
    *,
    memory_bytes: ArrayLike | None = None,
    needed: Needed | None = None,
) -> Problem:
    """Return the problem of a model on some nodes.

    Parameters
    ----------
    profile
        The model; from `workbench.profiles.profile_model`.
    times
        Layer times of each node, measured or by `LayerTimes.from_flops`, at any batch size. Each
        sample takes its share of them.
    links
        Links by source and target; nodes are numbered in the order of `times`.
    batch
        Samples of a step.
    memory_bytes
        Memory of each node, shape (N,); by default without limit.
    needed
        Bytes that a stage needs, as `stage_memory` counts them; by default not known.

    Raises
    ------
    UserError
        Layer times of another model, or none.
    """
    check_kind("profile", profile, ModelProfile, "profile_model(name or module)")
    nodes = listed("times", times, "give LayerTimes for each node")
    if not nodes:
        raise UserError("times is empty; give LayerTimes for each node")
    for number, timed in enumerate(nodes):
        check_kind(f"times of node {number}", timed, LayerTimes, "LayerTimes.from_flops(...)")
        if timed.layers != profile.layers:
            raise UserError(
                f"times of node {number} are of {timed.name} ({len(timed)} layers), the profile is "
                f"of {profile.name} ({len(profile)} layers); make both from one model"
            )
    forward_s, backward_s = (
        np.array([timed.table[column].to_numpy() / timed.batch_size for timed in nodes])
        for column in ("forward_s", "backward_s")
    )
    trained = np.flatnonzero(profile.table["param_bytes"].to_numpy())
    return Problem(
        forward_s=forward_s,
        backward_s=backward_s,
        update_s=np.array([timed.table["update_s"].to_numpy() for timed in nodes]),
        param_bytes=profile.table["param_bytes"].to_numpy(),
        output_bytes=profile.table["output_bytes"].to_numpy(),
        links=links,
        batch=batch,
        sample_bytes=profile.sample_bytes,
        tied=profile.tied,
        first_trained=int(trained[0]) + 1 if len(trained) else 1,
        frozen_bytes=np.array(profile.frozen_bytes) if profile.frozen_bytes else None,
        memory_bytes=None if memory_bytes is None else np.asarray(memory_bytes, float),
        needed=needed,
    )
