"""Memory of a part of a model: some of its layers, each with the samples that reach it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.comparison.problem import Problem
from workbench.hiertrain.costs import TIERS, Hybrid, Policy

ASSUMES = "a tier's memory is estimated as its layers' share of the whole model's"


class Part(NamedTuple):
    """Part of a model on a node; L = layer.

    Attributes
    ----------
    held
        Whether it holds the parameters. Shape (L,).
    samples
        Samples of which it holds the layer's results. Shape (L,).
    received_bytes
        Bytes of features that others have computed.
    """

    held: NDArray[np.bool_]
    samples: NDArray[np.int64]
    received_bytes: float


def parts(policy: Policy, output_bytes: NDArray[np.float64]) -> Mapping[str, Part]:
    """Part of each tier in use; `output_bytes` is of a sample. Shape (L,)."""
    layers = len(output_bytes)
    by_tier = {}
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
            by_tier[tier] = Part(held, samples, received)
    return by_tier


def part_bytes(problem: Problem, part: Part) -> float | None:
    """Peak memory of a part; None if the model's is not known.

    The memory of a step of the whole model is divided in proportion to bytes. What does not depend
    on samples goes to parameters, a copy of the trained ones and the largest gradient. The rest
    goes to all outputs, and to input and output of the largest layer again, as their gradients.
    Received features count twice, since inputs are kept. So all layers on one node need what the
    whole model needs.
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

    whole_model, whole_batch = np.ones(len(sizes), bool), np.full(len(sizes), batch)
    return (
        fixed * of_parameters(part.held) / (of_parameters(whole_model) or 1.0)
        + (whole - fixed) * of_outputs(part.samples) / (of_outputs(whole_batch) or 1.0)
        + 2 * part.received_bytes
    )
