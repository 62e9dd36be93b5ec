"""Memory of a part of a model: some of its layers, each with the samples that reach it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.comparison.problem import Problem
from workbench.hiertrain.costs.policy import Hybrid, Policy
from workbench.hiertrain.costs.problem import TIERS

ASSUMES = "a tier's memory is estimated as its layers' share of the whole model's"


class Part(NamedTuple):
    """What a node holds of a model; L = layer.

    Attributes
    ----------
    held
        Whether it holds the parameters. Shape (L,).
    samples
        Of which it holds the layer's results. Shape (L,).
    received_bytes
        Of features that others have computed.
    """

    held: NDArray[np.bool_]
    samples: NDArray[np.int64]
    received_bytes: float


def parts(policy: Policy, output_bytes: NDArray[np.float64]) -> Mapping[str, Part]:
    """What each tier holds that takes part; `output_bytes` is of a sample. Shape (L,)."""
    layers = len(output_bytes)
    found = {}
    for tier in TIERS:
        held, samples = np.zeros(layers, bool), np.zeros(layers, np.int64)
        for span in policy.held(tier, layers):
            held[span[0] - 1 : span[1]] = True
        received = 0.0
        for owner, first, last, count in policy.rows(layers):
            if owner == tier:
                samples[first - 1 : last] += count
                if first > 1 and not isinstance(policy, Hybrid):
                    received += count * float(output_bytes[first - 2])
        if isinstance(policy, Hybrid) and tier == policy.order[0]:
            for last, count in ((policy.m_s, policy.b_s), (policy.m_l, policy.b_l)):
                received += count * float(output_bytes[last - 1])
        if held.any():
            found[tier] = Part(held, samples, received)
    return found


def part_bytes(problem: Problem, part: Part) -> float | None:
    """Memory that a part takes at its peak; None if the model's is not known.

    What a step of the whole model takes whatever its samples is taken to be for parameters, as many
    for a copy of those that are trained, and the largest gradient; the rest for all outputs, and
    input and output of the largest layer once more, as gradients. A part takes the same of its
    layers, as much a byte as the whole, and received features twice, as inputs are held. So all
    layers on one node take what the whole model does.
    """
    memory, batch, table = problem.memory, problem.batch_size, problem.profile.table
    if memory is None:
        return None
    whole = memory(batch)
    fixed = min(memory.fixed_bytes, whole)
    sizes, outputs = table["param_bytes"].to_numpy(), table["output_bytes"].to_numpy()
    frozen = np.array(problem.profile.frozen_bytes or [0] * len(sizes))
    inputs = np.concatenate([[problem.sample_bytes], outputs[:-1]])

    def of_parameters(held: NDArray[np.bool_]) -> float:
        return float(((2 * sizes + frozen) * held).sum() + (sizes * held).max())

    def of_outputs(samples: NDArray[np.int64]) -> float:
        return float((outputs * samples).sum() + ((inputs + outputs) * samples).max())

    every, all_samples = np.ones(len(sizes), bool), np.full(len(sizes), batch)
    return (
        fixed * of_parameters(part.held) / (of_parameters(every) or 1.0)
        + (whole - fixed) * of_outputs(part.samples) / (of_outputs(all_samples) or 1.0)
        + 2 * part.received_bytes
    )
