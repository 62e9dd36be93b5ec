"""All cases, by name: the one place where systems' cases are put together."""

from __future__ import annotations

from functools import cache

from workbench.three_ways import dlion, dynacomm, edgegossip, gossip, hiertrain, olpb, unpadded
from workbench.three_ways.case import Case

ROOMS = (dynacomm, hiertrain, gossip, edgegossip, dlion, olpb, unpadded)


@cache
def cases() -> dict[str, Case]:
    """Every case by its name; a case keeps what it has predicted and simulated."""
    return {case.name: case for room in ROOMS for case in room.cases()}
