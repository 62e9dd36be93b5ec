"""What to train with DynaComm, on what."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from workbench import training
from workbench.clusters import Cluster, Link, Node, Schedule, star
from workbench.clusters.checks import check_kind, check_number, check_whole, listed
from workbench.dynacomm.costs.iteration import LayerCosts, layer_costs
from workbench.dynacomm.programs.job import Job, plain
from workbench.dynacomm.programs.shards import split_evenly
from workbench.profiles import LayerTimes
from workbench.training.models import check_model, make_model, profile_of

if TYPE_CHECKING:
    import torch

    from workbench.datasets import Dataset
    from workbench.profiles import ModelProfile
    from workbench.training.models import Model


@dataclass(frozen=True)
class Setup:
    """A training run on parameter servers.

    Attributes
    ----------
    model
        Name in the zoo; or a module of one's own, which is copied and its weights drawn anew, or a
        function that makes it. Tried on a sample, without learning.
    dataset
        Fitted to the model's input, with its number of classes.
    link
        Between each worker and each server, both ways; its bandwidth may be a `Schedule`.
    flops_per_s, backward_over_forward
        What a worker of speed 1 sustains, and its time backward over forward.
    batch_size
        Samples of one worker in an iteration.
    epochs
        How often every sample is learnt from.
    sgd
        How the servers step.
    seed
        Of weights, batches and whatever the model draws.
    speeds
        Of each worker, if not all are 1.

    Raises
    ------
    ValueError
        Counts, rates, speeds or a seed out of range; an unknown model; a dataset that is none, or
        whose images the model does not take; a model with fewer outputs than there are classes; a
        link or a step that is none.

    Notes
    -----
    A link's `latency_s` is charged, but the cost model has none: each iteration waits for two
    (pushes arriving, pulls answered; the requests travel while the pushes do), and the first one
    for its request, too. No plan changes that.
    """

    model: Model
    dataset: Dataset
    link: Link
    flops_per_s: float = 1e10
    backward_over_forward: float = 2.0
    workers: int = 1
    servers: int = 1
    batch_size: int = 32
    epochs: int = 1
    sgd: training.Sgd = field(default_factory=lambda: training.Sgd(0.02, momentum=0.9))
    seed: int = 0
    speeds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (
            ("workers", 1), ("servers", 1), ("batch_size", 1), ("epochs", 1), ("seed", 0)
        ):  # fmt: skip
            object.__setattr__(self, name, check_whole(name, getattr(self, name), least))
        for name in ("flops_per_s", "backward_over_forward"):
            rate = check_number(name, getattr(self, name))
            if not 0 < rate < math.inf:
                raise ValueError(f"{name} is {rate}; it must be finite and above 0")
            object.__setattr__(self, name, rate)
        check_model(self.model, self.dataset, self.seed)
        if not isinstance(self.link, Link):
            raise ValueError(f"link is {self.link!r}; give a clusters.Link")
        if not isinstance(self.sgd, training.Sgd):
            raise ValueError(f"sgd is {self.sgd!r}; give a training.Sgd, such as Sgd(0.02)")
        self._check_speeds()

    def _check_speeds(self) -> None:
        instead = "give one number for each worker, such as (1.0, 0.5)"
        object.__setattr__(self, "speeds", listed("speeds", self.speeds, instead))
        if self.speeds and len(self.speeds) != self.workers:
            raise ValueError(
                f"speeds has {len(self.speeds)} numbers for {self.workers} workers; give one "
                "each, or none"
            )
        _ = self.nodes  # a speed that cannot be is told now

    def made(self) -> torch.nn.Module:
        """The model with its first weights, a new one each time."""
        return make_model(self.model, self.dataset, self.seed)

    @cached_property
    def profile(self) -> ModelProfile:
        """What each layer of the model costs."""
        return profile_of(self.model, self.dataset, self.seed)

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
        """Bandwidth of a link at 0 s; the first there is, where it begins with an outage."""
        bandwidth = self.link.bandwidth_bps
        if isinstance(bandwidth, float | int):
            return float(bandwidth)
        return next(value for value in Schedule.of(bandwidth).values if value)

    @property
    def costs(self) -> LayerCosts:
        """What a planner plans with before anything was seen: `first_bps`, speed 1.

        All servers' links work at the same time, so they count as one that much wider.
        """
        joint = replace(self.link, bandwidth_bps=self.first_bps * self.servers)
        return layer_costs(self.profile, self.times, joint)

    def job(self, iterations: int, starts: Iterable[int] = ()) -> Job:
        """What workers and servers do; `starts` is where each layer begins in the flat vector."""
        return Job.of(
            self.profile,
            self.times,
            self.link,
            shards=split_evenly(len(self.profile), self.servers, tuple(starts)),
            iterations=iterations,
            workers=self.workers,
        )


def check_setup(given: object) -> Setup:
    """Return a set-up as it is.

    Raises
    ------
    TypeError
        It is none, such as the name of a model.
    """
    return check_kind("setup", given, Setup, "a Setup, such as Setup('lenet5', dataset, link)")
