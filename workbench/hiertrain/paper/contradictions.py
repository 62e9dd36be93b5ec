"""What the paper's statements together need, and what any times under its cost model allow."""

from __future__ import annotations

import math
from functools import partial

import polars as pl

from workbench.hiertrain.paper.cost_model import NAIVE
from workbench.hiertrain.paper.testbed import (
    DEVICE_EDGE_MBPS,
    EDGE_CLOUD_MBPS,
    LOW_MBPS,
    ORDER,
    paper_testbed,
)
from workbench.reproduction.claims import Answer, Cause, paper_value, tolerance
from workbench.reproduction.figure import Figure


def contradictions() -> pl.DataFrame:
    """What the paper's statements together need, and what any times under the cost model allow.

    H, E, C and J are the seconds of HierTrain, All-Edge, All-Cloud and JALAD at an edge-cloud
    bandwidth. All-Cloud takes a + b / bandwidth, whatever a and b, and HierTrain does not get
    slower with bandwidth. Device and cloud reach what the slower link does.

    The speed-ups are the largest over all bandwidths. They are written at the lowest, where the
    model allows the most: C(b) / E grows towards it, and so does 5 / b, what C(b) / J(b) can be.
    From where JointDNN+ is in the cloud, C / H is at most the speed-up over All-Edge.

    The last row is of VI-B's machines. W is what layers take on the edge, Q what the edge is sent
    for them, in seconds at 1 Mbit/s. JointDNN+ is below JointDNN only where the edge computes
    layers: faster than the device, which is sent nothing, and than the cloud, which is sent Q over
    the slower link.

    Device and cloud may also be read to reach each other by one link after the other. That allows
    JALAD and VI-B's machines, but not the speed-ups on AlexNet, whatever is near; and fitted like
    the reading in use, it meets three of the eleven claims of Figs. 7 to 11, not six.

    A row per conflict: ``statements``, ``ratio``, what it is at least by the statements
    (``needed``, and ``needed_by_near`` with every number as far off as the scorecard's near allows)
    and at most by the model (``allowed``, and ``allowed_in_turn`` by one link after the other).
    """
    edge_a, cloud_a, edge_l, cloud_l = (
        paper_value(f"hiertrain.{figure}.{planner}")
        for figure in ("fig7.alexnet", "fig8.lenet5")
        for planner in NAIVE[1:]
    )
    near = 1 - tolerance("x", 1.0), 1 + tolerance("x", 1.0)
    low, high = EDGE_CLOUD_MBPS[0], DEVICE_EDGE_MBPS
    first_cloud = min(mbps for mbps in EDGE_CLOUD_MBPS if mbps > LOW_MBPS)

    def in_turn(edge_cloud_mbps: float) -> float:
        return 1 / high + 1 / edge_cloud_mbps

    rows = [
        (
            "AlexNet: the speed-ups over All-Edge and All-Cloud; JointDNN+ is in the cloud, not on "
            f"the edge, from {first_cloud:g} Mbit/s",
            f"C({low:g}) / C({first_cloud:g}) >= C({low:g}) / E",
            cloud_a / edge_a,
            cloud_a * near[0] / (edge_a * near[1]),
            first_cloud / low,
            in_turn(low) / in_turn(first_cloud),
        ),
        (
            f"AlexNet: the speed-up over All-Cloud; JALAD is below HierTrain at {low:g} Mbit/s, "
            "though its samples go to the edge first",
            f"C({low:g}) / J({low:g}) >= C({low:g}) / H({low:g})",
            cloud_a,
            cloud_a * near[0],
            high / low,
            high * in_turn(low),
        ),
        (
            "LeNet-5: the speed-ups over All-Edge and All-Cloud",
            f"C({low:g}) / E",
            cloud_l / edge_l,
            cloud_l * near[0] / (edge_l * near[1]),
            high / low,
            high * in_turn(low),
        ),
        (
            "VI-B: the cloud is an order of magnitude above device and edge; JointDNN+ is below "
            f"JointDNN at {low:g} Mbit/s",
            "W / Q",
            math.inf,  # a device as fast as the edge is never slower
            1 / high / (near[1] / near[0] - 1),
            (1 / low - 1 / high) / (1 - 1 / (ORDER * near[0])),
            1 / low / (1 - 1 / (ORDER * near[0])),
        ),
    ]
    schema = ["statements", "ratio", "needed", "needed_by_near", "allowed", "allowed_in_turn"]
    return pl.DataFrame(rows, schema=schema, orient="row")


CONTRADICTIONS = Figure(id="contradictions", compute=contradictions)


def speeds() -> pl.DataFrame:
    """GFLOPs a second of each tier of the testbed, and the cloud's over it."""
    gflops = {tier: flops / 1e9 for tier, flops in paper_testbed().flops_per_s.items()}
    rows = [(tier, speed, gflops["cloud"] / speed) for tier, speed in gflops.items()]
    return pl.DataFrame(rows, schema=["tier", "gflops", "cloud_over"], orient="row")


def _cloud_over(tier: str, frame: pl.DataFrame) -> Answer:
    return Answer(frame.filter(tier=tier)["cloud_over"].item(), "fitted speeds")


SPEEDS = Figure(
    id="speeds",
    compute=speeds,
    answers={
        f"hiertrain.testbed.cloud_over_{tier}": partial(_cloud_over, tier)
        for tier in ("device", "edge")
    },
    causes={
        "hiertrain.testbed.cloud_over_device": Cause(
            "paper",
            "with device and edge both an order of magnitude below the cloud JointDNN+ cannot be "
            "below JointDNN at 1.5 Mbit/s: at 1 Mbit/s for what it is sent, the edge would have to "
            "compute for at least 0.567 of that to beat the device, and for at most 0.529 to beat "
            "the cloud, with both orders as far off as near allows. By one link after the other it "
            "could, but then the speed-ups on AlexNet contradict each other",
        )
    },
)
