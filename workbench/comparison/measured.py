"""The best ways as real processes, beside what is predicted and simulated of them.

Their programs run without learning: messages have the size that they would have, and a node
computes by waiting for as long as it would, so that what is measured are links, order and waiting,
not the speed of this machine. Nodes reach each other as `Question.routed` says: interfaces are
shared, a link inside the network carries each message as if alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.clusters import Cluster
from workbench.comparison.question import Pair, Question
from workbench.comparison.use import Use, carried
from workbench.comparison.ways.way import EQUAL, Option
from workbench.runtime import Run, SimulationError, simulate
from workbench.utils.checks import UserError, check_number

if TYPE_CHECKING:
    from workbench.runtime import Program
    from workbench.runtime.measured import MeasuredRun

AT_MOST_S = 60.0
"""Ways that take longer are not measured."""

LASTING_S = 2.0
"""Enough iterations are measured to take that long, beside those at the beginning."""

MOST_ITERATIONS = 1000
FEWEST = 2
"""Iterations at least."""

SYSTEMS = 3
"""Systems whose fastest way that equals SGD is measured."""

MOST_NODES = 32
"""Each is a process."""

SETS_PACE = 0.99
"""Share of an iteration from which on a link that is busy sets the pace."""

SCHEMA: dict[str, Any] = {
    "way": pl.String,
    "simulated_samples_per_s": pl.Float64,
    "measured_samples_per_s": pl.Float64,
    "measured_iterations": pl.Int64,
    "deadlines": pl.Int64,
    "late": pl.Int64,
    "steal": pl.Float64,
    "measured_note": pl.String,
}
INTERRUPTED = "interrupted"
DISTURBED = "disturbed: the machine was too busy; measure again"


@dataclass(frozen=True)
class Measuring:
    """Which ways to measure, by default the best, and for how many seconds each at most."""

    ways: Collection[str] = ()
    at_most_s: float = AT_MOST_S
    say: Callable[[str], object] = lambda line: None

    def __post_init__(self) -> None:
        at_most_s = check_number("measure_at_most_s", self.at_most_s)
        if not 0 < at_most_s < math.inf:
            raise UserError(f"measure_at_most_s is {at_most_s:g}; give finite seconds above 0")


def measured(
    question: Question, frame: pl.DataFrame, options: Mapping[str, Option], measuring: Measuring
) -> pl.DataFrame:
    """Measure ways of a table whose options are given: a row each, as `SCHEMA` has it.

    Rates are those of the same iterations, simulated and measured, so that they can be compared.
    ``late`` of all ``deadlines`` were missed by over 1 ms; ``steal`` is the share of the machine's
    time that others took. What could not be measured has no rate, and its reason as a note; where
    the machine disturbed a run (`MeasuredRun.disturbed`), a note stands beside the rate.
    """
    from workbench.runtime.measured.sessions import current_or_new

    names = measuring.ways or best(frame, options)
    rows: dict[str, dict[str, Any]] = {}
    trials = dict[str, Trial]()
    for name in names:
        try:
            trials[name] = Trial.of(question, options.get(name), measuring.at_most_s)
            rows[name] = {"measured_note": trials[name].note}
        except UserError as error:
            rows[name] = {"measured_note": str(error)}
    say, left = measuring.say, [*trials]
    if trials:
        plans = [trial.plan for trial in trials.values()]
        whole_s = math.ceil(sum(plan.seconds for plan in plans))
        say(f"measuring {len(trials)} ways as real processes: about {whole_s} s, and starting")
        try:
            with current_or_new(max(plan.nodes for plan in plans), None):
                for name, trial in trials.items():
                    nodes, seconds = trial.plan.nodes, trial.plan.seconds
                    say(f"  {name}: {trial.count} iterations on {nodes} nodes, {seconds:.3g} s")
                    rows[name] |= trial.measure()
                    left.remove(name)
        except KeyboardInterrupt:
            rows |= {name: {"measured_note": INTERRUPTED} for name in left}
    return pl.DataFrame([{"way": name, **row} for name, row in rows.items()], schema=SCHEMA)


def best(frame: pl.DataFrame, options: Mapping[str, Option]) -> list[str]:
    """The fastest of each of the first systems that equal SGD, and the fastest other way.

    Of those that fit in memory and have programs that run without learning.
    """
    dry = [name for name, option in options.items() if option.dry is not None]
    usable = frame.filter(pl.col("way").is_in(dry) & pl.col("fits").fill_null(True))
    exact = (pl.col("update") == EQUAL) & (pl.col("samples_share") == 1)
    first = usable.filter(exact).unique("system", keep="first", maintain_order=True)
    others = usable.filter(pl.col("update") != EQUAL)
    return [*first["way"].head(SYSTEMS), *others["way"].head(1)]


@dataclass(frozen=True)
class Trial:
    """Iterations of a way that are to be measured."""

    option: Option
    count: int
    simulated: Use
    plan: _Plan
    note: str

    @classmethod
    def of(cls, question: Question, option: Option | None, at_most_s: float) -> Trial:
        """Choose how many iterations, by simulating them.

        Raises UserError: they cannot be measured, or take too long.
        """
        if option is None:
            raise UserError("it cannot be used here")
        if option.dry is None:
            raise UserError(
                "it has no programs without learning; train it with RunOptions(measured=True)"
            )
        if (processes := len(option.dry.cluster)) > MOST_NODES:
            raise UserError(
                f"it would take {processes} processes; up to {MOST_NODES} nodes are measured"
            )
        alone = _shared_inside(question, option)
        names = question.cluster.names
        links = [f"{names[a]} to {names[b]}" for a, b in alone]
        if any(share >= SETS_PACE for share in alone.values()):
            raise UserError(
                f"the link {links[0]}, inside the network, sets the pace, and a measured run lets "
                "each message pass it as if alone"
            )
        fewest = max(FEWEST, option.fewest)
        wanted = min(MOST_ITERATIONS, math.ceil(LASTING_S / option.use.iteration_s))
        for count in (max(wanted, fewest), fewest):
            plan = _Plan()
            simulated = option.run(plan, count)
            if plan.seconds <= at_most_s:
                note = f"as if alone on the link {' and '.join(links)}" if links else ""
                return cls(option, count, simulated, plan, note)
        raise UserError(
            f"{fewest} iterations, with those before them, take {plan.seconds:,.0f} s, and a way "
            f"may take {at_most_s:g} s (measure_at_most_s)"
        )

    def measure(self) -> dict[str, Any]:
        """What a table has of it."""
        carrier = Measured(self.plan.used)
        try:
            use = self.option.run(carrier, self.count)
        except (UserError, SimulationError) as error:
            return {"measured_note": str(error)}
        disturbed = any(run.disturbed for run in carrier.runs)
        notes = [self.note, DISTURBED if disturbed else ""]
        return carrier.late() | {
            "simulated_samples_per_s": self.simulated.samples_per_s,
            "measured_samples_per_s": use.samples_per_s,
            "measured_iterations": self.count,
            "measured_note": "; ".join(filter(None, notes)),
        }


@dataclass
class _Plan:
    """Simulates runs, and notes how long all take and which links they use."""

    seconds: float = 0.0
    nodes: int = 0  # of the largest
    used: set[tuple[str, str]] = field(default_factory=set)

    def __call__(
        self, cluster: Cluster, programs: Sequence[Program], /, *, trace: bool = False
    ) -> Run:
        run = simulate(cluster, programs, trace=trace)
        self.seconds += run.end_s
        self.nodes = max(self.nodes, len(cluster))
        self.used |= {(use.source, use.target) for use in run.links if use.messages}
        return run


@dataclass
class Measured:
    """Measures runs, over the links that they use: each is a connection."""

    used: set[tuple[str, str]]
    runs: list[MeasuredRun] = field(default_factory=list)

    def __call__(
        self, cluster: Cluster, programs: Sequence[Program], /, *, trace: bool = False
    ) -> Run:
        """Measure a run; see `Runner`."""
        from workbench.runtime.measured import measure

        run = measure(over(cluster, self.used), programs, trace=trace)
        if run.interrupted:
            raise KeyboardInterrupt
        self.runs.append(run)
        return run

    def late(self) -> dict[str, Any]:
        """How many deadlines were late, and the largest share of time that others took."""
        late = pl.concat(run.late for run in self.runs).filter(pl.col("kind") != "work")
        return {
            "deadlines": late["count"].sum(),
            "late": late["late"].sum(),
            "steal": max(run.steal for run in self.runs),
        }


def over(cluster: Cluster, used: Collection[tuple[str, str]]) -> Cluster:
    """The cluster with these links alone, by the names of their ends."""
    names = cluster.names
    links = {(a, b): link for (a, b), link in cluster.links.items() if (names[a], names[b]) in used}
    return replace(cluster, links=links)


def _shared_inside(question: Question, option: Option) -> dict[Pair, float]:
    """Links inside the network that several pairs use -> share of an iteration that they are busy.

    A node's only link is its interface, which is shared.
    """
    use = option.first or option.use
    users = Counter(hop for pair in use.link_bytes for hop in pairwise(question.paths[pair]))
    out, into = (Counter(hop[end] for hop in question.cluster.links) for end in (0, 1))
    return {
        hop: seconds / use.iteration_s
        for hop, (_, seconds) in carried(question, use).items()
        if users[hop] > 1 and out[hop[0]] > 1 and into[hop[1]] > 1
    }
