"""Bandwidth traces in common formats, read into and written from a `Schedule` of bits per second.

Mahimahi's (Netravali et al. 2015): a line for each packet of 1,500 bytes, with the millisecond in
which it may be delivered; lines ascend, and the trace begins again when it is over. Also tables of
seconds and Mbit/s.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import groupby
from pathlib import Path

from workbench.clusters.schedule import Schedule
from workbench.utils import files
from workbench.utils.checks import UserError, check_number, check_whole

PACKET_BITS = 1_500 * 8
MILLISECONDS = 1_000
_ROUNDING = 1e-6  # of a packet, in sums of many pieces
MOST_MILLISECONDS = 100_000_000


def read_mahimahi(path: Path | str, *, repeats: int = 1) -> Schedule:
    """Read a Mahimahi trace, played `repeats` times; then its mean rate lasts for ever.

    A packet's bits flow evenly through its millisecond, so that at the end of each millisecond as
    many have been served as the trace has delivered by then.

    Raises ValueError: a file that cannot be read, a line that is not a whole millisecond, or is
    earlier than the one before (the error has its number), a trace that is empty or ends in
    millisecond 0, or `repeats` below 1.
    """
    check_whole("repeats", repeats, 1)
    packets = _read_milliseconds(path)
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
    mean_bps = packets.total() * PACKET_BITS * MILLISECONDS / end_ms
    changes[max(played) + 1] = mean_bps
    pieces = groupby(sorted(changes.items()), key=lambda change: change[1])
    return Schedule.of([(next(piece)[0] / MILLISECONDS, bps) for bps, piece in pieces])


def write_mahimahi(schedule: Schedule, path: Path | str, *, end_s: float) -> None:
    """Write what a schedule of bits per second delivers before `end_s` as a Mahimahi trace.

    A packet is delivered in the millisecond in which the last of its bits is served, so that at the
    end of each millisecond less than a packet is missing.

    Raises ValueError: an end that is not above 0 s, or before which no packet is through.
    """
    if not 0 < check_number("end_s", end_s) <= MOST_MILLISECONDS / MILLISECONDS:
        raise UserError(f"end_s is {end_s}; it must be above 0 s and at most 100,000 s")
    lines, served_bits, sent = [], 0.0, 0
    for at_ms in range(math.ceil(end_s * MILLISECONDS)):
        served_bits += schedule.served(at_ms / MILLISECONDS, (at_ms + 1) / MILLISECONDS)
        packets = math.floor(served_bits / PACKET_BITS + _ROUNDING)
        lines += [f"{at_ms}\n"] * (packets - sent)
        sent = packets
    if not lines or lines[-1] == "0\n":
        raise UserError(f"less than two milliseconds with a packet before {end_s} s; end later")
    files.write_text(files.expanded(path), "".join(lines))


def read_mbps(path: Path | str) -> Schedule:
    """Read a table of seconds and Mbit/s, maybe with a heading, as bits per second.

    Raises ValueError as `Schedule.from_csv`: a bad row is named by its line.
    """
    return Schedule.from_csv(path, scale=1e6)


def write_mbps(schedule: Schedule, path: Path | str) -> None:
    """Write a schedule of bits per second as a table of seconds and Mbit/s."""
    rows = zip(schedule.starts_s, schedule.values, strict=True)
    lines = ["seconds,mbps", *(f"{start_s!r},{bps / 1e6!r}" for start_s, bps in rows), ""]
    files.write_text(files.expanded(path), "\n".join(lines))


def _read_milliseconds(path: Path | str) -> Counter[int]:
    """Packets by millisecond; empty lines are ignored, errors name the line."""
    packets, last = Counter[int](), 0
    for number, line in enumerate(files.read_text(path).splitlines(), start=1):
        text = line.strip()
        if not text:
            continue
        whole = text.isascii() and text.isdigit()
        text = text.lstrip("0") or "0" if whole else text
        longest = len(str(MOST_MILLISECONDS))
        if not whole or len(text) > longest or int(text) > MOST_MILLISECONDS:
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
