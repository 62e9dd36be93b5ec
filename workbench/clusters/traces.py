"""Bandwidth traces in common formats, read into a `Schedule` of bits per second.

Mahimahi's (Netravali et al. 2015): a line for each packet of 1,500 bytes, with the millisecond in
which it may be delivered; lines ascend, and the trace begins again when it is over. Also tables of
seconds and Mbit/s.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby
from pathlib import Path

from workbench.clusters.schedule import MOST_SAMPLES, Schedule
from workbench.utils import files
from workbench.utils.checks import UserError, check_whole

PACKET_BITS = 1_500 * 8
MILLISECONDS = 1_000
MOST_MILLISECONDS = 100_000_000


def read_mahimahi(path: Path | str, *, repeats: int = 1) -> Schedule:
    """Read a Mahimahi trace, played `repeats` times; then its mean rate lasts for ever.

    A packet's bits flow evenly through its millisecond, so that at the end of each millisecond as
    many have been served as the trace has delivered by then.

    Raises UserError: a line that is not a whole millisecond, or is earlier than the one before
    (the error has its number); a trace that is empty or ends in millisecond 0.
    """
    check_whole("repeats", repeats, 1)
    packets = _read_milliseconds(path)
    if repeats * len(packets) > MOST_SAMPLES:
        raise UserError(
            f"repeats is {repeats}, of {len(packets):,} milliseconds; a schedule has at most "
            f"{MOST_SAMPLES:,} values"
        )
    end_ms = max(packets)
    if end_ms == 0:
        raise UserError(f"{path}: all packets are in millisecond 0; a trace needs a length")
    played = Counter[int]()
    for turn in range(repeats):
        for at_ms, count in packets.items():
            played[turn * end_ms + at_ms] += count
    # Equal rates in a row are merged: a file has many lines, but often few different rates.
    changes: dict[int, float] = {0: 0.0}
    for at_ms in sorted(played):
        changes[at_ms] = played[at_ms] * PACKET_BITS * MILLISECONDS
        changes.setdefault(at_ms + 1, 0.0)
    changes[max(played) + 1] = packets.total() * PACKET_BITS * MILLISECONDS / end_ms
    pieces = groupby(sorted(changes.items()), key=lambda change: change[1])
    return Schedule.of([(next(piece)[0] / MILLISECONDS, bps) for bps, piece in pieces])


def read_mbps(path: Path | str) -> Schedule:
    """Read a table of seconds and Mbit/s, maybe with a heading, as bits per second."""
    return Schedule.from_csv(path, scale=1e6)


def _read_milliseconds(path: Path | str) -> Counter[int]:
    """Packets by millisecond; empty lines are ignored, errors name the line."""
    packets, last = Counter[int](), 0
    for number, line in enumerate(files.read_text(path).splitlines(), start=1):
        if not (text := line.strip()):
            continue
        if not re.fullmatch("0*[0-9]{1,9}", text) or int(text) > MOST_MILLISECONDS:
            raise UserError(
                f"{path}, line {number}: {text[:20]!r} is not a whole millisecond from 0 to "
                f"{MOST_MILLISECONDS:,}"
            )
        at_ms = int(text)
        if at_ms < last:
            raise UserError(
                f"{path}, line {number}: {at_ms} ms comes after {last} ms; milliseconds ascend"
            )
        packets[at_ms] += 1
        last = at_ms
    if not packets:
        raise UserError(f"{path} is empty; a trace has a line for each packet of 1,500 bytes")
    return packets
