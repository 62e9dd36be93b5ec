"""A training with DynaComm."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from workbench import training
from workbench.checks import listed
from workbench.clusters import Cluster, Link, Node, Schedule, star
from workbench.dynacomm.costs.iteration import LayerCosts, layer_costs
from workbench.dynacomm.programs.job import Job, plain
from workbench.dynacomm.programs.shards import split_evenly
from workbench.errors import UserError
from workbench.profiles import LayerTimes


@dataclass(frozen=True)
class Setup(training.Setup):
    """A training on parameter servers.

    Attributes
    ----------
    model, dataset, epochs, sgd, seed
        As for `workbench.training.Setup`.
    link
        Between each worker and each server, both ways; its bandwidth may be a `Schedule`.
    flops_per_s, backward_over_forward
        What a worker of speed 1 sustains, and its time backward over forward.
    batch_size
        Samples of one worker in an iteration.
    speeds
        Of each worker, if not all are 1.

    Raises
    ------
    ValueError
        What no training takes; counts, rates or speeds out of range; a link that is none.

    Notes
    -----
    A link's `latency_s` is charged, but the cost model has none: each iteration waits for two
    (pushes, pulls; requests travel beside the pushes), and the first one for its request, too.
    """

    link: Link
    flops_per_s: float = 1e10
    backward_over_forward: float = 2.0
    workers: int = 1
    servers: int = 1
    batch_size: int = 32
    speeds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_counts(workers=1, servers=1, batch_size=1)
        self._check_positive("flops_per_s", "backward_over_forward")
        if not isinstance(self.link, Link):
            raise UserError(f"link is {self.link!r}; give a clusters.Link")
        self._check_speeds()

    def _check_speeds(self) -> None:
        instead = "give one number for each worker, such as (1.0, 0.5)"
        object.__setattr__(self, "speeds", listed("speeds", self.speeds, instead))
        if self.speeds and len(self.speeds) != self.workers:
            raise UserError(
                f"speeds has {len(self.speeds)} numbers for {self.workers} workers; give one "
                "each, or none"
            )
        _ = self.nodes  # refuses impossible speeds

    @property
    def times(self) -> LayerTimes:
        """Computation of a worker of speed 1, layer by layer."""
        return LayerTimes.from_flops(
            self.profile,
            flops_per_s=self.flops_per_s,
            batch_size=self.batch_size,
            backward_over_forward=self.backward_over_forward,
        )

    @property
    def nodes(self) -> list[Node]:
        """The workers."""
        speeds = self.speeds or (1.0,) * self.workers
        return [Node(f"worker{index}", speed=speed) for index, speed in enumerate(speeds)]

    @property
    def cluster(self) -> Cluster:
        """Workers first, then servers."""
        return star(self.nodes, self.servers, plain(self.link))

    @property
    def first_bps(self) -> float:
        """Bandwidth of a link at 0 s; the first above 0, where it begins with an outage."""
        bandwidth = self.link.bandwidth_bps
        if isinstance(bandwidth, float | int):
            return float(bandwidth)
        return next(value for value in Schedule.of(bandwidth).values if value)

    @property
    def costs(self) -> LayerCosts:
        """What a planner plans with before any observation: `first_bps`, speed 1.

        The links of all servers work at the same time, so they count as one link of their joint
        bandwidth.
        """
        joint = replace(self.link, bandwidth_bps=self.first_bps * self.servers)
        return layer_costs(self.profile, self.times, joint)

    def job(self, iterations: int, starts: Iterable[int] = ()) -> Job:
        """The training job; `starts` is where each layer begins in the flat vector."""
        return Job.of(
            self.profile,
            self.times,
            self.link,
            shards=split_evenly(len(self.profile), self.servers, tuple(starts)),
            iterations=iterations,
            workers=self.workers,
        )
