"""Trainings without learning: the workers' own programs on the simulator, with drawn gradients.

Work takes its virtual seconds and computes no gradient. A large model's gradient is a vector of
`VALUES` numbers, and links carry as much less as it is shorter, so that messages take as long. What
a `System` or an exchange sends and waits for is thus what it does in a training, and a new one
needs nothing here.

The numbers are drawn (`STANDARD_DEVIATION`), so sizes that depend on a gradient's values, as of Max
N, are no better than these; the share that is sent can be given instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workbench.clusters import Cluster, Link, Node, Schedule, SharedCapacity, load_calibration
from workbench.datasets import Dataset
from workbench.decentralised.exchange import MakeExchange
from workbench.decentralised.job import Job
from workbench.decentralised.learner import PeerLearner
from workbench.decentralised.recorder import Arrival
from workbench.dlion.algorithms import SYSTEMS
from workbench.dlion.algorithms.global_batch import CONSTANT
from workbench.dlion.algorithms.synchronisation import MUST
from workbench.dlion.algorithms.system import System
from workbench.dlion.gradient import Gradient, Links, Parts
from workbench.dlion.part import Part
from workbench.dlion.programs.program import WorkerProgram
from workbench.dlion.programs.recorder import Iteration
from workbench.runtime import DeadlockError, Run, Synchronized
from workbench.runtime.simulation import Simulation
from workbench.training import Sgd
from workbench.training.flat_model import Layout, attach
from workbench.utils.checks import ABOVE_ZERO, NOT_NEGATIVE, UserError, at_least, check_fields

if TYPE_CHECKING:
    from workbench.training import FlatModel

VALUES, LARGE = 1000, 30_000
"""Values of a gradient that stands for one of at least `LARGE`; a smaller one is as it is."""

VALUE_BYTES = 4  # single precision

STANDARD_DEVIATION = 1.0
"""Standard deviation of the logarithm of a value's scale: gradients have longer tails than a normal
law."""

SHARES: Mapping[str, float] = load_calibration("dlion_shares")["shares"]
"""Measured shares of a gradient's bytes, by system."""

NEVER = 10**9  # iterations

MOST_SAMPLES = 10**6  # of a worker's batch: a dry run numbers them

STUCK = 300
"""Iterations of the quickest worker, in the time of one of the slowest, after which the slowest
worker counts as waiting for ever."""


@dataclass(frozen=True)
class Workload:
    """A training in sizes and seconds.

    Attributes
    ----------
    model_bytes
        Bytes of the model, and of a whole gradient.
    sample_s
        Seconds that learning from a sample takes at a speed of 1.
    host_s
        Seconds of every iteration whatever its batch and speed.
    local_batch
        Samples in a worker's batch; where batching is dynamic, their mean.
    """

    model_bytes: float = field(metadata=ABOVE_ZERO)
    sample_s: float = field(metadata=ABOVE_ZERO)
    host_s: float = field(default=0.0, metadata=NOT_NEGATIVE)
    local_batch: int = field(default=32, metadata=at_least(1, MOST_SAMPLES))

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class SizedPart(Part):
    """Part of a gradient of which only the size is known."""

    bytes: float = 0.0

    @property
    def size_bytes(self) -> float:  # type: ignore[override]
        """Bytes on a link."""
        return self.bytes


@dataclass(frozen=True)
class SendShare:
    """Send everyone this many bytes, whatever the gradient."""

    size_bytes: float

    def __call__(self, gradient: Gradient, links: Links) -> Parts:
        """Send the same to all."""
        return dict.fromkeys(links.peers, SizedPart((), self.size_bytes))


def measured_share(system: System) -> float | None:
    """The measured share of the system in `SYSTEMS` that selects as this one does."""
    for name, share in SHARES.items():
        if SYSTEMS[name].generate_partial_gradients == system.generate_partial_gradients:
            return share
    return None


def frozen(cluster: Cluster, factor: float) -> Cluster:
    """The cluster with capacities as they are at first, all bandwidths times a factor."""
    shared: dict[int, SharedCapacity] = {}

    def bps(what: str, rate: float | Schedule) -> float:
        if not (now := Schedule.of(rate).at(0.0)):
            raise UserError(f"{what} carries nothing at 0 s; give it a bandwidth then")
        return now * factor

    def narrowed(capacity: SharedCapacity) -> SharedCapacity:
        if id(capacity) not in shared:
            shared[id(capacity)] = SharedCapacity(bps("a shared capacity", capacity.bandwidth))
        return shared[id(capacity)]

    nodes = []
    for node in cluster.nodes:
        if not (speed := node.speed_over_time.at(0.0)):
            raise UserError(f"{node.name} has a speed of 0 at 0 s; give it one then")
        up, down = (
            None if rate is None else bps(f"the {what} of {node.name}", rate)
            for what, rate in (("uplink", node.uplink), ("downlink", node.downlink))
        )
        nodes.append(Node(node.name, node.cores, speed, up, down))
    links: dict[tuple[int | str, int | str], Link] = {}
    for source, target in permutations(range(len(cluster)), 2):
        link, names = cluster.link(source, target), cluster.names
        rate = bps(f"the link from {names[source]} to {names[target]}", link.bandwidth)
        limits = tuple(map(narrowed, link.shared))
        links[source, target] = replace(link, bandwidth_bps=rate, shared=limits)
    return Cluster(nodes, links)


