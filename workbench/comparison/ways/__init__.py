"""Ways of training by name, in the order of a table."""

from workbench.comparison.ways import all_reduce, alone, parameter_server, peers, rounds, tiers
from workbench.comparison.ways.way import Option, Way

WAYS: dict[str, Way] = {
    way.name: way
    for room in (alone, all_reduce, parameter_server, tiers, rounds, peers)
    for way in room.WAYS
}

__all__ = ["WAYS", "Option", "Way"]
