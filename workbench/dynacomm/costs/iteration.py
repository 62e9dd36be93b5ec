"""DynaComm's cost model: what one iteration of a worker takes under a plan (Cai et al. 2021, III).

A worker pulls the parameters of its L layers from the servers, computes forward, computes
backward and pushes the gradients. Pulls and pushes go out in segments of consecutive layers;
every segment costs an overhead on top of its layers' transfer times. The paper's symbols:
pt, fc, bc, gt are `pull_s`, `forward_s`, `backward_s`, `push_s`, and Δt is `overhead_s`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workbench.checks import check_kind, check_layers, check_number
from workbench.dynacomm.costs.plan import Plan, check_plan
from workbench.errors import UserError

if TYPE_CHECKING:
    from workbench.clusters import Link
    from workbench.profiles import LayerTimes, ModelProfile

FloatArray = NDArray[np.float64]
VECTORS = ("pull_s", "forward_s", "backward_s", "push_s")


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

    Raises
    ------
    ValueError
        Arrays that are not one-dimensional, empty, of unequal length, negative or not finite.
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
        vectors = dict(zip(VECTORS, (pull_s, forward_s, backward_s, push_s), strict=True))
        for name, values in vectors.items():
            object.__setattr__(self, name, check_layers(name, values))
        if not 0 <= (overhead_s := check_number("overhead_s", overhead_s)) < math.inf:
            raise UserError(f"overhead_s is {overhead_s}; seconds are finite and not negative")
        object.__setattr__(self, "overhead_s", overhead_s)
        lengths = {name: len(getattr(self, name)) for name in VECTORS}
        if len(set(lengths.values())) > 1:
            raise UserError(f"every layer needs all four costs, but the lengths differ: {lengths}")
        with np.errstate(over="ignore"):
            longest_s = self.layers * self.overhead_s + sum(
                float(getattr(self, name).sum()) for name in VECTORS
            )
        if not np.isfinite(longest_s):
            raise UserError("the costs are finite but their sum is not; give them in seconds")

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

    Pulling and computing forward is such a problem as it stands. Computing backward and pushing is
    the same one with time reversed: the last push (layer 1) then comes first, and every computation
    follows its layer's transfer. A plan's cuts mean the same in both, so one solver serves the two
    (Algs. 3 and 4 of the paper are mirror images).

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
    """One direction of an iteration, in seconds.

    Forward, transfers have no gap before the last one ends, and computation none after it; backward
    is the mirror image. So the two cover the whole duration, and three sums give the parts.

    Attributes
    ----------
    total_s
        From the start of the direction to its end.
    computation_s, communication_s
        All computation, and all transfers with their overheads, whether overlapped or not.
    """

    total_s: float
    computation_s: float
    communication_s: float

    @property
    def computation_alone_s(self) -> float:
        """Computation while nothing is transferred."""
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
    def iteration(self) -> Phase:
        """Both directions added up."""
        both = (self.forward, self.backward)
        return Phase(
            total_s=sum(phase.total_s for phase in both),
            computation_s=sum(phase.computation_s for phase in both),
            communication_s=sum(phase.communication_s for phase in both),
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

    Raises
    ------
    ValueError
        The plan cuts behind a layer that the model does not have.
    TypeError
        No costs, or no plan.
    """
    check_costs(costs)
    check_plan(plan).check(costs.layers)
    return Iteration(
        _phase(costs.forward, plan.forward_cuts), _phase(costs.backward, plan.backward_cuts)
    )


def check_costs(costs: object) -> LayerCosts:
    """Refuse what is no `LayerCosts`."""
    instead = "LayerCosts, such as layer_costs(profile, times, link) makes"
    return check_kind("costs", costs, LayerCosts, instead)


def check_profiled(profile: object, times: object, link: object) -> None:
    """Refuse what describes no model on a worker behind a link."""
    from workbench.clusters import Link
    from workbench.profiles import LayerTimes, ModelProfile

    profile = check_kind("profile", profile, ModelProfile, "profile_model(name or module)")
    times = check_kind("times", times, LayerTimes, "LayerTimes, such as LayerTimes.from_flops(...)")
    check_kind("link", link, Link, "a Link, such as Link(bandwidth_bps=1e6)")
    if profile.layers != times.layers:
        raise UserError(
            f"profile of {profile.name} ({len(profile)} layers) and times of {times.name} "
            f"({len(times)} layers) do not name the same layers; make both from one model"
        )


def _phase(direction: Direction, cuts: Sequence[int]) -> Phase:
    return Phase(
        total_s=direction.duration_s(cuts),
        computation_s=direction.left_s[0],
        communication_s=(len(cuts) + 1) * direction.overhead_s + direction.sent_s[-1],
    )


def layer_costs(profile: ModelProfile, times: LayerTimes, link: Link) -> LayerCosts:
    """Costs of a model on a worker behind a link: what the planners plan with.

    Parameters
    ----------
    profile
        Bytes of every layer; from `workbench.profiles.profile_model`.
    times
        Seconds of every layer of the same model at a batch size.
    link
        Between worker and servers; the same both ways.

    Raises
    ------
    ValueError
        Profile and times have different layers.
    TypeError
        One of the three is something else.
    """
    check_profiled(profile, times, link)
    transfer_s = [link.transfer_s(sizes) for sizes in profile.tensor_bytes]
    return LayerCosts(
        pull_s=transfer_s,
        forward_s=times.table["forward_s"].to_numpy(),
        backward_s=times.table["backward_s"].to_numpy(),
        push_s=transfer_s,
        overhead_s=link.overhead_s,
    )
