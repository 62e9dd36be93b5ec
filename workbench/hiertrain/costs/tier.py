"""Several devices as one tier, each with its own samples and over its own links.

What HierTrain names as future work (Liu et al. 2020, VIII). All devices have the same layers. One
that holds a share q of all samples computes q b of any b samples of its tier, sends q b of any b
that another tier takes, and, if devices are worker o, takes further the features of its own. So to
a planner they are one device, which takes as long as the slowest of them in every term of
Eqs. (5)-(11), and whose part of the gradients is averaged: by worker o or, if that is the devices,
by the edge or the cloud.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from workbench.hiertrain.costs.problem import PAIRS, Averaging, Problem
from workbench.utils.checks import UserError

SERVERS = ("edge", "cloud")
Devices = Sequence[tuple[Problem, float]]
"""Devices as pairs of a problem and a share of the samples.

Each problem describes a device that holds all samples. Problems have the same model, batch, edge
and cloud; shares sum to 1.
"""


def as_one(devices: Devices) -> Problem:
    """Return the problem of several devices; the gradients of each are whole, whatever its share.

    Raises UserError: their shares do not sum to 1.
    """
    problems = [problem for problem, _ in devices]
    shares = [share for _, share in devices]
    if abs(sum(shares) - 1) > 1e-9:
        raise UserError(f"devices hold {sum(shares):g} of the samples; their shares sum to 1")
    first, *others = problems
    if not others:
        return first
    own_bps = {
        tier: min(problem.bandwidth_bps["device", tier] for problem in problems) for tier in SERVERS
    }
    of_samples_bps = {
        ("device", tier): min(
            problem.bandwidth_bps["device", tier] / share for problem, share in devices
        )
        for tier in SERVERS
    }
    layer_s = np.max([share * problem.layer_s["device"] for problem, share in devices], axis=0)
    update_s = np.max([problem.update_s["device"] for problem in problems], axis=0)
    return replace(
        first,
        layer_s={**first.layer_s, "device": layer_s},
        update_s={**first.update_s, "device": update_s},
        bandwidth_bps={**first.bandwidth_bps, **of_samples_bps},
        overhead_s={pair: max(problem.overhead_s[pair] for problem in problems) for pair in PAIRS},
        averaging=Averaging(max(SERVERS, key=own_bps.__getitem__), own_bps),
    )
