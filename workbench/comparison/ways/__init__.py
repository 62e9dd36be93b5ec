"""Ways of training by name, in the order of a table."""

from workbench.comparison.ways import (
    all_reduce,
    alone,
    fedavg,
    parameter_server,
    peers,
    rounds,
    scan,
    tiers,
)
from workbench.comparison.ways.way import EQUAL, Option, Way, options, usable

WAYS: dict[str, Way] = {
    way.name: way
    for room in (alone, all_reduce, parameter_server, tiers, scan, rounds, fedavg, peers)
    for way in room.WAYS
}

EXACT = [way for way in WAYS.values() if way.update == EQUAL]
"""Those whose updates equal SGD's."""

__all__ = ["EQUAL", "EXACT", "WAYS", "Option", "Way", "options", "usable"]
