"""OLPB: backward passes by a scan on four nodes and the server, without learning.

A message's delay, and the time of its bytes where nodes have a bandwidth, are kept by its receiver,
as the paper's nodes do; its bytes are real. Nodes compute nothing for as long as a move costs, so
there is no unpadded arm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.olpb.algorithms.assignment import assign
from workbench.olpb.algorithms.schedules import ALGORITHMS, Schedule, schedule
from workbench.olpb.costs.arithmetic import as_arithmetic_costs, network_elements
from workbench.olpb.costs.backward import as_paper_counts, subtasks
from workbench.olpb.costs.subtasks import Node, Pool
from workbench.olpb.costs.timing import Work, scan_timing
from workbench.olpb.programs.cluster import cluster_of
from workbench.olpb.programs.scan import BackwardPasses
from workbench.runtime import Fault, Run
from workbench.three_ways.case import Case
from workbench.training import Programs, Standing, Trained

if TYPE_CHECKING:
    from workbench.runtime.measured.home import Home

NODES, LEVEL, BATCH_SIZE, ITERATIONS = 4, 2, 10, 2
DISPATCH_S, DELAY_S = 0.001, 0.02
SEQUENTIAL_S = 1.2
"""Of a backward pass on one node, by which its speed is set."""
BY_ARITHMETIC = "lenet5"
FLOPS_PER_S, BANDWIDTH_BPS = 3e7, 20e6
ANSWER_S = 5.0


@dataclass(frozen=True, eq=False)
class Scan:
    """Backward passes by a scan, to be run as a training is."""

    passes: BackwardPasses
    seed: int = 0

    def check_faults(self, faults: Sequence[Fault], how: object) -> None:
        """Take any."""

    def programs(self, how: object = None) -> Scanning:
        """Programs of nodes and server."""
        passes = replace(self.passes)  # that are not over
        return Scanning(self, cluster_of(passes.pool), passes.programs)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Scanning(Programs["Trained[None]"]):
    """Programs that learn nothing."""

    @property
    def home(self) -> Home:
        """Nothing comes back but what the server returns."""
        from workbench.runtime.measured.home import Home

        return Home()

    def standing(self) -> Standing:
        """No progress is shown."""
        return Standing(0, 0, 0)

    def trained(self, run: Run) -> Trained[None]:
        """The run."""
        return Trained(pl.DataFrame(), None, run)


def cases() -> Iterator[Case]:
    """Scans of two networks as the paper counts, and of LeNet-5 by arithmetic."""
    for model in ("cifarnet", "squeezenet"):
        yield as_counted(model)
    for scan in ALGORITHMS:
        yield by_arithmetic(scan)


def as_counted(model: str, scan: str = "hillis_steele", *, delay_s: float = DELAY_S) -> Case:
    """A scan of a model as the paper counts: gradients each once, messages a delay."""
    elements = subtasks(model, BATCH_SIZE, level=LEVEL)
    flops_per_s = sum(element.backward_flops for element in elements) / SEQUENTIAL_S
    pool = Pool((Node(flops_per_s),) * NODES, DISPATCH_S, delay_s)
    costs = partial(as_paper_counts, elements=elements, moves="once")
    passes = BackwardPasses(elements, pool, ITERATIONS, scan=scan, costs=costs, answer_s=ANSWER_S)
    return _case(f"{model}, {NODES} nodes, {delay_s * 1e3:g} ms", scan, passes, costs)


def by_arithmetic(scan: str, *, bandwidth_bps: float = BANDWIDTH_BPS) -> Case:
    """A scan of Jacobians, sparse as they are, with their bytes."""
    elements = subtasks(BY_ARITHMETIC)
    jacobians = network_elements(BY_ARITHMETIC)
    pool = Pool((Node(FLOPS_PER_S, None, bandwidth_bps),) * NODES, DISPATCH_S, DELAY_S)
    costs = partial(as_arithmetic_costs, elements=jacobians)
    passes = BackwardPasses(
        elements[: len(jacobians)], pool, ITERATIONS, scan=scan, costs=costs, answer_s=ANSWER_S
    )
    setting = f"{BY_ARITHMETIC} by arithmetic, {NODES} nodes, {bandwidth_bps / 1e6:g} Mbit/s"
    return _case(setting, scan, passes, costs)


def _case(
    setting: str, scan: str, passes: BackwardPasses, costs: Callable[[Schedule], Work]
) -> Case:
    return Case(
        system="olpb",
        setting=setting,
        choice=scan,
        setup=Scan(passes),
        how=None,
        iterations=passes.iterations,
        predict=partial(predicted_s, passes, costs),
        predicted_by="longest path",
        seconds=backward_s,
    )


def predicted_s(passes: BackwardPasses, costs: Callable[[Schedule], Work]) -> float:
    """Seconds of a backward pass: the longest path through its moves and messages."""
    elements, pool = passes.subtasks, passes.pool
    planned = schedule(passes.scan, len(elements), assign(elements, pool), exclusive=True)
    return scan_timing(planned, costs(planned), pool).seconds


def backward_s(trained: Any) -> float:
    """Seconds of all backward passes, as the server saw them."""
    *_, (_, passes) = sorted(trained.run.results.items())
    return float(sum(done.backward_s for done in passes))
