"""DynaComm's cost model: plans, and what one iteration of a worker takes under one (Sec. III).

A worker pulls the parameters of its L layers from the servers, computes forward, computes
backward and pushes the gradients. Pulls and pushes go out in segments of consecutive layers;
every segment costs an overhead on top of its layers' transfer times. The symbols of the paper (Cai
et al. 2021): pt, fc, bc, gt are `pull_s`, `forward_s`, `backward_s`, `push_s`, and Δt is
`overhead_s`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workbench.clusters import Link
from workbench.profiles import LayerTimes, ModelProfile
from workbench.runtime.trace import Span, Trace
from workbench.utils.checks import UserError, check_kind, check_layers, check_range, listed

FloatArray = NDArray[np.float64]
VECTORS = ("pull_s", "forward_s", "backward_s", "push_s")


@dataclass(frozen=True)
class Plan:
    """Where the transmissions of one iteration are cut (the decision sets of Eqs. 9-12).

    Parameters
    ----------
    forward_cuts, backward_cuts
        Sorted layer numbers l in 1..L-1; l is a cut between layers l and l+1. No cut at all is
        one transmission of the whole model. Other numbers, or another order, are a ValueError.
    """

    forward_cuts: tuple[int, ...] = ()
    backward_cuts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("forward_cuts", "backward_cuts"):
            numbers = listed(name, getattr(self, name), "give layer numbers, such as (1, 3)")
            try:
                cuts = tuple(map(int, numbers))
            except (TypeError, ValueError, OverflowError):  # text, not finite
                cuts = ()
            if cuts != numbers or any(isinstance(number, bool) for number in numbers):
                raise UserError(f"{name} {numbers} are layer numbers; they must be whole")
            if any(low >= high for low, high in pairwise((0, *cuts))):
                raise UserError(
                    f"{name} {cuts} must be increasing layer numbers from 1 on; "
                    "l cuts between layers l and l+1"
                )
            object.__setattr__(self, name, cuts)

    def check(self, layers: int) -> None:
        """Refuse cuts that a model of `layers` layers does not have."""
        last = max((*self.forward_cuts, *self.backward_cuts), default=0)
        if last >= layers:
            raise UserError(
                f"the plan has a cut behind layer {last}, "
                f"but a model of {layers} layers is cut behind 1 to {layers - 1}"
            )


def runs(cuts: Sequence[int], layers: int) -> list[tuple[int, int]]:
    """First and last layer of each segment that `cuts` make, layer 1 first."""
    return [(low + 1, high) for low, high in pairwise((0, *cuts, layers))]


@dataclass(frozen=True, eq=False, init=False)
class LayerCosts:
    """What each layer costs one worker in one iteration.

    Parameters
    ----------
    pull_s, forward_s, backward_s, push_s
        Seconds per layer, shape (L,), layer 1 first: transfer of its parameters, forward and
        backward computation, transfer of its gradients. Kept as read-only arrays of float64.
    overhead_s
        Seconds that each transmission costs on top of its layers' transfer times (Δt).

    Arrays that are not one-dimensional, empty, of unequal length, negative or not finite are a
    ValueError.
    """

    pull_s: FloatArray
    forward_s: FloatArray
    backward_s: FloatArray
    push_s: FloatArray
    overhead_s: float

    def __init__(
        self,
        pull_s: ArrayLike,
        forward_s: ArrayLike,
        backward_s: ArrayLike,
        push_s: ArrayLike,
        overhead_s: float,
    ) -> None:
        seconds = (pull_s, forward_s, backward_s, push_s)
        vectors = {name: check_layers(name, s) for name, s in zip(VECTORS, seconds, strict=True)}
        overhead_s = check_range("overhead_s", overhead_s, 0, sys.float_info.max)
        lengths = {name: len(values) for name, values in vectors.items()}
        if len(set(lengths.values())) > 1:
            raise UserError(f"every layer needs all four costs, but the lengths differ: {lengths}")
        with np.errstate(over="ignore"):
            longest_s = sum(float(values.sum()) for values in vectors.values())
        if not math.isfinite(longest_s + lengths["pull_s"] * overhead_s):
            raise UserError("the costs are finite but their sum is not; give them in seconds")
        for name, value in {**vectors, "overhead_s": overhead_s}.items():
            object.__setattr__(self, name, value)

    @property
    def layers(self) -> int:
        """Number of layers, L."""
        return len(self.pull_s)

    @cached_property
    def forward(self) -> Direction:
        """Pull and forward computation, as the solvers see it."""
        return Direction(self.pull_s, self.forward_s, self.overhead_s)

    @cached_property
    def backward(self) -> Direction:
        """Push and backward computation, as the solvers see it: time reversed."""
        return Direction(self.push_s, self.backward_s, self.overhead_s)


class Direction:
    """One direction of an iteration as running sums: transfers first, computation behind them.

    Computing backward and pushing is that with time reversed: the last push (layer 1) then comes
    first, and every computation follows its layer's transfer. A plan's cuts mean the same in both,
    so one solver serves the two (Algs. 3 and 4 of the paper are mirror images).

    With cuts 0 = c_0 < c_1 < ... < c_n = L, transfer j ends at ``j Δt + sent_s[c_j]``; from then on
    the layers behind c_{j-1} still have to be computed. The duration is therefore

        max over j of  j Δt + sent_s[c_j] + left_s[c_{j-1}]

    which is the recursion of Eq. (13), unrolled. ``sent_s[c]`` is the transfer time of layers 1..c
    without overheads, ``left_s[k]`` the computation time of layers k+1..L; lists of L+1.
    """

    __slots__ = ("layers", "left_s", "overhead_s", "sent_s")

    def __init__(self, transfer_s: FloatArray, compute_s: FloatArray, overhead_s: float) -> None:
        self.layers = len(transfer_s)
        self.overhead_s = overhead_s
        self.sent_s: list[float] = [0.0, *transfer_s.cumsum().tolist()]
        self.left_s: list[float] = [*compute_s[::-1].cumsum()[::-1].tolist(), 0.0]

    def duration_s(self, cuts: Sequence[int]) -> float:
        """Seconds from the start to the end of this direction under `cuts`."""
        sent_s, left_s, overhead_s = self.sent_s, self.left_s, self.overhead_s
        longest_s, previous = 0.0, 0
        for transfer, cut in enumerate((*cuts, self.layers), start=1):
            longest_s = max(longest_s, (transfer * overhead_s + sent_s[cut]) + left_s[previous])
            previous = cut
        return longest_s


@dataclass(frozen=True)
class Phase:
    """One direction of an iteration, or both, in seconds.

    Transfers and computation cover the whole duration, so three sums give the parts: `total_s`
    from start to end, all computation, and all transfers with their overheads.
    """

    total_s: float
    computation_s: float
    communication_s: float

    @property
    def computation_alone_s(self) -> float:
        """Seconds of computation while nothing is transferred."""
        return max(0.0, self.total_s - self.communication_s)

    @property
    def communication_alone_s(self) -> float:
        """Transfers while nothing is computed."""
        return max(0.0, self.total_s - self.computation_s)

    @property
    def overlap_s(self) -> float:
        """Transfers and computation at the same time."""
        return max(0.0, self.computation_s + self.communication_s - self.total_s)


@dataclass(frozen=True)
class Iteration:
    """One iteration of a worker under a plan: both directions, one after the other (Eq. 3)."""

    forward: Phase
    backward: Phase

    @property
    def both(self) -> Phase:
        """Both directions added up."""
        return Phase(
            self.total_s,
            self.forward.computation_s + self.backward.computation_s,
            self.forward.communication_s + self.backward.communication_s,
        )

    @property
    def forward_s(self) -> float:
        """Seconds from the first pull to the end of the forward computation."""
        return self.forward.total_s

    @property
    def backward_s(self) -> float:
        """Seconds from the start of the backward computation to the end of the last push."""
        return self.backward.total_s

    @property
    def total_s(self) -> float:
        """Seconds of the whole iteration."""
        return self.forward_s + self.backward_s


def iteration(costs: LayerCosts, plan: Plan) -> Iteration:
    """Duration of one iteration under a plan: the measurement function f_m of Eq. (8).

    A plan that cuts behind a layer that the model does not have is a ValueError.
    """
    _check(costs, plan)
    return Iteration(
        _phase(costs.forward, plan.forward_cuts), _phase(costs.backward, plan.backward_cuts)
    )


def check_costs(costs: LayerCosts) -> None:
    """Refuse anything but a model's costs."""
    check_kind("costs", costs, LayerCosts, "LayerCosts, such as layer_costs(...) makes")


