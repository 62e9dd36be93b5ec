"""Regions of a cloud, and clusters of machines in them."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, permutations
from pathlib import Path
from typing import Any

from workbench.clusters import Cluster, Link, Node
from workbench.utils.checks import UserError, check_name, check_number
from workbench.utils.files import read_text

KEYS = ("source", "measured_for_s", "host_gbps", "within", "between")
FIRST_WINDOW_BYTES = 10 * 1_460
"""Bytes that TCP sends before the first acknowledgement (RFC 6928)."""


def tcp_link(measured_bps: float, round_trip_s: float, measured_for_s: float = math.inf) -> Link:
    """Return the link of one TCP stream, from a measurement that began cold.

    Over long distances a stream carries a window each round trip, whatever the capacity. It begins
    with a small window, which doubles each round trip until it is large enough (slow start). That
    loses log2(window / first window) - 1 round trips whenever an idle connection starts: in every
    transmission, and in a measurement of `measured_for_s`, whose mean is therefore below the rate
    of a long transmission.

    Raises ValueError: anything but numbers above 0, or a measurement shorter than slow start.
    """
    for name, value in (
        ("measured_bps", measured_bps),
        ("round_trip_s", round_trip_s),
        ("measured_for_s", measured_for_s),
    ):
        if not check_number(name, value) > 0:
            raise UserError(f"{name} is {value}; it must be above 0")
    window_bytes = measured_bps / 8 * round_trip_s
    slow_start_s = round_trip_s * max(0.0, math.log2(window_bytes / FIRST_WINDOW_BYTES) - 1)
    if slow_start_s >= measured_for_s:
        raise UserError(
            f"slow start takes {slow_start_s:.3g} s at a round trip of {round_trip_s} s, longer "
            f"than the measurement of {measured_for_s} s; measure for longer"
        )
    return Link(
        bandwidth_bps=measured_bps / (1 - slow_start_s / measured_for_s),
        overhead_s=slow_start_s,
        latency_s=round_trip_s / 2,
    )


@dataclass(frozen=True)
class Regions:
    """Regions that may have machines, and the links between them.

    Parameters
    ----------
    links
        (region, other region) -> link of one stream, the same in either direction. Without any, all
        machines are in one region, of any name.
    within
        Link between two machines of a region.
    host_bps
        Bits per second that all streams of a machine share, in either direction.
    """

    links: Mapping[tuple[str, str], Link]
    within: Link
    host_bps: float = math.inf

    def link(self, one: str, other: str) -> Link:
        """Link between machines of two regions.

        Raises ValueError: an unknown region, or no link between the two.
        """
        known = dict.fromkeys(chain(*self.links))
        for name in (one, other) if known else ():
            check_name("region", name, known)
        if one == other:
            return self.within
        link = self.links.get((one, other), self.links.get((other, one)))
        if link is None:
            raise UserError(f"no link between regions {one} and {other}; add it to the others")
        return link

    def cluster(self, places: Sequence[str]) -> Cluster:
        """A machine for each of these regions, all linked: ``cluster(["US", "US", "EU"])``."""
        nodes = [
            Node(f"{place}{number}", uplink_bps=self.host_bps, downlink_bps=self.host_bps)
            for number, place in enumerate(places)
        ]
        pairs = permutations(range(len(places)), 2)
        return Cluster(nodes, {(a, b): self.link(places[a], places[b]) for a, b in pairs})

    @classmethod
    def read(cls, path: Path | str) -> Regions:
        """Read a TOML file such as ``data/measured/hivemind.toml``.

        It has the tables ``within`` and ``between.ONE.OTHER``, each with ``gbps`` and
        ``round_trip_ms`` of one TCP stream. It may have ``host_gbps``, which all streams of a
        machine share, and ``measured_for_s``, the seconds from a cold start over which bandwidths
        are means.

        Raises ValueError: a file that cannot be read, another layout (the error names the place),
        or values out of range.
        """
        text = read_text(path)
        try:
            facts = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UserError(f"{path} is not TOML: {error}") from None
        for key in facts:
            check_name(f"key of {path}", key, KEYS)
        measured_for_s = facts.get("measured_for_s", math.inf)

        def link(place: str, table: Any) -> Link:
            if not isinstance(table, Mapping) or not {"gbps", "round_trip_ms"} <= {*table}:
                raise UserError(f"{path}: {place} needs gbps and round_trip_ms, not {table!r}")
            try:
                gbps = check_number("gbps", table["gbps"])
                round_trip_ms = check_number("round_trip_ms", table["round_trip_ms"])
                return tcp_link(gbps * 1e9, round_trip_ms / 1e3, measured_for_s)
            except ValueError as error:
                raise UserError(f"{path}: {place}: {error}") from None

        between = facts.get("between", {})
        if not isinstance(between, Mapping) or not all(
            isinstance(others, Mapping) for others in between.values()
        ):
            raise UserError(f"{path} needs tables such as [between.US] with EU = {{ gbps = ... }}")
        return cls(
            links={
                (one, other): link(f"between.{one}.{other}", table)
                for one, others in between.items()
                for other, table in others.items()
            },
            within=link("within", facts.get("within")),
            host_bps=check_number("host_gbps", facts.get("host_gbps", math.inf)) * 1e9,
        )
