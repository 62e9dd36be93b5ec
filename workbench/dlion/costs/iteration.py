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
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from workbench.clusters import Cluster
from workbench.clusters.cluster import check_cluster
from workbench.dlion.algorithms import SYSTEMS
from workbench.dlion.algorithms.synchronisation import Progress
from workbench.dlion.algorithms.system import System
from workbench.dlion.costs.dry_run import DryRun
from workbench.utils.checks import (
    ABOVE_ZERO,
    NOT_NEGATIVE,
    UserError,
    at_least,
    check_fields,
    check_kind,
    check_number,
    check_whole,
    choose,
)

LinkBytes = dict[tuple[int, int], float]
"""(source, target) -> bytes."""

ROUNDS = 30
"""Rounds of a dry run until a course that has not repeated is averaged as it is."""

COMPARED_EVERY = 10
"""Iterations from one comparison of losses to the next in the dry run of direct transfers."""

ROUNDS_A_BEST = 5
"""Rounds for each worker that is the best in that dry run: fewer are quicker, and less exact."""

MOST_AHEAD = 100
"""Iterations ahead of the last worker up to which is looked whether a system bounds them."""


@dataclass(frozen=True)
class Workload:
    """What is learnt, in sizes."""

    # Of the model, and of a whole gradient.
    model_bytes: float = field(metadata=ABOVE_ZERO)
    # That learning from a sample takes at a speed of 1.
    sample_s: float = field(metadata=ABOVE_ZERO)
    # Of every iteration whatever its batch and speed.
    host_s: float = field(default=0.0, metadata=NOT_NEGATIVE)
    # Samples of a worker; where batching is dynamic, their mean.
    local_batch: int = field(default=32, metadata=at_least(1))

    def __post_init__(self) -> None:
        check_fields(self)


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
    link_messages
        How many messages carry them: less than 1 where most iterations send none.
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
    link_messages: dict[tuple[int, int], float]
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
        if chosen.exchange_models is None and run.asynchronous:
            windows, repeats = run.measured(rounds), False
        else:
            windows, repeats = run.settle(rounds)
    own_s, batching, transfer = run.own_s, chosen.batching, chosen.transfer
    workers = range(len(own_s))
    link_bytes, link_messages = run.link_bytes(windows), run.link_messages(windows)
    iteration_s = [
        (began_s[last] - began_s[first]) / (last - first)
        for began_s, (first, last) in zip(run.began_s, windows, strict=True)
    ]
    if not chosen.synch_training(Progress(10**9, dict.fromkeys(workers[1:], 0))):
        # Nobody gets ever further ahead of another: in the long run all are as slow as the last,
        # and no queue grows, which a dry run shows only once queues are full.
        least_s = 0.0 if repeats else run.least_s(link_bytes)
        iteration_s = [max(least_s, *iteration_s)] * len(own_s)
    transfers_s, idles_s = [], []
    for worker in workers:
        carried_s, idle_s = run.waiting_s(worker, *windows[worker])
        part = carried_s / (carried_s + idle_s) if carried_s else 0.0
        wait_s = max(0.0, iteration_s[worker] - own_s[worker])
        transfers_s.append(part * wait_s)
        idles_s.append(wait_s - transfers_s[-1])
    rare_s = 0.0
    if batching is not None:
        rare_s += min(began_s[0] for began_s in run.began_s) / batching.period
    if transfer is not None:
        weights_s, weights = _weights(run, chosen, max(iteration_s), rounds, options)
        rare_s += weights_s
        for pair, size in weights.items():
            link_bytes[pair] = link_bytes.get(pair, 0.0) + size
            link_messages[pair] = link_messages.get(pair, 0.0) + size / workload.model_bytes
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
        link_messages=link_messages,
        repeats=repeats,
    )


def _weights(
    before: DryRun,
    system: System,
    iteration_s: float,
    rounds: int,
    options: dict[str, Any],
) -> tuple[float, LinkBytes]:
    """Seconds and bytes of direct transfers of weights, an iteration's share.

    All workers are the best equally often. Of those that would hold the others up, a dry run has
    some, `rounds` over `ROUNDS_A_BEST`, be the best in turn: those whose weights take longest. The
    others count by what they take longer than the others may go on without them.
    """
    assert system.transfer is not None
    transfer, workers = system.transfer, range(before.workers)
    size, receivers = before.workload.model_bytes, dict[int, list[int]]()
    for best in workers:
        losses = {node: float((node - best) % len(workers)) for node in workers}
        receivers[best] = [node for node in workers if transfer.asks(node, losses)]
    share = 1 / len(workers) / transfer.period
    sent = {(best, node): size * share for best in workers for node in receivers[best]}
    ahead_s = iteration_s * _most_ahead(system, len(workers))
    late_s = {
        best: before.least_s({(best, node): size for node in nodes}) - ahead_s
        for best, nodes in receivers.items()
    }
    order = sorted((best for best in workers if late_s[best] > 0), key=lambda one: -late_s[one])
    chosen = order[: max(1, rounds // ROUNDS_A_BEST)]
    if not chosen:
        return 0.0, sent
    every = COMPARED_EVERY
    often = replace(transfer, period=every, losses=1, early_until=0)
    last = every * (len(chosen) + 1)
    with closing(
        DryRun(
            before.cluster,
            before.workload,
            replace(system, transfer=often),
            best=lambda iteration: chosen[(iteration // every - 1) % len(chosen)],
            **options,
        )
    ) as run:
        run.run_to(last + 1)
    taken_s = max(each[last] - each[every] for each in run.began_s)
    waits_s = max(0.0, taken_s - every * len(chosen) * iteration_s)
    whole_s = waits_s * sum(late_s[one] for one in order) / sum(late_s[one] for one in chosen)
    return whole_s * share, sent


def _most_ahead(system: System, workers: int) -> int:
    """Iterations that a worker may be ahead of the last, at most `MOST_AHEAD`."""
    may_begin, last = system.synch_training, dict.fromkeys(range(1, workers), 0)
    within = (one for one in range(MOST_AHEAD) if not may_begin(Progress(one + 1, dict(last))))
    return next(within, MOST_AHEAD)


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
