"""Iterations of methods measured with real processes, beside the same iterations simulated.

Programs run without learning: messages have their sizes, and a node waits for the seconds of its
work. So links, order and waiting are measured, not the speed of this machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.clusters import Cluster
from workbench.comparison.methods.method import Plan
from workbench.comparison.problem import Problem
from workbench.runtime import Run, SimulationError, simulate
from workbench.utils.checks import UserError, check_number

if TYPE_CHECKING:
    from workbench.runtime import Program
    from workbench.runtime.measured import MeasuredRun

AT_MOST_S = 60.0
"""Limit on the seconds of a method; slower ones are not measured."""

LASTING_S = 2.0
"""Seconds that the measured iterations take at least, beside those at the beginning."""

FEWEST, MOST_ITERATIONS = 2, 1000
"""Bounds on the measured iterations."""

MOST_NODES = 32
"""Largest number of nodes, each of which is a process."""

SCHEMA: dict[str, Any] = {
    "method": pl.String,
    "simulated_samples_per_s": pl.Float64,
    "measured_samples_per_s": pl.Float64,
    "iterations": pl.Int64,
    "deadlines": pl.Int64,
    "late": pl.Int64,
    "steal": pl.Float64,
    "reason": pl.String,
}
INTERRUPTED = "interrupted"
DISTURBED = "disturbed: the machine was too busy; measure again"


def measured(
    problem: Problem,
    plans: Mapping[str, Plan | str],
    at_most_s: float = AT_MOST_S,
    say: Callable[[str], object] = lambda line: None,
) -> pl.DataFrame:
    """Measure methods, each for `at_most_s` seconds at most; a row each.

    Rates are those of the same ``iterations``, simulated and measured. ``deadlines`` are ends of
    messages and of computing, of which ``late`` were missed by over 1 ms; ``steal`` is the share of
    the machine's time that others took. ``reason`` says why a method was not measured, or that the
    machine disturbed it.

    Raises UserError: `at_most_s` is out of range; measured runs are not possible here.
    """
    from workbench.runtime.measured.sessions import current_or_new

    if not 0 < check_number("at_most_s", at_most_s) < math.inf:
        raise UserError(f"at_most_s is {at_most_s:g}; give finite seconds above 0")
    rows: dict[str, dict[str, Any]] = {}
    trials = dict[str, Measurement]()
    for name, plan in plans.items():
        try:
            trials[name] = Measurement.of(problem, plan, at_most_s)
            rows[name] = {"reason": INTERRUPTED}
        except UserError as error:
            rows[name] = {"reason": str(error)}
    if trials:
        whole_s = math.ceil(sum(trial.used.seconds for trial in trials.values()))
        count = f"{len(trials)} method{'s' * (len(trials) > 1)}"
        say(f"measuring {count} as real processes: about {whole_s} s, and starting")
        try:
            with current_or_new(max(trial.used.nodes for trial in trials.values()), None):
                for name, trial in trials.items():
                    nodes, seconds = trial.used.nodes, trial.used.seconds
                    say(f"  {name}: {trial.count} iterations on {nodes} nodes, {seconds:.3g} s")
                    rows[name] = trial.measure()
        except KeyboardInterrupt:
            say("interrupted; the others are not measured")
    return pl.DataFrame([{"method": name, **row} for name, row in rows.items()], schema=SCHEMA)


@dataclass(frozen=True)
class Measurement:
    """Iterations of a method to be measured."""

    plan: Plan
    count: int
    samples_per_s: float  # as simulated
    used: Simulated

    @classmethod
    def of(cls, problem: Problem, plan: Plan | str, at_most_s: float) -> Measurement:
        """Choose the number of iterations, by simulating them.

        Raises UserError: the method cannot be measured, or takes too long.
        """
        if isinstance(plan, str):
            raise UserError(plan)
        if not plan.phases:
            raise UserError(
                "it has no programs without learning; train it with RunOptions(measured=True)"
            )
        if (processes := len(plan.phases[0].cluster)) > MOST_NODES:
            raise UserError(
                f"it would take {processes} processes; up to {MOST_NODES} nodes are measured"
            )
        wanted = min(MOST_ITERATIONS, math.ceil(LASTING_S / plan.cost.iteration_s))
        for count in (max(wanted, FEWEST), FEWEST):
            used = Simulated()
            rate = plan.run(used, count).samples_per_s
            if used.seconds <= at_most_s:
                return cls(plan, count, rate, used)
        raise UserError(
            f"{FEWEST} iterations, with those before them, take {used.seconds:,.0f} s, and a "
            f"method may take {at_most_s:g} s (at_most_s)"
        )

    def measure(self) -> dict[str, Any]:
        """Measure the iterations; return a row of the table."""
        runner = Measured(self.used.links)
        try:
            cost = self.plan.run(runner, self.count)
        except (UserError, SimulationError) as error:
            return {"reason": str(error)}
        disturbed = any(run.disturbed for run in runner.runs)
        return runner.late() | {
            "simulated_samples_per_s": self.samples_per_s,
            "measured_samples_per_s": cost.samples_per_s,
            "iterations": self.count,
            "reason": DISTURBED if disturbed else None,
        }


@dataclass
class Simulated:
    """Runner that simulates, and adds up the seconds and links that its runs use."""

    seconds: float = 0.0
    nodes: int = 0  # of the largest run
    links: set[tuple[str, str]] = field(default_factory=set)

    def __call__(
        self, cluster: Cluster, programs: Sequence[Program], /, *, trace: bool = False
    ) -> Run:
        """Simulate a run; see `Runner`."""
        run = simulate(cluster, programs, trace=trace)
        self.seconds += run.end_s
        self.nodes = max(self.nodes, len(cluster))
        self.links |= {(link.source, link.target) for link in run.links if link.messages}
        return run


@dataclass
class Measured:
    """Runner that measures, with a connection for each link in use."""

    links: set[tuple[str, str]]
    runs: list[MeasuredRun] = field(default_factory=list)

    def __call__(
        self, cluster: Cluster, programs: Sequence[Program], /, *, trace: bool = False
    ) -> Run:
        """Measure a run; see `Runner`."""
        from workbench.runtime.measured import measure

        run = measure(over(cluster, self.links), programs, trace=trace)
        if run.interrupted:
            raise KeyboardInterrupt
        self.runs.append(run)
        return run

    def late(self) -> dict[str, Any]:
        """Columns ``deadlines, late, steal`` over all runs."""
        late = pl.concat(run.late for run in self.runs).filter(pl.col("kind") != "work")
        return {
            "deadlines": late["count"].sum(),
            "late": late["late"].sum(),
            "steal": max(run.steal for run in self.runs),
        }


def over(cluster: Cluster, used: Collection[tuple[str, str]]) -> Cluster:
    """The cluster with only these links, given by the names of their ends."""
    names = cluster.names
    links = {(a, b): link for (a, b), link in cluster.links.items() if (names[a], names[b]) in used}
    return replace(cluster, links=links)
