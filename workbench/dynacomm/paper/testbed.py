"""The paper's testbed: its stated facts, and the constants that it leaves open.

Eight workers pull from and push to four parameter servers (Cai et al. 2021, V-A). What the paper
leaves open is the same for every model, batch size, bandwidth and number of workers;
`workbench.dynacomm.paper.calibration` fits it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import polars as pl

from workbench.clusters import Cluster, Link, Node, load_constants, load_testbed, star
from workbench.dynacomm.costs import Iteration, LayerCosts, Plan, iteration, layer_costs
from workbench.dynacomm.programs import Job
from workbench.profiles import LayerTimes, ModelProfile, profile_model
from workbench.runtime import Run
from workbench.utils.checks import UserError

_STATED = load_testbed("dynacomm")

BANDWIDTH_MBPS: float = _STATED["servers"]["bandwidth_mbps"]
"""Rate of the servers' interfaces in the paper's own setting."""

WORKERS: int = _STATED["workers"]["count"]
"""Workers in the paper's own setting."""

MODELS: tuple[str, ...] = tuple(_STATED["samples_per_s_off"])
"""Models of Table II, with their stated speed."""

SPLIT_BYTES = 4_000_000
"""MXNet 1.6 splits tensors of a million elements and more over all servers (its default)."""


@dataclass(frozen=True)
class Constants:
    """What the paper does not state about its testbed."""

    link_efficiency: float  # bandwidth of a transfer over its fair part of the interfaces' rate
    overhead_ms: float  # Δt, of each transmission
    backward_over_forward: float  # computation time
    # Of the bandwidth, for a tensor that lies on one server; larger ones are split over all. One
    # server's stream instead of four would give a quarter, if tensors did not overlap.
    whole_share: float
    aggregation_mbps: float = math.inf  # at which a server sums the workers' gradients

    @classmethod
    def load(cls) -> Constants:
        """Read the fitted constants; see `load_constants`."""
        return cls(**load_constants("dynacomm", "key_granularity"))


