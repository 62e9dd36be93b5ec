"""One case measured here and now, in a setting of the user's, with both clocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import polars as pl

from workbench.reproduction.parameters import Parameter, Parameters
from workbench.three_ways import dlion, dynacomm, gossip, hiertrain
from workbench.three_ways.case import Case
from workbench.three_ways.charts import TITLES, draw_clocks
from workbench.three_ways.errors import WAYS
from workbench.three_ways.recording import described, priority, row

SHOWN_ITERATIONS = 2
MOST_WORKERS = 5

LIVE: dict[str, Callable[[Setting], Case]] = {
    "dynacomm": lambda asked: dynacomm.case(
        "dynacomm",
        asked.bandwidth_mbps,
        batch_size=asked.batch_size,
        workers=asked.workers,
        seed=asked.seed,
    ),
    "hiertrain": lambda asked: hiertrain.case(
        "hiertrain", asked.bandwidth_mbps, batch_size=asked.batch_size, seed=asked.seed
    ),
    "gossip": lambda asked: gossip.case(
        asked.bandwidth_mbps, max(3, asked.workers), batch_size=asked.batch_size, seed=asked.seed
    ),
    "dlion": lambda asked: dlion.case(
        "dlion",
        asked.bandwidth_mbps,
        local_batch=asked.batch_size,
        workers=asked.workers,
        seed=asked.seed,
    ),
}
"""System -> its case; HierTrain has three tiers whatever the workers, and a ring at least three."""


@dataclass(frozen=True, kw_only=True)
class Setting(Parameters):
    """What is measured live."""

    live: Annotated[str, Parameter("which system is measured here", options=lambda: LIVE)] = (
        "dynacomm"
    )
    seed: int = 1
    bandwidth_mbps: Annotated[float, Parameter("of a link", "Mbit/s", low=1, high=500)] = 20.0
    batch_size: Annotated[int, Parameter("of one worker", "samples", low=1, high=64)] = 16
    workers: Annotated[int, Parameter("that train together", low=2, high=MOST_WORKERS)] = 2

    @property
    def case(self) -> Case:
        """The case of this setting."""
        return LIVE[self.live](self)


@dataclass(frozen=True)
class Live:
    """A case and what one measured run of it said.

    Attributes
    ----------
    frame
        A row, as `recording.runs` has it.
    clocks
        Both clocks, of the first iterations.
    """

    case: Case
    frame: pl.DataFrame
    clocks: dict[str, Any]

    def __str__(self) -> str:
        found = self.frame.row(0, named=True)
        measured_s = found["measured_s"]
        lines = [f"{self.case.name}: {1e3 * measured_s:.1f} ms an iteration, on one machine"]
        lines += [
            f"{way} {1e3 * found[column]:.1f} ms ({100 * (found[column] / measured_s - 1):+.1f} %)"
            for way, column in WAYS.items()
        ]
        late = f"{found['late']} of {found['deadlines']} deadlines late, {found['late_s']:.3f} s"
        rule = "void: the machine was disturbed" if found["void"] else "counts"
        same = "weights of the simulation" if found["same_weights"] else "other weights"
        return "\n".join([*lines, f"{late}; steal {found['steal']:.1%}; the run {rule}; {same}"])


def measure(setting: Setting) -> Live:
    """Measure the setting's case once; it takes some seconds."""
    case = setting.case
    measured = case.run(case.measured_how)
    about = described(case) | {"priority": priority()} | row(case, measured)
    simulated, real = case.simulated.run.trace, measured.run.trace
    assert simulated is not None
    assert real is not None
    until_s = SHOWN_ITERATIONS * max(case.simulated.iteration_s, measured.iteration_s)
    title = [f"{TITLES[case.system]}, {case.setting}, {case.choice}: both clocks, on one machine"]
    clocks = draw_clocks(simulated, real, title, until_s)
    return Live(case, pl.DataFrame([about]), clocks)
