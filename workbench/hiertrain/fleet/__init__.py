"""Several devices and several edge servers: which device trains with which edge, and how.

What HierTrain names as future work (Liu et al. 2020, VIII): the association of devices to edges.
Everything here is ours; the paper's planner is used as it is, once per device and share.
"""

from workbench.hiertrain.fleet.assignment import Assignment, alone
from workbench.hiertrain.fleet.fleet import Fleet, Machine, Server, fleet_of
from workbench.hiertrain.fleet.lower_bound import Bound, lower_bound
from workbench.hiertrain.fleet.search import TooManyError, assign, exact

__all__ = [
    "Assignment",
    "Bound",
    "Fleet",
    "Machine",
    "Server",
    "TooManyError",
    "alone",
    "assign",
    "exact",
    "fleet_of",
    "lower_bound",
]
