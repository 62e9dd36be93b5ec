"""Links between workers at one instant, and how transfers share their capacities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import permutations

from workbench.clusters import Cluster, Schedule
from workbench.errors import UserError
from workbench.runtime.max_min import max_min_rates

UNLIMITED_BPS = 1e300  # finite, so that differences are numbers


class Network:
    """Links between all workers, numbered as in `links`: (source, target), ascending."""

    def __init__(
        self,
        uplinks_bps: tuple[float, ...],
        downlinks_bps: tuple[float, ...],
        links_bps: tuple[float, ...],
        overheads_s: tuple[float, ...],
        latencies_s: tuple[float, ...],
    ) -> None:
        workers = range(len(uplinks_bps))
        self.links = list(permutations(workers, 2))
        self.number = {pair: link for link, pair in enumerate(self.links)}
        self.links_bps = links_bps
        self.overheads_s, self.latencies_s = overheads_s, latencies_s
        self.at_worker = [
            sum(1 << link for link, pair in enumerate(self.links) if worker in pair)
            for worker in workers
        ]
        self._interfaces_bps = uplinks_bps + downlinks_bps
        self._rates: dict[int, list[tuple[int, float]]] = {}

    def rates_bps(self, links: Sequence[int], caps_bps: Sequence[float]) -> list[float]:
        """Max-min fair rates of transfers on these links, none above its cap."""
        workers = len(self.at_worker)
        crossed = [(self.links[one][0], workers + self.links[one][1]) for one in links]
        return max_min_rates(caps_bps, crossed, self._interfaces_bps)

    def least_s(self, link_bytes: Mapping[tuple[int, int], float]) -> float:
        """Seconds that the busiest link or interface takes to carry these bytes."""
        workers = len(self.at_worker)
        bits = [0.0 for _ in self._interfaces_bps]
        longest_s = 0.0
        for (source, target), size_bytes in link_bytes.items():
            longest_s = max(longest_s, 8 * size_bytes / self.links_bps[self.number[source, target]])
            bits[source] += 8 * size_bytes
            bits[workers + target] += 8 * size_bytes
        return max(longest_s, *(a / b for a, b in zip(bits, self._interfaces_bps, strict=True)))

    def rates(self, busy: int) -> list[tuple[int, float]]:
        """(link, bits per second) of the links whose bits are set in `busy`."""
        found = self._rates.get(busy)
        if found is None:
            links, others = [], busy
            while others:
                links.append((others & -others).bit_length() - 1)
                others &= others - 1
            rates_bps = self.rates_bps(links, [self.links_bps[link] for link in links])
            found = self._rates[busy] = list(zip(links, rates_bps, strict=True))
        return found


_made = lru_cache(maxsize=16)(Network)  # keeps the rates that were found


def network(cluster: Cluster, at_s: float = 0.0) -> Network:
    """All links of a cluster, with what they carry at a time.

    Raises ValueError: an interface or link that carries nothing then; MissingLinkError.
    """

    def bps(what: str, rate: float | Schedule | None) -> float:
        found = rate.at(at_s) if isinstance(rate, Schedule) else rate
        if found == 0:
            raise UserError(f"{what} carries nothing at {at_s:g} s; give another at_s")
        return UNLIMITED_BPS if found is None else min(found, UNLIMITED_BPS)

    nodes, names = cluster.nodes, cluster.names
    pairs = list(permutations(range(len(nodes)), 2))
    links = [cluster.link(*pair) for pair in pairs]
    return _made(
        tuple(bps(f"the uplink of {one.name}", one.uplink) for one in nodes),
        tuple(bps(f"the downlink of {one.name}", one.downlink) for one in nodes),
        tuple(
            bps(f"the link from {names[source]} to {names[target]}", link.bandwidth)
            for (source, target), link in zip(pairs, links, strict=True)
        ),
        tuple(link.overhead_s for link in links),
        tuple(link.latency_s for link in links),
    )
