"""Devices and edges that share, in clear loops: every assignment, every policy, no shortcuts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from tests.oracles.hiertrain import Choice, Given, all_hybrids, hybrid_s


@dataclass(frozen=True)
class GivenFleet:
    """For each device, by edge, its problem if alone."""

    devices: Sequence[Mapping[str, Given]]

    def shared(self, device: int, edge: str, computing: int, sending: int) -> Given:
        """Problem of a device with one of so many equal shares."""
        alone = self.devices[device][edge]
        near_bps = alone.bandwidth_bps[frozenset(("device", "edge"))]
        uplink_bps = alone.bandwidth_bps[frozenset(("edge", "cloud"))] / sending

        def edge_slower(seconds: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
            slower = {tier: list(values) for tier, values in seconds.items()}
            slower["edge"] = [value * computing for value in slower["edge"]]
            return slower

        return replace(
            alone,
            forward_s=edge_slower(alone.forward_s),
            backward_s=edge_slower(alone.backward_s),
            update_s=edge_slower(alone.update_s),
            bandwidth_bps={
                frozenset(("device", "edge")): near_bps,
                frozenset(("edge", "cloud")): uplink_bps,
                frozenset(("device", "cloud")): min(near_bps, uplink_bps),
            },
        )


def tiers_of(choice: Choice) -> set[str]:
    """Tiers that hold layers."""
    (o, s, l), m_s, m_l = choice[:3]  # noqa: E741
    return {o} | ({s} if m_s > 0 else set()) | ({l} if m_l > 0 else set())


def timed_s(fleet: GivenFleet, edges: Sequence[str], choices: Sequence[Choice]) -> list[float]:
    """Seconds of each device under everybody's policy."""
    found = []
    for device, edge in enumerate(edges):
        beside = [other for other, theirs in enumerate(edges) if theirs == edge]
        computing = sum("edge" in tiers_of(choices[other]) for other in beside)
        sending = sum("cloud" in tiers_of(choices[other]) for other in beside)
        given = fleet.shared(device, edge, max(computing, 1), max(sending, 1))
        found.append(hybrid_s(given, choices[device]))
    return found


def exact_s(fleet: GivenFleet) -> float:
    """Least seconds of the slowest over all assignments and all policies of all devices.

    Who uses what is chosen first: the devices' policies are then independent.
    """
    kinds = [set[str](), {"edge"}, {"cloud"}, {"edge", "cloud"}]
    least_s = float("inf")
    for edges in product(*fleet.devices):
        for uses in product(kinds, repeat=len(edges)):
            times_s = []
            for device, edge in enumerate(edges):
                beside = [other for other, theirs in enumerate(edges) if theirs == edge]
                computing = sum("edge" in uses[other] for other in beside)
                sending = sum("cloud" in uses[other] for other in beside)
                given = fleet.shared(device, edge, max(computing, 1), max(sending, 1))
                times_s.append(
                    min(
                        hybrid_s(given, choice)
                        for choice in all_hybrids(given.layers, given.batch)
                        if tiers_of(choice) - {"device"} == uses[device]
                    )
                )
            least_s = min(least_s, max(times_s))
    return least_s
