"""Memory of a part of a model: some of its layers, each with the samples that reach it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.comparison.memory import NodeMemory, Recomputation
from workbench.comparison.question import Question
from workbench.hiertrain.costs.policy import Hybrid, Policy
from workbench.hiertrain.costs.problem import TIERS

ASSUMES = "memory of a tier is its layers' part of the whole model's, by parameters and outputs"


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
        for holder, first, last, count in policy.rows(layers):
            if holder == tier:
                samples[first - 1 : last] += count
                if first > 1 and not isinstance(policy, Hybrid):
                    received += count * float(output_bytes[first - 2])
        if isinstance(policy, Hybrid) and tier == policy.order[0]:
            for last, count in ((policy.m_s, policy.b_s), (policy.m_l, policy.b_l)):
                received += count * float(output_bytes[last - 1])
        if held.any():
            found[tier] = Part(held, samples, received)
    return found


def part_memory(
    question: Question, node: int, part: Part
) -> tuple[NodeMemory, Recomputation | None] | None:
    """What a part takes of a node's memory, and the recomputation with which it fits, if it must.

    What a step of the whole model takes whatever its samples is shared out by the bytes of
    parameters, the rest by outputs and samples; received features are added. So all parts of a
    chain of layers take together what the whole does, and the received features. A part is taken to
    need as much recomputation as the whole model in as large a share of its memory. Seconds of
    recomputation are not known here. None if the model's memory is not known.
    """
    memory, batch, table = question.memory, question.batch_size, question.profile.table
    if memory is None:
        return None
    whole = memory(batch)
    fixed = min(memory.fixed_bytes, whole)
    outputs = table["output_bytes"].to_numpy()
    of_parameters = _share(table["param_bytes"].to_numpy(), part.held)
    of_outputs = _share(outputs, part.samples / batch)
    needed = fixed * of_parameters + (whole - fixed) * of_outputs + part.received_bytes
    room = question.cluster.nodes[node].memory_bytes
    if room is None or needed <= room:
        return NodeMemory(needed, needed, None if room is None else True), None
    again = memory.within(batch, room * whole / needed)
    if again is None:
        return NodeMemory(needed, needed, False), None
    return NodeMemory(needed, again.needed_bytes * needed / whole, True), again


def _share(sizes: NDArray[np.float64], weights: NDArray[np.float64] | NDArray[np.bool_]) -> float:
    total = float(sizes.sum())
    return float((sizes * weights).sum()) / total if total else float(np.mean(weights))
