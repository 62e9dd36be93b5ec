"""The paper's testbed: its stated facts, and the constants that it leaves open.

Containers stand for nodes (Zhao et al., Sec. VII); neither their speed nor the unit of the delay
factor p is stated. An operator is taken to cost its arithmetic and a fixed time whatever its size,
a move of a scan a dispatch. `calibration` fits these three.

Where there are more subtasks than nodes, they "are executed in batches" (Sec. IV): each node
computes the derivatives of its group, which the scan then combines (Alg. 2, from s[1] on). Another
reading, runs of groups that begin with the gradient of the loss, meets fewer of the paper's
statements (``docs/explanation/missed.md``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import polars as pl

from workbench.clusters import load_constants, load_testbed
from workbench.olpb.algorithms.scans import SCANS
from workbench.olpb.algorithms.schedules import Schedule
from workbench.olpb.costs.backward import (
    as_paper_counts,
    decoupled_s,
    plan_batches,
)
from workbench.olpb.costs.stored_passes import stored_groups
from workbench.olpb.costs.subtasks import Node, Pool, Subtask
from workbench.olpb.costs.timing import DRAWS, Timing, Work, scan_timing
from workbench.utils.checks import UserError, check_name, check_number, check_whole

STATED = load_testbed("olpb")
MODELS: dict[str, str] = STATED["models"]
NODES: int = STATED["network"]["nodes"]
SWEPT_NODES: tuple[int, ...] = tuple(STATED["network"]["swept_nodes"])
DPB_MODULES: int = STATED["network"]["dpb_modules"]
BATCH_SIZE: int = STATED["assumed"]["batch_size"]
DELAY_FACTOR: float = STATED["assumed"]["delay_factor"]
DELAY_FACTORS: tuple[float, ...] = tuple(STATED["assumed"]["delay_factors"])


class Curve(NamedTuple):
    """A line of Figs. 9 to 12: a name in `workbench.olpb.METHODS`, and levels in a group."""

    method: str
    levels: int = 1


CURVES = {
    **{f"olpb_l{levels}": Curve("olpb", levels) for levels in STATED["network"]["levels"]},
    "bppsa": Curve("bppsa"),
    "dpb": Curve("dpb"),
}


@dataclass(frozen=True)
class Constants:
    """Constants of the nodes that the paper does not state."""

    node_gflops: float
    operator_ms: float  # of each operator, whatever its size
    dispatch_ms: float  # of each move of a scan

    @classmethod
    def load(cls) -> Constants:
        """Read the constants that were fitted."""
        return cls(**load_constants("olpb", "batches"))


@dataclass(frozen=True)
class Testbed:
    """The paper's nodes, with any number, delay factor, batch size and scan."""

    __test__ = False  # pytest: not a test case, whatever the name

    constants: Constants
    nodes: int = NODES
    delay_factor: float = DELAY_FACTOR
    batch_size: int = BATCH_SIZE
    scan: str = "hillis_steele"

    def __post_init__(self) -> None:
        check_whole("nodes", self.nodes, 1)
        check_whole("batch_size", self.batch_size, 1)
        if check_number("delay_factor", self.delay_factor) < 0:
            raise UserError(f"delay_factor is {self.delay_factor}; it must be 0 or more")
        check_name("scan", self.scan, SCANS)

    def pool(self, nodes: int | None = None) -> Pool:
        """Its nodes, or another number of them."""
        node = Node(1e9 * self.constants.node_gflops)
        delay_s = 1e-3 * STATED["assumed"]["delay_unit_ms"] * self.delay_factor
        return Pool((node,) * (nodes or self.nodes), 1e-3 * self.constants.dispatch_ms, delay_s)

    def subtasks(
        self, model: str | Any, curve: str, levels: int | None = None
    ) -> tuple[Subtask, ...]:
        """The loss and a curve's groups, of other levels if given; DPB cuts operators."""
        method, own_levels = CURVES[check_name("method", curve, CURVES)]
        flops_per_s = 1e9 * self.constants.node_gflops
        return stored_groups(
            model,
            self.batch_size,
            "layer" if method == "bppsa" else "operator",
            own_levels if levels is None else levels,
            operator_flops=1e-3 * self.constants.operator_ms * flops_per_s,
        )

    def scan_work(
        self, model: str | Any, curve: str, levels: int | None = None
    ) -> tuple[Schedule, Work]:
        """The scan of a curve's groups in batches, and what it costs."""
        groups = self.subtasks(model, curve, levels)[1:]
        planned = plan_batches(len(groups), self.nodes, self.scan)
        return planned, as_paper_counts(planned, groups, local_first=True)

    def timing(
        self, model: str | Any, curve: str, draws: int = DRAWS, levels: int | None = None
    ) -> Timing:
        """Time a backward pass by a scan, with random delays."""
        planned, work = self.scan_work(model, curve, levels)
        return scan_timing(planned, work, self.pool(), random=True, draws=draws)

    def backward_s(self, model: str | Any, curve: str) -> float:
        """Seconds of a backward pass, the mean over drawn delays; of DPB, with the mean delay."""
        if curve == "dpb":
            return decoupled_s(self.subtasks(model, curve), self.pool(DPB_MODULES), DPB_MODULES)
        return self.timing(model, curve).seconds


@lru_cache
def paper_testbed() -> Testbed:
    """Return the testbed as the paper states it, with the fitted constants."""
    return Testbed(Constants.load())


def variant(**options: Any) -> Testbed:
    """Return the paper's testbed with other nodes, delay factor, batch size or scan."""
    return replace(paper_testbed(), **options)


TIMES: dict[str, Any] = {
    "model": pl.String,
    "nodes": pl.Int64,
    "delay_factor": pl.Float64,
    "batch_size": pl.Int64,
    **dict.fromkeys(("scan", "method"), pl.String),
    **dict.fromkeys(("elements", "steps", "work"), pl.Int64),
    "backward_s": pl.Float64,
}


def times(
    testbed: Testbed, model: str, curves: Iterable[str] = CURVES, draws: int = DRAWS
) -> list[dict[str, Any]]:
    """Seconds of a backward pass by curve, a row each: see `TIMES`.

    ``elements`` of the scan, ``steps`` and ``work`` of it are null for DPB, which has none.
    """
    return [
        {
            "model": model,
            "nodes": testbed.nodes,
            "delay_factor": testbed.delay_factor,
            "batch_size": testbed.batch_size,
            "scan": testbed.scan,
            "method": curve,
            **_scanned(testbed, model, curve, draws),
        }
        for curve in curves
    ]


def _scanned(testbed: Testbed, model: str, curve: str, draws: int) -> dict[str, Any]:
    if curve == "dpb":
        return {"backward_s": testbed.backward_s(model, curve)}
    planned, _ = testbed.scan_work(model, curve)
    seconds = testbed.timing(model, curve, draws).seconds
    return {
        "elements": planned.elements,
        "steps": planned.steps,
        "work": planned.work,
        "backward_s": seconds,
    }