def _check(costs: LayerCosts, plan: Plan) -> None:
    check_costs(costs)
    check_kind("plan", plan, Plan, "a Plan, such as PLANNERS['dynacomm'](costs) makes")
    plan.check(costs.layers)


def _phase(direction: Direction, cuts: Sequence[int]) -> Phase:
    return Phase(
        total_s=direction.duration_s(cuts),
        computation_s=direction.left_s[0],
        communication_s=(len(cuts) + 1) * direction.overhead_s + direction.sent_s[-1],
    )


def timeline(costs: LayerCosts, plan: Plan, node: str = "worker") -> Trace:
    """Trace of one iteration: a row per transmission and per layer's computation.

    Lanes are ``pull``, ``forward``, ``backward``, ``push``; every step starts as soon as Eqs.
    (1)-(7) allow, so the trace ends at ``iteration(costs, plan).total_s``.
    """
    _check(costs, plan)
    spans: list[Span] = []
    pull_end_s, compute_end_s = 0.0, 0.0
    for first, last in runs(plan.forward_cuts, costs.layers):
        start_s, label = pull_end_s, _label(first, last)
        pull_end_s = start_s + costs.overhead_s + float(costs.pull_s[first - 1 : last].sum())
        spans.append(Span(node, "pull", label, start_s, pull_end_s, kind="transfer"))
        compute_end_s = max(compute_end_s, pull_end_s)
        for layer in range(first, last + 1):
            start_s, compute_end_s = compute_end_s, compute_end_s + costs.forward_s[layer - 1]
            spans.append(Span(node, "forward", str(layer), start_s, float(compute_end_s)))
    push_end_s = compute_end_s
    for first, last in runs(plan.backward_cuts, costs.layers)[::-1]:
        for layer in range(last, first - 1, -1):
            start_s, compute_end_s = compute_end_s, compute_end_s + costs.backward_s[layer - 1]
            spans.append(Span(node, "backward", str(layer), start_s, float(compute_end_s)))
        start_s = max(push_end_s, compute_end_s)
        push_end_s = start_s + costs.overhead_s + float(costs.push_s[first - 1 : last].sum())
        label = _label(first, last)
        spans.append(Span(node, "push", label, start_s, push_end_s, kind="transfer"))
    return Trace.of(spans)