@dataclass(eq=False)
class DryLearner(PeerLearner):
    """A worker's learner that computes no gradients: all are the same, drawn once.

    So what is sent does not depend on the order of the workers. In the iterations of `best`, that
    worker has the least loss; other losses are drawn.
    """

    best: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._random, random = np.random.default_rng(self.node), np.random.default_rng(0)
        gradients = self.flat.gradients.numpy()
        scales = np.exp(STANDARD_DEVIATION * random.normal(size=len(gradients)))
        gradients[:] = random.normal(size=len(gradients)) * scales

    def _gradient_step(self, batch: NDArray[np.int64]) -> float:
        if (best := self.best.get(self.steps + 1)) is not None:
            return float(best != self.node)
        return float(self._random.random())


@lru_cache(maxsize=8)
def _flat(values: int) -> FlatModel:
    """A model of this many values, which is not traced."""
    from torch import nn

    layout = Layout(("all",), ((("weight", (1, values)),),), VALUE_BYTES)
    flat = attach(nn.Linear(values, 1, bias=False), layout)
    flat.parameters.fill_(1.0)
    return flat


_NOTHING = np.zeros((1, 1), np.float32), np.zeros(1, np.int64)
_DATA = Dataset("nothing", *_NOTHING, *_NOTHING, ("nothing",))


class DryRun:
    """A training of sizes, on the simulator; it keeps iterations and arrivals.

    Attributes
    ----------
    iterations
        ``(at_s, node, iteration, samples)`` of each iteration done.
    arrivals
        ``(source, target, iteration of the source, bytes)`` of each message that had a size.
    done
        The last iteration of each worker so far.
    """

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        how: System | MakeExchange,
        *,
        seed: int,
        share: float | None = None,
        samples: int = 0,
        last_iteration: float = math.inf,
        best: Mapping[int, int] | None = None,
    ) -> None:
        values = math.ceil(workload.model_bytes / VALUE_BYTES)
        values = VALUES if values > LARGE else values
        self.workers = len(cluster)
        self._scale = workload.model_bytes / (VALUE_BYTES * values)
        network = frozen(cluster, 1 / self._scale)
        sgd = Sgd(0.1)
        job = Job(
            network=network,
            shards=[np.arange(workload.local_batch)] * self.workers,
            epoch_samples=samples or NEVER,
            seed=seed,
            learning_rate=sgd.learning_rate,
            evaluate_every=NEVER,
            batch_size=workload.local_batch,
            sample_s=(workload.sample_s,) * self.workers,
            host_s=workload.host_s,
            variables=(slice(0, values),),
            last_iteration=last_iteration,
        )
        if isinstance(how, System):
            how = _with_sizes(how, share, VALUE_BYTES * values, growing=bool(samples))
        flat, programs = _flat(values), []
        for node in range(self.workers):
            replica = flat.replica()
            learner = DryLearner(node, seed, replica, flat.parameters, _DATA, sgd, best=best or {})
            programs.append(WorkerProgram(job, how, Synchronized(learner)))
        self.iterations: list[tuple[float, int, int, int]] = []
        self.arrivals: list[tuple[int, int, int, float]] = []
        self.done = [0] * self.workers
        self._own_s = [
            workload.host_s
            + workload.local_batch * workload.sample_s / node.speed_over_time.at(0.0)
            for node in network.nodes
        ]
        self._simulation = Simulation(
            network, programs, seed=seed, threads=1, trace=True, observer=self._observe
        )

    def _observe(self, at_s: float, node: int, value: Any) -> None:
        """Keep an iteration, or what has arrived."""
        if isinstance(value, Iteration):
            self.iterations.append((at_s, node, value.iteration, value.samples))
            self.done[node] = value.iteration
        elif isinstance(value, Arrival) and value.topic != "weights" and value.size_bytes:
            size_bytes = value.size_bytes * self._scale
            self.arrivals.append((value.source, node, value.iteration, size_bytes))

    def run(self, iterations: int | None = None) -> Run:
        """Go on until every worker has done this many iterations, or all have ended.

        Raises UserError: somebody waits for ever.
        """
        if iterations is None:
            return self._run(None)
        slowest_s, quickest_s = max(self._own_s), min(self._own_s)
        step_s, least, run = slowest_s, -1, None
        while run is None or min(self.done) < iterations:
            # Longer where everybody waits: work may be far shorter than what is sent.
            step_s = 2 * step_s if min(self.done) == least else slowest_s
            least = min(self.done)
            if least < 4 and max(self.done) > STUCK * slowest_s / quickest_s:
                stuck = self.done.index(least)
                raise UserError(f"worker {stuck} waits for ever while others go on; {MUST}")
            step_s = max(step_s, slowest_s * (iterations - least))
            run = self._run(self._simulation.env.now + step_s)
        return run

    def run_until_links_are_used(self, most: int) -> None:
        """Go on until something has arrived on every link, or for this many iterations."""
        links = self.workers * (self.workers - 1)
        while len({arrival[:2] for arrival in self.arrivals}) < links and min(self.done) < most:
            self.run(min(self.done) + 1)

    def close(self) -> None:
        """End all programs."""
        self._simulation.close()

    def _run(self, until_s: float | None) -> Run:
        try:
            return self._simulation.run(until_s)
        except DeadlockError:
            raise UserError(f"all workers wait, and nothing is on its way; {MUST}") from None


def _with_sizes(system: System, share: float | None, whole_bytes: float, growing: bool) -> System:
    """The system, sending a share of a gradient's bytes if one is given or was measured."""
    share = measured_share(system) if share is None else share
    if share is not None:
        system = replace(system, generate_partial_gradients=SendShare(share * whole_bytes))
    if system.batching is not None and not growing:
        batching = replace(system.batching, growth=CONSTANT, period=NEVER)
        system = replace(system, batching=batching)
    return system
