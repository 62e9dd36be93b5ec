"""What an iteration of each system takes, without learning: seconds by part, bytes by link.

Capacities are those of one instant, batches as large as at the start. The workers' programs run
dry (`dry_run`), so times are those of a simulated training of the same seed wherever sizes do not
depend on what is learnt: Baseline, Hop and Ako, and all systems that exchange models. Top-k's are,
if the model has one weight variable. Of the others they are estimates:

- Gaia and Max 10 send a share of the bytes that is a constant from trainings
  (``data/calibration/dlion_shares.toml``), or the `share` that is given.
- DLion, and other systems that select by values, select from values that are drawn.
"""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from workbench.clusters import Cluster
from workbench.clusters.cluster import check_cluster
from workbench.dlion.algorithms import SYSTEMS
from workbench.dlion.algorithms.synchronisation import Progress
from workbench.dlion.algorithms.system import System
from workbench.dlion.costs.dry_run import DryRun
from workbench.utils.checks import UserError, check_kind, check_number, check_whole, choose

LinkBytes = dict[tuple[int, int], float]
"""(source, target) -> bytes."""

ROUNDS = 30
"""Rounds of a dry run until a course that has not repeated is averaged as it is."""

COMPARED_EVERY = 10
"""Iterations from one comparison of losses to the next in the dry run of direct transfers."""


@dataclass(frozen=True)
class Workload:
    """What is learnt, in sizes."""

    model_bytes: float  # of the model, and of a whole gradient
    sample_s: float  # that learning from a sample takes at a speed of 1
    host_s: float = 0.0  # of every iteration whatever its batch and speed
    local_batch: int = 32  # samples of a worker; where batching is dynamic, their mean

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
        Seconds of waiting: while links from or to the worker carry something, and while none does.
    rare_s
        Share of what comes once in many iterations: timed batches, and the best worker's weights,
        which delay the gradients behind them; all workers are taken to be the best as often.
    iteration_s
        The sum of these.
    link_bytes
        (source, target) -> bytes in an iteration of the source; without pairs that send nothing.
    repeats
        Whether the course of events repeats, to a ten-thousandth of its times; if not, times are
        means over some iterations.
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
    def alone_per_s(self) -> float:
        """Samples a second if nobody waited for anything, exactly."""
        own_s = zip(self.batches, self.host_s, self.compute_s, strict=True)
        return sum(batch / (host_s + compute_s) for batch, host_s, compute_s in own_s)


def iteration(
    cluster: Cluster,
    workload: Workload,
    system: str | System,
    *,
    at_s: float = 0.0,
    share: float | None = None,
    seed: int = 0,
    rounds: int = ROUNDS,
) -> Iteration:
    """Predict an iteration of a system; it takes some milliseconds to a few hundred.

    Parameters
    ----------
    cluster
        Workers and links, such as ``ENVIRONMENTS["homo_b"].cluster()``.
    system
        Name in `SYSTEMS`, or a `System`.
    at_s
        When: capacities stay what they are then.
    share
        Share of a gradient's bytes that goes to everyone, in place of what the system selects. None
        takes the one that was measured of the system, if there is one.
    seed
        Of drawn partners, as in a training of that seed.
    rounds
        How often something is sent, at most, until the mean is taken. Fewer are quicker, and less
        exact where the course does not repeat before.

    Raises
    ------
    ValueError
        Numbers out of range; fewer than two workers; a capacity of 0; `synch_training` that lets
        somebody wait for ever.
    workbench.utils.checks.UnknownNameError, workbench.clusters.MissingLinkError
        No such system; no link between two workers.
    """
    chosen = _checked(cluster, workload, system, at_s=at_s, share=share, seed=seed)
    check_whole("rounds", rounds, 2)
    options: dict[str, Any] = {"at_s": at_s, "share": share, "seed": seed}
    with closing(DryRun(cluster, workload, replace(chosen, transfer=None), **options)) as run:
        first, last, repeats = run.settle(rounds)
    own_s, batching, transfer = run.own_s, chosen.batching, chosen.transfer
    count, workers = last - first, range(len(own_s))
    link_bytes = run.link_bytes(first, last, repeats)
    iteration_s = [(began_s[last] - began_s[first]) / count for began_s in run.began_s]
    if not chosen.synch_training(Progress(10**9, dict.fromkeys(workers[1:], 0))):
        # Nobody gets ever further ahead of another: in the long run all are as slow as the last,
        # and no queue grows, which a dry run shows only once queues are full.
        least_s = 0.0 if repeats else run.least_s(link_bytes)
        iteration_s = [max(least_s, *iteration_s)] * len(own_s)
    transfers_s, idles_s = [], []
    for worker in workers:
        carried_s, idle_s = run.waiting_s(worker, first, last)
        part = carried_s / (carried_s + idle_s) if carried_s else 0.0
        wait_s = max(0.0, iteration_s[worker] - own_s[worker])
        transfers_s.append(part * wait_s)
        idles_s.append(wait_s - transfers_s[-1])
    rare_s = 0.0
    if batching is not None:
        rare_s += min(began_s[0] for began_s in run.began_s) / batching.period
    if transfer is not None:
        weights_s, weights = _weights(cluster, workload, chosen, iteration_s, options)
        rare_s += weights_s
        link_bytes = {pair: size + link_bytes.get(pair, 0.0) for pair, size in weights.items()}
    return Iteration(
        batches=run.batches,
        host_s=(workload.host_s,) * len(own_s),
        compute_s=tuple(one - workload.host_s for one in own_s),
        transfer_s=tuple(transfers_s),
        idle_s=tuple(idles_s),
        rare_s=(rare_s,) * len(own_s),
        iteration_s=tuple(
            max(one, own) + rare_s for one, own in zip(iteration_s, own_s, strict=True)
        ),
        link_bytes=link_bytes,
        repeats=repeats,
    )


