"""The paper's testbed: its stated facts, and the constants that it leaves open.

Containers stand for nodes (Zhao et al., Sec. VII); neither their speed nor the unit of the delay
factor p is stated. An operator is taken to cost its arithmetic, a fixed time whatever its size, and
maybe a time for each number that it makes; a move of a scan takes a dispatch. `calibration` fits
these on Fig. 9, whose times are percentages of each other: they are known up to one factor, which
the assumed delay (``data/testbeds/olpb.toml``) stands for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import polars as pl

from workbench.clusters import load_constants, load_testbed
from workbench.olpb.algorithms.schedules import ALGORITHMS
from workbench.olpb.costs.backward import (
    MOVES,
    UNITS,
    Group,
    as_paper_counts,
    decoupled_s,
    plan,
)
from workbench.olpb.costs.stored_passes import stored_groups
from workbench.olpb.costs.subtasks import Node, Pool
from workbench.olpb.costs.timing import DRAWS, Timing, scan_timing
from workbench.reproduction.claims import claims_of
from workbench.utils.checks import UserError, check_name, check_number, check_whole

EXPLANATION = "once"
"""Of those in `workbench.olpb.paper.calibration` that meet all of Fig. 9, the simplest."""

STATED = load_testbed("olpb")
MODELS: dict[str, str] = STATED["models"]
NODES: int = STATED["network"]["nodes"]
SWEPT_NODES: tuple[int, ...] = tuple(STATED["network"]["swept_nodes"])
DPB_MODULES: int = STATED["network"]["dpb_modules"]
BATCH_SIZE: int = STATED["assumed"]["batch_size"]
DELAY_FACTOR: float = STATED["assumed"]["delay_factor"]
DELAY_FACTORS: tuple[float, ...] = tuple(STATED["assumed"]["delay_factors"])


def stated_fig11_ms() -> tuple[float, float]:
    """Milliseconds of OLPB on SqueezeNet at the ends of Fig. 11, from the text of its claim."""
    low, high = re.findall(r"[\d.]+", claims_of("olpb")["olpb.fig11.olpb"].metric.split("(")[1])
    return float(low), float(high)


METHODS = {"olpb_l2": 2, "olpb_l3": 3, "bppsa": 1, "dpb": 1}
"""Levels in a subtask, by method."""


@dataclass(frozen=True)
class Constants:
    """What the paper does not state about its nodes."""

    node_gflops: float
    operator_ms: float  # of each operator, whatever its size
    dispatch_ms: float  # of each move of a scan
    number_ns: float  # of each number that an operator makes, on top of its arithmetic

    @classmethod
    def load(cls, explanation: str = EXPLANATION) -> Constants:
        """Read constants that were fitted for an explanation; see `load_constants`."""
        return cls(**load_constants("olpb", explanation))


@dataclass(frozen=True)
class Testbed:
    """The paper's nodes, with any number, delay factor, batch size and scan.

    The last three are what is open about how the paper's times come about.
    """

    __test__ = False  # pytest: not a test case, whatever the name

    constants: Constants
    nodes: int = NODES
    delay_factor: float = DELAY_FACTOR
    batch_size: int = BATCH_SIZE
    scan: str = "hillis_steele"
    moves: str = "once"  # what a move costs, a name in `MOVES`
    layers: str = "matrix_layer"  # what a layer of BPPSA is, a name in `UNITS`
    in_step: bool = False  # whether nodes wait for each other after every step of a scan

    def __post_init__(self) -> None:
        check_whole("nodes", self.nodes, 1)
        check_whole("batch_size", self.batch_size, 1)
        if check_number("delay_factor", self.delay_factor) < 0:
            raise UserError(f"delay_factor is {self.delay_factor}; it must be 0 or more")
        check_name("scan", self.scan, ALGORITHMS)
        check_name("cost of a move", self.moves, MOVES)
        check_name("unit", self.layers, UNITS)

    def pool(self, nodes: int | None = None) -> Pool:
        """Its nodes, or another number of them."""
        node = Node(1e9 * self.constants.node_gflops)
        delay_s = 1e-3 * STATED["assumed"]["delay_unit_ms"] * self.delay_factor
        return Pool((node,) * (nodes or self.nodes), 1e-3 * self.constants.dispatch_ms, delay_s)

    def subtasks(
        self, model: str | Any, method: str, level: int | None = None
    ) -> tuple[Group, ...]:
        """Elements of a method's scan, of another level if given; or DPB cuts them into modules."""
        check_name("method", method, METHODS)
        unit = self.layers if method == "bppsa" else "operator"
        flops_per_s = 1e9 * self.constants.node_gflops
        return stored_groups(
            model,
            self.batch_size,
            unit,
            METHODS[method] if level is None else level,
            operator_flops=1e-3 * self.constants.operator_ms * flops_per_s,
            number_flops=1e-9 * self.constants.number_ns * flops_per_s,
        )

    def timing(
        self, model: str | Any, method: str, draws: int = DRAWS, level: int | None = None
    ) -> Timing:
        """Time a backward pass by a scan, with random delays."""
        elements = self.subtasks(model, method, level)
        planned = plan(len(elements), self.nodes, self.scan)
        work = as_paper_counts(planned, elements, self.moves)
        return scan_timing(
            planned, work, self.pool(), random=True, draws=draws, in_step=self.in_step
        )

    def backward_s(self, model: str | Any, method: str) -> float:
        """Seconds of a backward pass, the mean over drawn delays; of DPB, with the mean delay."""
        if method == "dpb":
            return decoupled_s(self.subtasks(model, method), self.pool(DPB_MODULES), DPB_MODULES)
        return self.timing(model, method).seconds


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
    testbed: Testbed, model: str, methods: Iterable[str] = METHODS, draws: int = DRAWS
) -> list[dict[str, Any]]:
    """Seconds of a backward pass by method, a row each: see `TIMES`.

    ``elements`` of the scan, ``steps`` and ``work`` of it are null for DPB, which has none.
    """
    setting = {name: getattr(testbed, name) for name in list(TIMES)[1:5]}
    rows = []
    for method in methods:
        scan: dict[str, Any] = dict.fromkeys(("elements", "steps", "work"))
        if method == "dpb":
            scan["backward_s"] = testbed.backward_s(model, method)
        else:
            timing = testbed.timing(model, method, draws)
            elements = len(testbed.subtasks(model, method))
            scan = {"elements": elements, "steps": timing.steps, "work": timing.work}
            scan["backward_s"] = timing.seconds
        rows.append({"model": model, **setting, "method": method, **scan})
    return rows
