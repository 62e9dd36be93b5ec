"""What an iteration of each system takes, without learning: seconds by part, bytes by link.

Capacities are those of one instant, batches as large as at the start. Then times equal those of a
simulated training of a system whose sizes do not depend on its gradients or its measurements:
Baseline and Hop, and DiLoCo, local SGD, CHOCO-SGD and Moshpit SGD. Top-k does if the model has one
weight variable, and NoLoCo with the training's seed. Of the others they are estimates:

- Gaia and Max 10 send a share of the values that is a constant from trainings (`SHARES`).
- Ako and DLion are taken to know the bandwidth when all links are in use. Ako's workers wait for
  nothing, so its times are exact all the same. DLion's sizes follow what links carry, so that only
  the slowest worker and Max N of the least N count.
- AD-PSGD draws other peers than a training does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from workbench.checks import check_kind, check_number, check_whole
from workbench.clusters import Cluster
from workbench.clusters.cluster import check_cluster
from workbench.dlion.algorithms import SYSTEMS
from workbench.dlion.algorithms.local_batch import local_batch_sizes
from workbench.dlion.algorithms.system import System
from workbench.dlion.costs.fluid import Course, Mean
from workbench.dlion.costs.network import Network, network
from workbench.dlion.costs.traffic import LinkBytes, Traffic, knowledge, may_be_ahead, traffic
from workbench.errors import UserError
from workbench.names import choose


@dataclass(frozen=True)
class Workload:
    """What is learnt, in sizes.

    Attributes
    ----------
    model_bytes
        Of the model, and of a whole gradient.
    sample_s
        Seconds that learning from a sample takes at a speed of 1.
    host_s
        Seconds of every iteration whatever its batch and speed.
    local_batch
        Samples in a worker's batch; where batching is dynamic, the mean of the workers'.
    """

    model_bytes: float
    sample_s: float
    host_s: float = 0.0
    local_batch: int = 32

    def __post_init__(self) -> None:
        for name in ("model_bytes", "sample_s", "host_s"):
            value = check_number(name, getattr(self, name))
            if not (0 <= value < math.inf and (value or name == "host_s")):
                least = "at least 0" if name == "host_s" else "above 0"
                raise UserError(f"{name} is {value:g}; it must be finite and {least}")
            object.__setattr__(self, name, value)
        object.__setattr__(self, "local_batch", check_whole("local_batch", self.local_batch, 1))


@dataclass(frozen=True)
class Iteration:
    """An iteration of a long training, as a mean; a number for each worker.

    Attributes
    ----------
    batches
        Samples in each worker's batch.
    host_s, compute_s
        Seconds that the host and the samples take.
    transfer_s, idle_s
        Seconds of waiting: while links from or to the worker carry something, and while none does;
        DLion's, for the network, and for slower workers.
    rare_s
        Share of what comes once in many iterations: timed batches, and DLion's weights, of which
        all workers are taken to be the best as often, and which delay gradients behind them.
    iteration_s
        The sum of these.
    link_bytes
        (source, target) -> bytes in an iteration of the source; without pairs that send nothing.
    repeats
        Whether the course of events repeats, to a ten-thousandth of its times, or has a closed
        form; if not, times are means over some iterations, no shorter than the network allows.
    """

    batches: tuple[int, ...]
    host_s: tuple[float, ...]
    compute_s: tuple[float, ...]
    transfer_s: tuple[float, ...]
    idle_s: tuple[float, ...]
    rare_s: tuple[float, ...]
    iteration_s: tuple[float, ...]
    link_bytes: LinkBytes
    repeats: bool

    @property
    def samples_per_s(self) -> float:
        """Samples that all workers together learn from in a second."""
        rates = zip(self.batches, self.iteration_s, strict=True)
        return sum(batch / seconds for batch, seconds in rates)

    @property
    def link_bytes_per_s(self) -> LinkBytes:
        """Bytes that go over each link in a second; more than it carries if its queue grows."""
        return {
            (source, target): size_bytes / self.iteration_s[source]
            for (source, target), size_bytes in self.link_bytes.items()
        }


def iteration(
    cluster: Cluster,
    workload: Workload,
    system: str | System,
    *,
    at_s: float = 0.0,
    share: float | None = None,
    seed: int = 0,
) -> Iteration:
    """Predict an iteration of a system.

    Parameters
    ----------
    cluster
        Workers and links, such as ``ENVIRONMENTS["homo_b"].cluster()``.
    system
        Name in `SYSTEMS`, or a `System`. One of one's own counts as sending whole gradients, or
        whole models in every iteration, for which all wait.
    at_s
        When: capacities stay what they are then.
    share
        Share of the values that go to everyone, in place of the system's.
    seed
        Of drawn partners.

    Raises
    ------
    ValueError
        Numbers out of range; fewer than two workers; a capacity of 0; `synch_training` that lets
        somebody wait for ever.
    workbench.names.UnknownNameError, workbench.clusters.MissingLinkError
        No such system; no link between two workers.
    """
    inputs = _inputs(cluster, workload, system, at_s=at_s, share=share, seed=seed)
    sent, every, own_s = inputs.traffic, inputs.traffic.every, inputs.own_s
    mean = _mean(inputs)
    iteration_s = [one / every for one in mean.iteration_s]
    link_bytes = {pair: size_bytes / every for pair, size_bytes in sent.link_bytes.items()}
    if sent.answer_bytes:  # as many as the target's own messages
        link_bytes = {
            (one, two): size_bytes + link_bytes[two, one] * iteration_s[one] / iteration_s[two]
            for (one, two), size_bytes in link_bytes.items()
        }
    rare_s, batching, transfer = 0.0, inputs.system.batching, inputs.system.transfer
    if batching is not None:
        rare_s += inputs.start_s / batching.period
    if transfer is not None:
        ahead = may_be_ahead(inputs.system, len(own_s))
        waits_s, weights = knowledge(
            inputs.network, workload.model_bytes, transfer, max(iteration_s), ahead
        )
        rare_s += waits_s
        link_bytes = {pair: one + link_bytes.get(pair, 0.0) for pair, one in weights.items()}
    return Iteration(
        batches=inputs.batches,
        host_s=(workload.host_s,) * len(own_s),
        compute_s=tuple(one - workload.host_s for one in own_s),
        transfer_s=tuple(one / every for one in mean.transfer_s),
        idle_s=tuple(one / every for one in mean.idle_s),
        rare_s=(rare_s,) * len(own_s),
        iteration_s=tuple(one + rare_s for one in iteration_s),
        link_bytes=link_bytes,
        repeats=mean.repeats,
    )


def first_begins_s(
    cluster: Cluster,
    workload: Workload,
    system: str | System,
    iterations: int,
    *,
    at_s: float = 0.0,
    share: float | None = None,
    seed: int = 0,
) -> list[list[float]]:
    """When each worker begins each of the first iterations; parameters as for `iteration`.

    With dynamic batching, batches have been timed before the first.
    """
    count = check_whole("iterations", iterations, 1)
    inputs = _inputs(cluster, workload, system, at_s=at_s, share=share, seed=seed)
    every = inputs.traffic.every
    course = inputs.course()
    while min(map(len, course.begins_s)) * every < count:
        course.advance()
    return [
        [begin_s + step * own_s for begin_s in begins_s for step in range(every)][:count]
        for begins_s, own_s in zip(course.begins_s, inputs.own_s, strict=True)
    ]


@dataclass(frozen=True)
class _Inputs:
    system: System
    batches: tuple[int, ...]
    own_s: list[float]  # of each worker's iteration, without waiting
    start_s: float
    network: Network
    traffic: Traffic

    def course(self) -> Course:
        sent = self.traffic
        return Course(
            self.network,
            [sent.every * one for one in self.own_s],
            sent.sends,
            sent.may_begin or (lambda *_: True),
            answer_bytes=sent.answer_bytes,
            start_s=self.start_s,
        )


def _inputs(
    cluster: Cluster,
    workload: Workload,
    system: str | System,
    *,
    at_s: float,
    share: float | None,
    seed: int,
) -> _Inputs:
    chosen = choose("system", system, SYSTEMS) if isinstance(system, str) else system
    check_kind("system", chosen, System, "the name of one of SYSTEMS, or a System")
    check_kind("workload", workload, Workload, "a Workload, as in Workload(5e6, 0.01)")
    if len(check_cluster(cluster)) < 2:
        raise UserError("the cluster has one worker; an exchange takes at least two")
    at_s, seed = check_number("at_s", at_s), check_whole("seed", seed, 0)
    if not 0 <= at_s < math.inf:
        raise UserError(f"at_s is {at_s}; give a time of at least 0 s")
    if share is not None and not 0 < check_number("share", share) <= 1:
        raise UserError(f"share is {share}; give that of a gradient's values, up to 1")
    batches, own_s, start_s = _computing(cluster, workload, chosen, at_s)
    links = network(cluster, at_s)
    sent = traffic(chosen, links, workload.model_bytes, own_s, share=share, seed=seed)
    return _Inputs(chosen, batches, own_s, start_s, links, sent)


def _mean(inputs: _Inputs) -> Mean:
    """Seconds of a round: in closed form if nobody waits, or only for what is not hidden."""
    sent = inputs.traffic
    own_s = [sent.every * one for one in inputs.own_s]
    if sent.may_begin is None:
        nothing = [0.0 for _ in own_s]
        return Mean(own_s, nothing, nothing, True)
    if not sent.in_step:
        return inputs.course().mean(sent.period, None)
    slowest_s = max(own_s)
    least_s = max(slowest_s, inputs.network.least_s(sent.link_bytes))
    if not sent.hidden:
        return inputs.course().mean(sent.period, least_s)
    return Mean(
        iteration_s=[least_s for _ in own_s],
        transfer_s=[least_s - slowest_s for _ in own_s],
        idle_s=[slowest_s - one for one in own_s],
        repeats=True,
    )


def _computing(
    cluster: Cluster, workload: Workload, system: System, at_s: float
) -> tuple[tuple[int, ...], list[float], float]:
    """Batches, seconds that each worker's iteration takes to compute, and when the first begins."""
    speeds = [node.speed_over_time.at(at_s) for node in cluster.nodes]
    for node, speed in zip(cluster.nodes, speeds, strict=True):
        if speed == 0:
            raise UserError(f"{node.name} has a speed of 0 at {at_s:g} s; give another at_s")
    host_s = workload.host_s
    each_s = [workload.sample_s / speed for speed in speeds]
    batches, start_s = (workload.local_batch,) * len(speeds), 0.0
    if (batching := system.batching) is not None:
        batches = local_batch_sizes(workload.local_batch * len(speeds), speeds)
        start_s = max(sum(host_s + size * one for size in batching.sizes) for one in each_s)
    own_s = [host_s + batch * one for batch, one in zip(batches, each_s, strict=True)]
    return batches, own_s, start_s
