"""What a node learns of its links from its own transfers.

Deviation: how DLion's network resource monitor measures is not stated (Hong & Chandra 2021,
Sec. 4.1). Here bandwidth is a mean over the latest `LATEST` transfers on a link.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

from workbench.runtime.messages import Transfer

LATEST = 5
"""Transfers on a link that its bandwidth is a mean of."""


class Monitor:
    """Bandwidth of the links from a node: bytes over seconds of its latest transfers on each.

    `transfers` is what `Context.watch` returned; read transfers are taken out of it.
    """

    def __init__(self, node: int, transfers: list[Transfer]) -> None:
        self._node, self._transfers = node, transfers
        self._latest: defaultdict[int, deque[tuple[float, float]]] = defaultdict(
            lambda: deque(maxlen=LATEST)
        )

    def bandwidth_bps(self, peers: Iterable[int]) -> dict[int, float | None]:
        """Bits per second on the link to each peer; None where nothing was sent yet."""
        for one in self._transfers:
            seconds = one.end_s - one.start_s
            if one.source == self._node and one.size_bytes and seconds > 0:
                self._latest[one.target].append((one.size_bytes, seconds))
        self._transfers.clear()
        return {peer: self._of(peer) for peer in peers}

    def _of(self, peer: int) -> float | None:
        latest = self._latest.get(peer)
        if not latest:
            return None
        return 8 * sum(size for size, _ in latest) / sum(seconds for _, seconds in latest)