@dataclass(frozen=True)
class Testbed:
    """Workers and servers of the paper, with any bandwidth and number of workers.

    All workers transfer at the same time. Each gets a fair share of the servers' joint bandwidth,
    but no more than its own interface carries, which is taken to be as fast as a server's.
    """

    __test__ = False  # pytest: not a test case, whatever the name

    samples_per_s: dict[str, float]
    constants: Constants
    workers: int
    servers: int
    bandwidth_mbps: float

    def __post_init__(self) -> None:
        for name in ("workers", "servers"):
            if not getattr(self, name) >= 1:
                raise UserError(f"{name} is {getattr(self, name)}; at least 1 is needed")

    @property
    def link(self) -> Link:
        """What one worker gets while all of them transfer."""
        share = min(1.0, self.servers / self.workers)
        return Link(
            bandwidth_bps=self.bandwidth_mbps * 1e6 * share * self.constants.link_efficiency,
            overhead_s=self.constants.overhead_ms / 1e3,
            split_bytes=SPLIT_BYTES,
            whole_share=self.constants.whole_share,
        )

    def speed(self, model: str) -> float:
        """Samples a second of one worker without a network (Table II).

        Models without a stated speed run at the geometric mean of the others' FLOP rates.
        """
        if model in self.samples_per_s:
            return self.samples_per_s[model]
        rates = [profile_model(m).forward_flops * s for m, s in self.samples_per_s.items()]
        return statistics.geometric_mean(rates) / profile_model(model).forward_flops

    def times(self, model: str, batch_size: int) -> LayerTimes:
        """Computation per layer: `speed`, spread in proportion to FLOPs."""
        profile, ratio = profile_model(model), self.constants.backward_over_forward
        return LayerTimes.from_flops(
            profile,
            flops_per_s=profile.forward_flops * self.speed(model) * (1 + ratio),
            batch_size=batch_size,
            backward_over_forward=ratio,
        )

    def costs(self, model: str, batch_size: int) -> LayerCosts:
        """What the planners plan with, for a model of the zoo."""
        return layer_costs(profile_model(model), self.times(model, batch_size), self.link)

    def aggregation_s(self, profile: ModelProfile) -> float:
        """Seconds in which the servers sum all workers' gradients while the workers wait."""
        return (
            self.workers * profile.param_bytes * 8
            / (self.servers * self.constants.aggregation_mbps * 1e6)
        )  # fmt: skip

    def speedup(self, model: str, batch_size: int, plan: Plan) -> float:
        """Samples a second of all workers over those of one worker without a network (Fig. 11).

        Deviation: "single worker training speed" is read as Table II's local speed, which agrees
        best with Figs. 5 and 6. Those leave no room for a speed-up as low as the paper's, so a
        worker must also wait between its last push and its next pull: for the servers' aggregation.
        """
        alone_s = batch_size / self.speed(model)
        done = iteration(self.costs(model, batch_size), plan)
        return self.workers * alone_s / (done.total_s + self.aggregation_s(profile_model(model)))

    def job(self, model: str, batch_size: int, iterations: int) -> Job:
        """Training of a model of the zoo, every layer split over all servers."""
        profile = profile_model(model)
        return Job.of(
            profile,
            self.times(model, batch_size),
            self.link,
            iterations=iterations,
            workers=self.workers,
            servers=self.servers,
            aggregation_s=self.aggregation_s(profile),
        )

    def cluster(self, speeds: Sequence[float] | None = None) -> Cluster:
        """Workers and servers, whose interfaces are shared; their links are no narrower.

        `speeds` is one for each worker, 1 being the testbed's; all 1 by default.
        """
        rate_bps = self.bandwidth_mbps * 1e6 * self.constants.link_efficiency

        def nodes(kind: str, speeds: Sequence[float]) -> list[Node]:
            return [
                Node(f"{kind}{index}", speed=speed, uplink_bps=rate_bps, downlink_bps=rate_bps)
                for index, speed in enumerate(speeds)
            ]

        workers = nodes("worker", [1.0] * self.workers if speeds is None else speeds)
        link = Link(rate_bps, overhead_s=self.link.overhead_s)
        return star(workers, nodes("server", [1.0] * self.servers), link)


def saved_percent(done: Iteration, sequential: Iteration) -> dict[str, float]:
    """Time saved over the sequential plan, as the paper states it: by direction, and in all.

    Deviation: the paper's numbers for an iteration are the plain means of both directions' numbers,
    which its text does not say, and not the time saved of an iteration. So are these.
    """
    forward, backward = (
        100 * (1 - phase.total_s / whole.total_s)
        for phase, whole in (
            (done.forward, sequential.forward),
            (done.backward, sequential.backward),
        )
    )
    return {"forward": forward, "backward": backward, "iteration": (forward + backward) / 2}


def iteration_ends_s(run: Run) -> list[float]:
    """When each iteration ended: all servers have stepped."""
    assert run.trace is not None
    steps = run.trace.frame.filter(pl.col("lane") == "step")
    ends = steps.group_by(pl.col("label").cast(pl.Int64)).agg(pl.col("end_s").max())
    return ends.sort("label")["end_s"].to_list()


def stated_testbed(constants: Constants) -> Testbed:
    """The testbed as the paper states it, with these constants."""
    return Testbed(
        samples_per_s=_STATED["samples_per_s_off"],
        constants=constants,
        workers=WORKERS,
        servers=_STATED["servers"]["count"],
        bandwidth_mbps=BANDWIDTH_MBPS,
    )


@lru_cache
def paper_testbed() -> Testbed:
    """The testbed as the paper states it, with the fitted constants."""
    return stated_testbed(Constants.load())


def variant(workers: int, bandwidth_mbps: float, overhead_ms: float | None = None) -> Testbed:
    """The paper's testbed with other links; None leaves the fitted overhead."""
    base = paper_testbed()
    overhead_ms = base.constants.overhead_ms if overhead_ms is None else overhead_ms
    constants = replace(base.constants, overhead_ms=overhead_ms)
    return replace(base, workers=workers, bandwidth_mbps=bandwidth_mbps, constants=constants)
