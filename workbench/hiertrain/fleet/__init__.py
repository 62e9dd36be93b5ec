"""Several devices and several edge servers: which device trains with which edge, and how.

What HierTrain names as future work (Liu et al. 2020, VIII): the association of devices to edges.
Everything here is ours; the paper's planner is used as it is, once per device and share.
"""

from workbench.hiertrain.fleet.alone import alone
from workbench.hiertrain.fleet.assign import assign
from workbench.hiertrain.fleet.assignment import OBJECTIVES, Assignment, timed
from workbench.hiertrain.fleet.build import Machine, Server, fleet_of
from workbench.hiertrain.fleet.exact import TooManyError, exact
from workbench.hiertrain.fleet.fleet import Device, Fleet
from workbench.hiertrain.fleet.lower_bound import lower_bound

__all__ = [
    "OBJECTIVES",
    "Assignment",
    "Device",
    "Fleet",
    "Machine",
    "Server",
    "TooManyError",
    "alone",
    "assign",
    "exact",
    "fleet_of",
    "lower_bound",
    "timed",
]
