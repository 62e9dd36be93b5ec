"""Plans of one device under any share of an edge and its uplink, each solved once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from workbench.hiertrain.algorithms.hiertrain import hiertrain
from workbench.hiertrain.costs.iteration import iteration
from workbench.hiertrain.costs.policy import Hybrid
from workbench.hiertrain.costs.problem import TIERS, Problem
from workbench.hiertrain.costs.profiled import links_bps


class Plan(NamedTuple):
    """A policy and its seconds of an iteration."""

    policy: Hybrid
    total_s: float

    @property
    def computes(self) -> bool:
        """Whether it uses the edge's compute: the edge holds layers."""
        return "edge" in self.policy.taking_part

    @property
    def sends(self) -> bool:
        """Whether it uses the edge's uplink: the cloud holds layers."""
        return "cloud" in self.policy.taking_part


class Plans:
    """Plans of devices by the number of devices that share what they use.

    `problems` are by device and edge, as if alone.
    """

    def __init__(self, problems: Mapping[str, Mapping[str, Problem]]) -> None:
        self._problems = problems
        self._shared: dict[tuple[str, str, int, int], Problem] = {}
        self._best: dict[tuple[str, str, int, int], Plan] = {}
        # policies and seconds by edge and its devices: of `assignment.planned`
        self.joint: dict[tuple[str, tuple[str, ...]], tuple[list[Hybrid], list[float]]] = {}

    def best(self, device: str, edge: str, computing: int, sending: int) -> Plan:
        """Fastest plan with 1/computing of the edge's compute and 1/sending of its uplink.

        0 bars the device from the edge's compute, or from the cloud.
        """
        key = (device, edge, computing, sending)
        if key not in self._best:
            self._best[key] = self._inherited(*key) or self._solved(*key)
        return self._best[key]

    def alone(self, device: str, edge: str) -> Plan:
        """Fastest plan of a device that has the edge to itself."""
        return self.best(device, edge, 1, 1)

    def total_s(
        self, device: str, edge: str, policy: Hybrid, computing: int, sending: int
    ) -> float:
        """Seconds of an iteration under a policy and the shares, as in `best`."""
        return iteration(self._problem(device, edge, computing, sending), policy).total_s

    def _inherited(self, device: str, edge: str, computing: int, sending: int) -> Plan | None:
        """Plan under a larger share that it does not use: a smaller one cannot be better."""
        if computing > 1 and not (plan := self.best(device, edge, computing - 1, sending)).computes:
            return plan
        if sending > 1 and not (plan := self.best(device, edge, computing, sending - 1)).sends:
            return plan
        return None

    def _solved(self, device: str, edge: str, computing: int, sending: int) -> Plan:
        problem = self._problem(device, edge, computing, sending)
        barred = {tier for tier, share in (("edge", computing), ("cloud", sending)) if not share}
        policy = hiertrain(_priced_out(problem, barred) if barred else problem)
        return Plan(policy, iteration(problem, policy).total_s)

    def _problem(self, device: str, edge: str, computing: int, sending: int) -> Problem:
        """Problem under the shares; who is barred has it as if alone."""
        computing, sending = max(computing, 1), max(sending, 1)
        key = (device, edge, computing, sending)
        if key not in self._shared:
            self._shared[key] = _shared(self._problems[device][edge], computing, sending)
        return self._shared[key]


def _shared(problem: Problem, computing: int, sending: int) -> Problem:
    """Problem of a device with 1/computing of the edge's compute and 1/sending of its uplink."""
    if computing == sending == 1:
        return problem
    layer_s, update_s = dict(problem.layer_s), dict(problem.update_s)
    layer_s["edge"] = layer_s["edge"] * computing
    update_s["edge"] = update_s["edge"] * computing
    links = problem.bandwidth_bps
    if sending > 1:
        links = links_bps(links["device", "edge"], links["edge", "cloud"] / sending)
    return replace(problem, layer_s=layer_s, update_s=update_s, bandwidth_bps=links)


def _priced_out(problem: Problem, tiers: set[str]) -> Problem:
    """Problem whose fastest policy uses none of the tiers, and is otherwise as fast.

    An update of any layer there takes longer than a whole iteration of the device by itself, which
    is a policy too; and the update of an iteration is no shorter than any tier's (Eq. 11).
    """
    by_itself = Hybrid(("device", "edge", "cloud"), 0, 0, problem.batch, 0, 0)
    price_s = 1.0 + 2.0 * iteration(problem, by_itself).total_s
    prices_s = {tier: np.full(problem.layers, price_s) for tier in TIERS if tier in tiers}
    return replace(problem, update_s=dict(problem.update_s) | prices_s)
