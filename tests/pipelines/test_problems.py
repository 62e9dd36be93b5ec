"""Problems made of profiles and layer times."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from workbench.clusters import Link
from workbench.pipelines import PLANNERS, iteration, problem_of
from workbench.profiles import LayerTimes, profile_model
from workbench.utils.checks import UserError

LINKS = dict.fromkeys(permutations(range(2), 2), Link(1e9))


def test_seconds_are_a_sample_s_share_and_updates_are_whole() -> None:
    profile = profile_model("lenet5")
    slow, fast = (
        LayerTimes.from_flops(profile, flops_per_s=speed, batch_size=size)
        for speed, size in ((1e9, 8), (2e9, 1))
    )
    problem = problem_of(profile, [slow, fast], LINKS, 16)
    assert problem.forward_s[0] == pytest.approx(2 * problem.forward_s[1])
    assert problem.backward_s[0] == pytest.approx(slow.table["backward_s"].to_numpy() / 8)
    assert problem.update_s[0] == pytest.approx(slow.table["update_s"].to_numpy())


def test_a_pipeline_of_gpt2_keeps_its_tied_weight() -> None:
    profile = profile_model("gpt_tiny")
    times = [LayerTimes.from_flops(profile, flops_per_s=1e9, batch_size=1)] * 2
    problem = problem_of(profile, times, LINKS, 4)
    assert problem.tied == profile.tied
    plan = PLANNERS["pipeline"](problem)
    assert np.isfinite(iteration(problem, plan).total_s)


def test_times_of_another_model_are_refused() -> None:
    profile = profile_model("lenet5")
    other = LayerTimes.from_flops(profile_model("alexnet_tiny"), flops_per_s=1e9, batch_size=1)
    with pytest.raises(UserError, match="make both from one model"):
        problem_of(profile, [other], {}, 4)
    with pytest.raises(UserError, match="times is empty"):
        problem_of(profile, [], {}, 4)