def _label(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def layer_costs(profile: ModelProfile, times: LayerTimes, link: Link) -> LayerCosts:
    """Costs of a model on a worker behind a link: what the planners plan with.

    `profile` has the bytes of every layer (`workbench.profiles.profile_model`), `times` the seconds
    of the same layers at a batch size, else it is a ValueError; `link` leads to the servers and
    back. Where its bandwidth changes over time, each layer takes what it takes from 0 s on.
    """
    check_model_and_link(profile, times, link)
    transfer_s = [link.transfer_s(sizes) for sizes in profile.tensor_bytes]
    return LayerCosts(
        pull_s=transfer_s,
        forward_s=times.table["forward_s"].to_numpy(),
        backward_s=times.table["backward_s"].to_numpy(),
        push_s=transfer_s,
        overhead_s=link.overhead_s,
    )


def check_model_and_link(profile: ModelProfile, times: LayerTimes, link: Link) -> None:
    """Refuse a profile and times of different models, and anything but a link."""
    check_kind("link", link, Link, "a clusters.Link, such as Link(1e9)")
    check_kind("profile", profile, ModelProfile, "profile_model(name or module)")
    check_kind("times", times, LayerTimes, "LayerTimes, as by measure_layer_times")
    if profile.layers != times.layers:
        raise UserError(
            f"profile of {profile.name} ({len(profile)} layers) and times of {times.name} "
            f"({len(times)} layers) do not name the same layers; make both from one model"
        )
