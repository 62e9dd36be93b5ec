"""When a worker plans anew, and from what: `Planning` for a `worker`.

`programs.Fixed` plans once. `Replanned` profiles and plans every few iterations, as DynaComm does
(Cai et al. 2021, IV-C). `Clairvoyant` knows the future bandwidth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from workbench.checks import check_number
from workbench.dynacomm.algorithms.dynacomm import dynacomm
from workbench.dynacomm.costs.iteration import LayerCosts
from workbench.dynacomm.replanning import profiling
from workbench.dynacomm.replanning.clairvoyant import fastest, timed
from workbench.dynacomm.replanning.known_link import KnownLink
from workbench.dynacomm.replanning.profiling import Profile
from workbench.errors import UserError

if TYPE_CHECKING:
    from workbench.clusters import Link
    from workbench.dynacomm.algorithms import Planner
    from workbench.dynacomm.costs.plan import Plan
    from workbench.dynacomm.programs.job import Job
    from workbench.dynacomm.programs.worker_and_server import Observed

EPOCH = 195
"""Iterations between two plans by default: CIFAR-10 at a total batch of 256 (IV-C)."""

PLANNING_S = 0.01159 + 0.01156
"""What planning forward and backward for ResNet-152 took the paper's workers (Table I)."""

WITHIN_S = 1e-6
"""How much slower than the fastest a clairvoyant plan may be, in each direction."""


def check_planning(planning_s: float) -> None:
    """Refuse seconds of planning that are negative or not finite."""
    if not 0 <= check_number("planning_s", planning_s) < math.inf:
        raise UserError(f"planning_s is {planning_s}; seconds are finite and not negative")


@dataclass(frozen=True)
class Replanned:
    """Planned from observations, every few iterations.

    Deviation: both directions are planned in the window of the last push; what exceeds that push
    delays the next iteration. The paper plans backward while it waits for the first pull.
    """

    job: Job
    believed: Profile  # before any observation; its window says how far estimates look back
    every: int = EPOCH  # iterations under one plan
    planner: Planner = dynacomm
    planning_s: float = PLANNING_S  # what planning costs the worker

    def __post_init__(self) -> None:
        if self.every < 1:
            raise UserError(f"every is {self.every}; it must be at least 1 iteration")
        check_planning(self.planning_s)

    def begin(self) -> tuple[Profile, Plan]:
        """The first estimate, and its plan."""
        return self.believed, self.planner(self.believed.costs(self.job))

    def step(
        self, state: Profile, iteration: int, now_s: float, observed: Observed
    ) -> tuple[Profile, Plan | None]:
        """Profile, and plan if it is time to."""
        del now_s
        state = profiling.step(state, observed)
        if iteration % self.every:
            return state, None
        return state, self.planner(state.costs(self.job))


@dataclass(frozen=True)
class Clairvoyant:
    """Every iteration's fastest plan, for one worker alone with one server at speed 1.

    A true bound: no choice of plans ends the training earlier by more than `WITHIN_S` for each
    direction of an iteration, since an iteration that ends earlier never makes the next end later,
    and all plans are searched.

    Deviation: planning takes no time.
    """

    job: Job
    pull: Link  # from the server, its schedule included
    push: Link  # to the server
    planning_s: float = 0.0

    def __post_init__(self) -> None:
        for link in (self.pull, self.push):
            if link.latency_s or (link.tensor_s and self.job.tensors):
                raise UserError(
                    f"the link has latency_s {link.latency_s} and tensor_s {link.tensor_s}; a "
                    "clairvoyant plan knows bandwidth and overhead only, so both must be 0"
                )

    @cached_property
    def links(self) -> tuple[KnownLink, KnownLink]:
        """From the server, and to it."""
        return KnownLink.of(self.pull), KnownLink.of(self.push)

    def begin(self) -> tuple[float, Plan]:
        """End of the first iteration, and its plan."""
        return self._from(0.0)

    def step(
        self, state: float, iteration: int, now_s: float, observed: Observed
    ) -> tuple[float, Plan]:
        """End of the coming iteration, and its plan; `state` is its start."""
        del iteration, now_s, observed
        return self._from(state)

    def _from(self, start_s: float) -> tuple[float, Plan]:
        pull, push = self.links
        plan = fastest(
            self.job,
            pull,
            push,
            start_s=start_s,
            within_s=WITHIN_S,
            usual=self._levelled(start_s),
        )
        return timed(self.job, pull, push, plan, start_s) + self.job.aggregation_s, plan

    def _levelled(self, start_s: float) -> Plan:
        """Optimal plan for the mean bandwidth."""
        pull, push = self.links
        job, span_s = self.job, float(self.job.forward_s.sum() + self.job.backward_s.sum())
        span_s += self.pull.overhead_s + self.push.overhead_s
        means = [
            max(1.0, (link.served(start_s + span_s) - link.served(start_s)) / span_s)
            for link in (pull, push)
        ]
        return dynacomm(
            LayerCosts(
                job.pull_bytes * 8 / means[0],
                job.forward_s,
                job.backward_s,
                job.push_bytes * 8 / means[1],
                (pull.overhead_s + push.overhead_s) / 2,
            )
        )
