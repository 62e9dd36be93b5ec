"""The paper's testbed: its stated facts, and the constants that it leaves open.

A Raspberry Pi, an Intel NUC and a workstation (Liu et al. 2020, VI-B). The paper states the links
and that the cloud computes an order of magnitude faster; it states no time of any layer. A layer
is taken to cost its arithmetic; `calibration` fits how fast that is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from workbench.clusters import load_constants, load_testbed
from workbench.hiertrain.costs import TIERS, Problem, links_through_edge
from workbench.profiles import profile_model
from workbench.utils.checks import ABOVE_ZERO, at_least, check_fields

EXPLANATION = "alexnet"
STATED = load_testbed("hiertrain")
DEVICE_EDGE_MBPS: float = STATED["network"]["device_edge_mbps"]
EDGE_CLOUD_MBPS: tuple[float, ...] = tuple(STATED["network"]["edge_cloud_mbps"])
FIG11_MBPS: float = STATED["network"]["fig11_edge_cloud_mbps"]
MODELS: dict[str, str] = STATED["models"]
BATCH_SIZE: int = STATED["assumed"]["batch_size"]
SAMPLE_TYPE = np.dtype(STATED["assumed"]["sample_type"])
ORDER: float = STATED["cloud"]["over_edge_core"]
"""How many times as fast the cloud is as an edge core; VI-B says so of the device, too."""
CORES: int = STATED["edge"]["threads"]
CORES_USED: int = STATED["edge"]["cores_used"]
PAPER = {
    "batch_size": BATCH_SIZE,
    "device_edge_mbps": DEVICE_EDGE_MBPS,
    "edge_cores": CORES_USED,
    "devices": 1,
}
"""The setting of the paper's figures beside the bandwidth, which they sweep."""

SETTING = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "device_edge_mbps": pl.Float64,
    "edge_cloud_mbps": pl.Float64,
    "edge_cores": pl.Int64,
    "devices": pl.Int64,
}
"""Columns of a frame of iterations that say of which."""

# How the paper speaks of bandwidths between edge and cloud:
LOW_MBPS = 2.0  # "as low as 1.5 Mbps or 2 Mbps"
FEW_MBPS, ENOUGH_MBPS = 1.5, 3.0  # "very low (<= 1.5 Mbps)", "sufficiently large (>= 3 Mbps)"

UPDATE_FLOPS = 2
"""Operations that update a weight: a multiplication and an addition."""


@dataclass(frozen=True)
class Constants:
    """What the paper does not state about its testbed."""

    device_gflops: float
    edge_core_gflops: float  # of one core of the edge server
    cloud_over_edge_core: float  # speed of the cloud over that of an edge core

    @classmethod
    def load(cls) -> Constants:
        """Read the constants that `calibration` fitted."""
        return cls(**load_constants("hiertrain", EXPLANATION))


@dataclass(frozen=True)
class Testbed:
    """Device, edge server and cloud of the paper, with any links and any share of the edge."""

    __test__ = False  # pytest: not a test case, whatever the name

    constants: Constants
    device_edge_mbps: float = field(default=DEVICE_EDGE_MBPS, metadata=ABOVE_ZERO)
    edge_cloud_mbps: float = field(default=FIG11_MBPS, metadata=ABOVE_ZERO)
    # 1 to 4, as the paper counts them; see `capacity`
    edge_cores: int = field(default=CORES_USED, metadata=at_least(1, CORES))
    # that share the edge server and its uplink equally; the paper has one
    devices: int = field(default=1, metadata=at_least(1))

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def flops_per_s(self) -> dict[str, float]:
        """FLOPs a second of each tier for one device."""
        core = self.constants.edge_core_gflops * 1e9
        return {
            "device": self.constants.device_gflops * 1e9,
            "edge": core * capacity(self.edge_cores) / self.devices,
            "cloud": core * self.constants.cloud_over_edge_core,
        }

    def problem(self, model: str, batch_size: int = BATCH_SIZE) -> Problem:
        """What the planners plan with, for a model of the zoo.

        Seconds of a layer are its FLOPs over the tier's FLOPs a second; backward, those of the
        gradients, of which the first layer needs none by its input. Samples and features are
        float32.
        """
        profile, speeds = profile_model(model), self.flops_per_s
        table = profile.table
        flops = table.select("forward_flops", "backward_flops").to_numpy()
        update_flops = UPDATE_FLOPS / 4 * table["param_bytes"].to_numpy()
        return Problem(
            layer_s={tier: flops / speeds[tier] for tier in TIERS},
            update_s={tier: update_flops / speeds[tier] for tier in TIERS},
            param_bytes=table["param_bytes"].to_numpy(),
            output_bytes=table["output_bytes"].to_numpy(),
            sample_bytes=SAMPLE_TYPE.itemsize * float(np.prod(profile.input_shape)),
            links=links_through_edge(
                self.device_edge_mbps * 1e6, self.edge_cloud_mbps * 1e6 / self.devices
            ),
            batch=batch_size,
        )


def capacity(cores: int) -> float:
    """What this number of the edge server's CPUs computes, in cores.

    The paper's NUC has two cores of two hardware threads each; the third and fourth that it counts
    are second threads, which add far less than a core (assumed; Intel names up to 0.3).
    """
    whole, second = STATED["edge"]["cores"], STATED["assumed"]["second_thread"]
    return float(min(cores, whole) + second * max(cores - whole, 0))


@lru_cache
def paper_testbed() -> Testbed:
    """Return the testbed as the paper states it, with the fitted constants."""
    return Testbed(Constants.load())


def variant(**changed: Any) -> Testbed:
    """Return the paper's testbed with other links, or with another share of the edge."""
    return replace(paper_testbed(), **changed)
