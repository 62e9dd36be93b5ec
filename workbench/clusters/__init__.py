"""Machines, links, capacities that change over time and their traces, the papers' testbeds."""

from workbench.clusters.cluster import (
    Cluster,
    MissingLinkError,
    UnknownNodeError,
    full_mesh,
    graph,
    star,
)
from workbench.clusters.files import load_cluster
from workbench.clusters.link import Link, SharedCapacity
from workbench.clusters.node import Node
from workbench.clusters.schedule import Schedule
from workbench.clusters.testbeds import load_calibration, load_constants, load_testbed
from workbench.clusters.traces import read_mahimahi, read_mbps

__all__ = [
    "Cluster",
    "Link",
    "MissingLinkError",
    "Node",
    "Schedule",
    "SharedCapacity",
    "UnknownNodeError",
    "full_mesh",
    "graph",
    "load_calibration",
    "load_cluster",
    "load_constants",
    "load_testbed",
    "read_mahimahi",
    "read_mbps",
    "star",
]
