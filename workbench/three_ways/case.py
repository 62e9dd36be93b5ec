"""A training that is predicted, simulated and measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.clusters import Cluster
from workbench.runtime import Run
from workbench.training import RunOptions, train

How = Literal["simulated", "measured", "unpadded"]
Arm = Literal["padded", "unpadded"]
Regime = Literal["computing", "bandwidth", "latency", "contended"]

REGIMES: tuple[Regime, ...] = ("computing", "bandwidth", "latency", "contended")

_OPTIONS: dict[How, RunOptions] = {
    "simulated": RunOptions(trace=True),
    "measured": RunOptions(trace=True, measured=True),
    "unpadded": RunOptions(trace=True, measured="unpadded"),
}


class Outcome(NamedTuple):
    """Seconds of an iteration, weights by node (None where a run has none), and the run."""

    iteration_s: float
    weights: list[NDArray[Any]] | None
    run: Run


class Parts(NamedTuple):
    """What an iteration needs of its busiest node and pair of nodes, one after the other."""

    computing_s: float
    transport_s: float
    overheads_s: float


def whole_run_s(trained: Any) -> float:
    """Seconds of a training: to the end of its run."""
    return float(trained.run.end_s)


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One way of training in one setting.

    Attributes
    ----------
    system, setting, choice
        Package; model, links and whatever else does not vary with the choice, in a line; planner,
        policy or system that is compared with others in this setting.
    setup, how
        What `training.train` takes.
    iterations
        That the training has: of the same kind that `predict` predicts.
    arm
        ``"padded"``: work lasts as long as the model says. ``"unpadded"``: as long as it takes, and
        the setup's seconds are those of a profile taken before.
    predict, predicted_by
        Seconds of an iteration without learning, and what says so.
    ordered
        Whether weights depend on the order in which messages arrive.
    held_out
        Whether no constant of the prediction was fitted on this setting.
    duplex
        Whether a pair of nodes sends both ways at the same time; else one waits for the other.
    seconds
        Of the training, for all iterations.
    """

    system: str
    setting: str
    choice: str
    setup: Any
    how: Any
    iterations: int
    predict: Callable[[], float]
    predicted_by: str = "cost model"
    arm: Arm = "padded"
    ordered: bool = False
    held_out: bool = True
    duplex: bool = False
    seconds: Callable[[Any], float] = field(default=whole_run_s, repr=False)

    @property
    def name(self) -> str:
        """Unique: ``"dynacomm, 20 Mbit/s, ibatch, padded"``."""
        return ", ".join((self.system, self.setting, self.choice, self.arm))

    @cached_property
    def cluster(self) -> Cluster:
        """Nodes and links of the run."""
        found: Cluster = self.setup.programs(self.how).cluster
        return found

    @property
    def nodes(self) -> int:
        """Processes of a measured run."""
        return len(self.cluster)

    @cached_property
    def predicted_s(self) -> float:
        """Seconds of an iteration, predicted."""
        return self.predict()

    @cached_property
    def simulated(self) -> Outcome:
        """The simulated training, kept."""
        return self.run("simulated")

    @property
    def measured_how(self) -> How:
        """How this case is measured."""
        return "measured" if self.arm == "padded" else "unpadded"

    def run(self, how: How) -> Outcome:
        """Train, with a trace; a measured run starts Ray unless a `session` is open."""
        trained = train(self.setup, self.how, _OPTIONS[how])
        weights = getattr(trained, "weights", None)
        parts = weights if isinstance(weights, tuple | list) else (weights,)
        found = None if weights is None else [np.asarray(part) for part in parts]
        return Outcome(self.seconds(trained) / self.iterations, found, trained.run)

    @property
    def spans(self) -> pl.DataFrame:
        """What ran when in the simulated run."""
        assert self.simulated.run.trace is not None
        return self.simulated.run.trace.frame

    @property
    def computing_at_once(self) -> int:
        """Nodes that compute at the same time, where they are most, in the simulated run."""
        work = self.spans.filter(pl.col("kind") == "work", pl.col("end_s") > pl.col("start_s"))
        begins, ends = (
            work.select(pl.col(at).round(9).alias("at_s"), pl.lit(step).alias("step"))
            for at, step in (("start_s", 1), ("end_s", -1))
        )
        changes = pl.concat([begins, ends]).sort("at_s", "step")["step"].cum_sum()
        return max(changes.to_list(), default=0)

    @cached_property
    def parts(self) -> Parts:
        """What an iteration needs, counted in the simulated run."""
        busy_s, transport_s, overheads_s = (defaultdict[Any, float](float) for _ in range(3))
        for node, lane, _, start_s, end_s, size, kind in self.spans.iter_rows():
            target = lane.removeprefix("to ")
            if kind == "work":
                busy_s[node] += end_s - start_s
            elif size:  # requests cost nothing
                pair = (node, target) if self.duplex else tuple(sorted((node, target)))
                link = self.cluster.link(node, target)
                transport_s[pair] += link.transfer_s([size])
                overheads_s[pair] += link.overhead_s
        most = (max(found.values(), default=0.0) for found in (busy_s, transport_s, overheads_s))
        return Parts(*(seconds / self.iterations for seconds in most))

    @property
    def naive_s(self) -> float:
        """The baseline: computing of the busiest node, plus bytes over bandwidth."""
        return self.parts.computing_s + self.parts.transport_s

    @property
    def regime(self) -> Regime:
        """What an iteration needs most of; ``contended`` where links share an interface."""
        if any(node.uplink_bps or node.downlink_bps for node in self.cluster.nodes):
            return "contended"
        most = self.parts.index(max(self.parts))
        return REGIMES[most]