def _weights(
    cluster: Cluster,
    workload: Workload,
    system: System,
    iteration_s: list[float],
    options: dict[str, Any],
) -> tuple[float, LinkBytes]:
    """Seconds and bytes of direct transfers of weights, an iteration's share.

    In a dry run in which every worker is the best once, after equally many iterations.
    """
    assert system.transfer is not None
    period, every, workers = system.transfer.period, COMPARED_EVERY, len(iteration_s)
    often = replace(system.transfer, period=every, losses=1, early_until=0)
    dry = replace(system, transfer=often)
    last = every * (workers + 1)
    with closing(DryRun(cluster, workload, dry, best_for=every, **options)) as run:
        run.run_to(last + 1)
    taken_s = max(each[last] - each[every] for each in run.began_s)
    waits_s = max(0.0, taken_s - every * workers * max(iteration_s)) / workers
    sent = {
        pair: sum(one.size_bytes for one in arrived) / workers / period
        for pair, arrived in sorted(run.weights.items())
    }
    return waits_s / period, sent


def first_iterations(
    cluster: Cluster,
    workload: Workload,
    system: str | System,
    iterations: int,
    *,
    at_s: float = 0.0,
    share: float | None = None,
    seed: int = 0,
    samples: int | None = None,
) -> pl.DataFrame:
    """Predict the first iterations of all workers; parameters as for `iteration`.

    Returns ``at_s, node, iteration, samples``, as a training's `Trained.iterations`. Batches are
    timed and weights transferred when the system does it; the best worker is drawn. With
    `samples`, those of an epoch, global batches grow.
    """
    chosen = _checked(cluster, workload, system, at_s=at_s, share=share, seed=seed)
    count = check_whole("iterations", iterations, 1)
    epoch = 0 if samples is None else check_whole("samples", samples, 1)
    options: dict[str, Any] = {"at_s": at_s, "share": share, "seed": seed, "samples": epoch}
    run = DryRun(cluster, workload, chosen, last_iteration=count, **options)
    with closing(run):
        run.run()
    schema = {"at_s": pl.Float64, **dict.fromkeys(("node", "iteration", "samples"), pl.Int64)}
    return pl.DataFrame(run.done, schema=schema, orient="row")


def _checked(
    cluster: Cluster,
    workload: Workload,
    system: str | System,
    *,
    at_s: float,
    share: float | None,
    seed: int,
) -> System:
    chosen = choose("system", system, SYSTEMS) if isinstance(system, str) else system
    check_kind("system", chosen, System, "the name of one of SYSTEMS, or a System")
    check_kind("workload", workload, Workload, "a Workload, as in Workload(5e6, 0.01)")
    if len(check_cluster(cluster)) < 2:
        raise UserError("the cluster has one worker; an exchange takes at least two")
    check_whole("seed", seed, 0)
    if not 0 <= check_number("at_s", at_s) < math.inf:
        raise UserError(f"at_s is {at_s}; give a time of at least 0 s")
    if share is not None and not 0 < check_number("share", share) <= 1:
        raise UserError(f"share is {share}; give that of a gradient's bytes, up to 1")
    return chosen
