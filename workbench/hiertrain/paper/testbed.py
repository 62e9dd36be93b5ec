"""The paper's testbed: its stated facts, and the constants that it leaves open.

A Raspberry Pi, an Intel NUC and a workstation (Liu et al. 2020, VI-B). The paper states the links
and that the cloud computes an order of magnitude faster; it states no time of any layer. A layer
is taken to cost its arithmetic and, on top, the memory that it moves, as a roofline whose two
sides add up; `calibration` fits the numbers that this takes, and finds that the
claims are met as well without the memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from workbench.clusters import load_constants, load_testbed
from workbench.hiertrain.costs.problem import (
    TIERS,
    FloatArray,
    Problem,
    check_positive,
)
from workbench.hiertrain.costs.profiled import links_bps
from workbench.profiles import moved_bytes, profile_model
from workbench.utils.checks import UserError, check_whole

EXPLANATION = "flops_only"
"""Of those in `workbench.hiertrain.paper.calibration` that meet most claims, the simplest."""

STATED = load_testbed("hiertrain")
DEVICE_EDGE_MBPS: float = STATED["network"]["device_edge_mbps"]
EDGE_CLOUD_MBPS: tuple[float, ...] = tuple(STATED["network"]["edge_cloud_mbps"])
FIG11_MBPS: float = STATED["network"]["fig11_edge_cloud_mbps"]
MODELS: dict[str, str] = STATED["models"]
BATCH_SIZE: int = STATED["assumed"]["batch_size"]
SAMPLE_TYPE = np.dtype(STATED["assumed"]["sample_type"])
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

UPDATE_FLOPS, UPDATE_MOVES = 2, 3
"""Updating a weight multiplies and adds; weight and gradient are read, the weight is written."""


@dataclass(frozen=True)
class Constants:
    """What the paper does not state about its testbed."""

    device_gflops: float  # where memory is no limit
    edge_core_gflops: float  # of one core of the edge server, where memory is no limit
    cloud_over_edge_core: float  # speed of the cloud over that of an edge core
    flops_per_byte: float  # arithmetic in the time of moving a byte, the same on all machines

    @classmethod
    def load(cls, explanation: str = EXPLANATION) -> Constants:
        """Read constants that were fitted for an explanation; see `load_constants`."""
        return cls(**load_constants("hiertrain", explanation))


@dataclass(frozen=True)
class Testbed:
    """Device, edge server and cloud of the paper, with any links and any share of the edge."""

    __test__ = False  # pytest: not a test case, whatever the name

    constants: Constants
    device_edge_mbps: float = DEVICE_EDGE_MBPS
    edge_cloud_mbps: float = FIG11_MBPS
    edge_cores: int = CORES_USED  # 1 to 4, as the paper counts them; see `capacity`
    devices: int = 1  # that share the edge server and its uplink equally; the paper has one
    route: str = "bottleneck"

    def __post_init__(self) -> None:
        if self.edge_cores not in range(1, CORES + 1):
            raise UserError(f"edge_cores is {self.edge_cores}; the edge server has 1 to {CORES}")
        check_whole("devices", self.devices, 1)
        for name in ("device_edge_mbps", "edge_cloud_mbps"):
            check_positive(name, getattr(self, name))

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

        Seconds of a layer are (FLOPs + `flops_per_byte` x bytes moved) over the tier's FLOPs a
        second. Backward, FLOPs are those of the gradients (the first layer needs none by its input)
        and twice as many bytes move. Samples and features are float32.
        """
        profile, work = profile_model(model), _work(model, self.constants.flops_per_byte)
        near_bps = self.device_edge_mbps * 1e6
        far_bps = self.edge_cloud_mbps * 1e6 / self.devices
        speeds = self.flops_per_s
        return Problem(
            layer_s={tier: work[:, :2] / speeds[tier] for tier in TIERS},
            update_s={tier: work[:, 2] / speeds[tier] for tier in TIERS},
            param_bytes=profile.table["param_bytes"].to_numpy(),
            output_bytes=profile.table["output_bytes"].to_numpy(),
            sample_bytes=SAMPLE_TYPE.itemsize * float(np.prod(profile.input_shape)),
            bandwidth_bps=links_bps(near_bps, far_bps, self.route),
            batch=batch_size,
        )


def capacity(cores: int) -> float:
    """What this number of the edge server's CPUs computes, in cores.

    The paper's NUC has two cores of two hardware threads each; the third and fourth that it counts
    are second threads, which add far less than a core (assumed; Intel names up to 0.3).
    """
    whole, second = STATED["edge"]["cores"], STATED["assumed"]["second_thread"]
    return float(min(cores, whole) + second * max(cores - whole, 0))


@lru_cache(maxsize=128)
def _work(model: str, flops_per_byte: float) -> FloatArray:
    """FLOPs, or what stands for them, of each layer: forward, backward, update. Shape (N, 3)."""
    table, moved = profile_model(model).table, flops_per_byte * moved_bytes(model)
    forward = table["forward_flops"].to_numpy() + moved
    backward = table["backward_flops"].to_numpy() + 2 * moved
    update = (UPDATE_FLOPS / 4 + UPDATE_MOVES * flops_per_byte) * table["param_bytes"].to_numpy()
    work: FloatArray = np.stack([forward, backward, update], axis=1)
    return work


@lru_cache
def paper_testbed() -> Testbed:
    """Return the testbed as the paper states it, with the fitted constants."""
    return Testbed(Constants.load())


def variant(**changed: Any) -> Testbed:
    """Return the paper's testbed with other links, or with another share of the edge."""
    return replace(paper_testbed(), **changed)
