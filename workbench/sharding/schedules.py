"""Plans of sharded training, and the order in which each node carries one out.

A schedule is data: `operations` lists what every node computes and exchanges in an iteration.
Programs and costs both follow this list.

>>> plan = Plan(stage=3, cuts=(1,))
>>> " ".join(map(str, operations(plan.stage, plan.buckets([8, 4]))))
'G0 G1 F0 F1 G0 B1 R1 B0 R0 U0'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from workbench.profiles import Tied
from workbench.sharding.collective_costs import ROUNDS
from workbench.utils.checks import UserError, at_least, check_fields, check_whole, listed

ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER = "all-reduce", "reduce-scatter", "all-gather"

IN_FLIGHT = 2
"""Buckets with whole gradients at a time in stages 2 and 3: one computed, one reduced."""


class Bucket(NamedTuple):
    """Consecutive layers, from 1, whose parameters and gradients travel together.

    `is_tied` says whether layers of other buckets use one of its weights.
    """

    first: int
    last: int
    size_bytes: float
    is_tied: bool = False


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Stage of ZeRO, and layers grouped into buckets.

    Parameters
    ----------
    stage
        Stage of ZeRO (Rajbhandari et al. 2020, Sec. 5): each node holds 1/N of the optimiser's
        state from stage 1 on, of gradients from 2 on, of parameters in 3. Stage 0 shares nothing
        out: gradients are all-reduced in buckets, as in PyTorch's DistributedDataParallel (Li et
        al. 2020).
    cuts
        Layers behind which a bucket ends, increasing, from 1.
    """

    stage: int = field(metadata=at_least(0, 3))
    cuts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        cuts = listed("cuts", self.cuts, "give layers, such as (2, 5)")
        cuts = tuple(check_whole("cut", cut, 1) for cut in cuts)
        if any(low >= high for low, high in pairwise(cuts)):
            raise UserError(f"cuts are {cuts}; give increasing layers, each once")
        object.__setattr__(self, "cuts", cuts)

    def buckets(
        self, param_bytes: Sequence[float], tied: Iterable[Tied] = ()
    ) -> tuple[Bucket, ...]:
        """Return the buckets of a model, first layer first."""
        layers = len(param_bytes)
        if self.cuts and self.cuts[-1] >= layers:
            raise UserError(
                f"cuts are {self.cuts}; a model of {layers} layers is cut behind 1 to {layers - 1}"
            )
        weights = [(min(weight.layers), max(weight.layers)) for weight in tied]
        return tuple(
            Bucket(
                low + 1,
                high,
                float(sum(param_bytes[low:high])),
                any(low < home <= high < last for home, last in weights),
            )
            for low, high in pairwise((0, *self.cuts, layers))
        )


class Compute(NamedTuple):
    """Computation of a bucket, once the first `after` collectives of the iteration have ended.

    Lanes are ``forward``, ``backward`` and ``update``; an update is of all buckets.
    """

    lane: str
    bucket: int
    after: int

    def __str__(self) -> str:
        return f"{self.lane[0].upper()}{self.bucket}"


class Collective(NamedTuple):
    """Operation of all nodes on a bucket, after earlier collectives and beside computation."""

    kind: str
    bucket: int

    @property
    def rounds(self) -> int:
        """Exchanges of shares among all nodes that it consists of."""
        return len(ROUNDS) if self.kind == ALL_REDUCE else 1

    def __str__(self) -> str:
        letter = {ALL_GATHER: "G", REDUCE_SCATTER: "R", ALL_REDUCE: "A"}[self.kind]
        return f"{letter}{self.bucket}"


Operation = Compute | Collective


def operations(stage: int, buckets: Sequence[Bucket], accumulate: int = 1) -> tuple[Operation, ...]:
    """Operations of an iteration, in the order in which every node begins them.

    Gradients of a bucket are reduced as soon as it has passed backward, beside the backward pass of
    those before it: of each of the `accumulate` batches in stages 2 and 3, of their sum in stages 0
    and 1. In stages 1 and 2 parameters are gathered after the update. In stage 3 a bucket is
    gathered before its forward pass and again before its backward pass, while the bucket before it
    in time is computed (prefetch), and dropped after each. The last one stays for its backward
    pass, which comes next, and one with tied weights from its forward to its backward pass.
    """
    order: list[Operation] = []
    ends: dict[Collective, int] = {}  # collective -> how many have ended when it has
    count = 0

    def begin(kind: str, bucket: int) -> None:
        nonlocal count
        if buckets[bucket].size_bytes:
            count += 1
            order.append(Collective(kind, bucket))
            ends[Collective(kind, bucket)] = count

    def compute(lane: str, bucket: int, *needs: Collective) -> None:
        order.append(Compute(lane, bucket, max((ends.get(each, 0) for each in needs), default=0)))

    every, last = range(len(buckets)), len(buckets) - 1
    first = next((at for at in every if buckets[at].size_bytes), 0)
    reduce = REDUCE_SCATTER if stage else ALL_REDUCE
    for batch in range(accumulate):
        for bucket in every:
            if stage == 3:
                for gathered in every[:2] if bucket == 0 else every[bucket + 1 : bucket + 2]:
                    begin(ALL_GATHER, gathered)
            compute("forward", bucket, Collective(ALL_GATHER, bucket))
        for bucket in reversed(every):
            needs = [Collective(ALL_GATHER, bucket)]
            if stage >= 2:  # a batch begins when all gradients of the one before are reduced
                needs.append(Collective(reduce, bucket + IN_FLIGHT if bucket < last else first))
            if stage == 3 and bucket and not buckets[bucket - 1].is_tied:
                begin(ALL_GATHER, bucket - 1)
            compute("backward", bucket, *needs)
            if stage >= 2 or batch == accumulate - 1:
                begin(reduce, bucket)
    order.append(Compute("update", 0, count))
    if stage in {1, 2}:
        for bucket in every:
            begin(ALL_GATHER, bucket)
    return tuple(order)
