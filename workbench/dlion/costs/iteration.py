"""The cost of an iteration of each system, without learning: seconds by part, bytes by link.

Capacities and batches are those at the start. The workers' programs run dry (`dry_run`), so times
are those of a simulated training of the same seed wherever sizes do not depend on what is learnt:
Baseline, Hop and Ako, and all exchanges of models. Top-k's are, if the model has one weight
variable. Of the others they are estimates:

- Gaia and Max 10 send a share of the bytes that is a constant from trainings
  (``data/calibration/dlion_shares.toml``).
- DLion, and other systems that select by values, select from values that are drawn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import polars as pl

from workbench.clusters import Cluster
from workbench.clusters.cluster import check_cluster
from workbench.decentralised.exchange import MakeExchange
from workbench.decentralised.setup import check_exchange
from workbench.dlion.algorithms.synchronisation import Progress, asynchronous
from workbench.dlion.algorithms.system import System
from workbench.dlion.costs.dry_run import DryRun, Workload
from workbench.dlion.training import system_or_exchange
from workbench.runtime import Trace
from workbench.utils.checks import UserError, check_kind, check_number, check_whole

__all__ = ["ROUNDS", "Iteration", "LinkBytes", "Workload", "first_iterations", "iteration"]

LinkBytes = dict[tuple[int, int], float]
"""(source, target) -> bytes."""

ROUNDS = 30
"""Rounds of a dry run, of which the second half is averaged."""

LATER = 6
"""Iterations that a dry run goes on for, so that what was sent arrives."""

MOST_UNUSED = 100
"""Iterations of the slowest worker until which links are waited for that carry nothing yet."""

PERIODS = 4
"""Rounds that are averaged, at most, for exchanges with a `period`, which take many iterations."""

COMPARED_AT, BESTS = 6, 3
"""Iteration of the comparison of losses in a dry run of direct transfers, and workers that are the
best, one in each such run."""


@dataclass(frozen=True)
class Iteration:
    """Mean iteration of a long training; a number for each worker.

    Attributes
    ----------
    batches
        Samples in each worker's batch.
    host_s, compute_s
        Seconds that the host and the samples take.
    wait_s
        Seconds of waiting, for what others send or for their links.
    rare_s
        Seconds of an iteration's share in what is rare: timed batches, and the best worker's
        weights, which delay the gradients behind them.
    iteration_s
        The sum of these.
    link_bytes
        (source, target) -> bytes in an iteration of the source; without pairs that send nothing.
    link_messages
        Messages that carry them: less than 1 where most iterations send none.
    """

    batches: tuple[int, ...]
    host_s: tuple[float, ...]
    compute_s: tuple[float, ...]
    wait_s: tuple[float, ...]
    rare_s: tuple[float, ...]
    iteration_s: tuple[float, ...]
    link_bytes: LinkBytes
    link_messages: dict[tuple[int, int], float]

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
    system: str | System | MakeExchange,
    *,
    seed: int = 0,
    rounds: int = ROUNDS,
) -> Iteration:
    """Predict an iteration of a system: the mean over the second half of a dry run.

    Parameters
    ----------
    cluster
        Workers and links, such as ``ENVIRONMENTS["homo_b"].cluster()``, with the capacities that
        they have at first.
    system
        Name in `SYSTEMS` or `decentralised.EXCHANGES`, a `System`, or an exchange of models.
    seed
        Seed of drawn partners, as in a training of that seed.
    rounds
        Rounds of the dry run; a round is an iteration, or as many as an exchange's `period`. Fewer
        are quicker, and less exact.

    Raises
    ------
    ValueError
        Numbers out of range; fewer than two workers; a capacity of 0; `synch_training` that lets
        somebody wait for ever.
    workbench.utils.checks.UnknownNameError, workbench.clusters.MissingLinkError
        No such system; no link between two workers.
    """
    how = _checked(cluster, workload, system, seed=seed)
    period = how.period if isinstance(how, MakeExchange) else 1
    half = check_whole("rounds", rounds, 2) // 2
    if period > 1:
        half = period * max(2, min(half, PERIODS))
    workers = range(len(cluster))
    plain = replace(how, transfer=None) if isinstance(how, System) else how
    with closing(DryRun(cluster, workload, plain, seed=seed)) as run:
        if isinstance(how, System) and how.synch_training is asynchronous:
            # What workers send that never wait depends on links, which they know once used.
            run.run_until_links_are_used(MOST_UNUSED)
            first = [max(1, done) for done in run.done]
            run.run(min(run.done) + half + LATER)
            windows = [(one, done - LATER) for one, done in zip(first, run.done, strict=True)]
        else:
            windows = [(half, 2 * half)] * len(cluster)
        trace = run.run(2 * half + LATER).trace
    assert trace is not None
    samples = {node: size for _, node, _, size in run.iterations}
    batches = tuple(samples[node] for node in workers)
    compute_s = tuple(
        batch * workload.sample_s / node.speed_over_time.at(0.0)
        for batch, node in zip(batches, cluster.nodes, strict=True)
    )
    own_s = [workload.host_s + seconds for seconds in compute_s]
    begun_s = [[at_s - workload.host_s for at_s in steps] for steps in _steps(trace, cluster.names)]
    iteration_s = [
        (each[last] - each[first]) / (last - first)
        for each, (first, last) in zip(begun_s, windows, strict=True)
    ]
    link_bytes, link_messages = _sent(run, windows)
    rare_s = 0.0
    if isinstance(how, System):
        if not how.synch_training(Progress(10**9, dict.fromkeys(workers[1:], 0))):
            # Nobody gets ever further ahead: in the long run all are as slow as the last.
            iteration_s = [max(iteration_s)] * len(cluster)
        if how.batching is not None:
            rare_s += min(each[0] for each in begun_s) / how.batching.period
        if how.transfer is not None:
            rare_s += _best_weights_s(cluster, workload, how, max(iteration_s), seed)
            share_of_each = 1 / len(cluster) / how.transfer.period
            for pair in link_bytes:  # all workers are taken to be the best as often
                link_bytes[pair] += workload.model_bytes * share_of_each
                link_messages[pair] += share_of_each
    waits_s = [max(0.0, each - own) for each, own in zip(iteration_s, own_s, strict=True)]
    return Iteration(
        batches=batches,
        host_s=(workload.host_s,) * len(cluster),
        compute_s=compute_s,
        wait_s=tuple(waits_s),
        rare_s=(rare_s,) * len(cluster),
        iteration_s=tuple(own + wait + rare_s for own, wait in zip(own_s, waits_s, strict=True)),
        link_bytes=link_bytes,
        link_messages=link_messages,
    )


def _steps(trace: Trace, names: Sequence[str]) -> list[list[float]]:
    """Seconds in which each worker began its iterations, without those that time batches."""
    learning = trace.frame.filter(lane="learn").sort("start_s", maintain_order=True)
    last = learning.group_by("node", "label", maintain_order=True).agg(pl.col("start_s").last())
    by_node = last.partition_by("node", as_dict=True)
    return [by_node[(name,)]["start_s"].to_list() for name in names]


def _sent(
    run: DryRun, windows: Sequence[tuple[int, int]]
) -> tuple[LinkBytes, dict[tuple[int, int], float]]:
    """Mean bytes, and messages, on each link in an iteration of its sender."""
    sizes: LinkBytes = defaultdict(float)
    counts: dict[tuple[int, int], float] = defaultdict(float)
    for source, target, at, size_bytes in run.arrivals:
        first, last = windows[source]
        if first < at <= last:
            sizes[source, target] += size_bytes / (last - first)
            counts[source, target] += 1 / (last - first)
    return dict(sorted(sizes.items())), dict(sorted(counts.items()))


def _best_weights_s(
    cluster: Cluster, workload: Workload, system: System, iteration_s: float, seed: int
) -> float:
    """Seconds by which direct transfers of the best weights prolong an iteration, as a mean.

    In a dry run each one of some workers, evenly spread, is the best once.
    """
    assert system.transfer is not None
    once = replace(system.transfer, period=COMPARED_AT, losses=1, early_until=0)
    how, count, waits_s = replace(system, transfer=once), min(BESTS, len(cluster)), 0.0
    for best in (place * len(cluster) // count for place in range(count)):
        known = {COMPARED_AT: best}
        with closing(DryRun(cluster, workload, how, seed=seed, best=known)) as run:
            trace = run.run(2 * COMPARED_AT).trace
        assert trace is not None
        steps = _steps(trace, cluster.names)
        taken_s = max(each[2 * COMPARED_AT - 1] - each[COMPARED_AT - 1] for each in steps)
        waits_s += max(0.0, taken_s - COMPARED_AT * iteration_s)
    return waits_s / count / system.transfer.period


def first_iterations(
    cluster: Cluster,
    workload: Workload,
    system: str | System | MakeExchange,
    iterations: int,
    *,
    share: float | None = None,
    seed: int = 0,
    samples: int | None = None,
) -> pl.DataFrame:
    """Predict the first iterations of all workers; parameters as for `iteration`.

    Returns ``at_s, node, iteration, samples``, as a training's `Trained.iterations`. Batches are
    timed and weights transferred when the system does it; the best worker is drawn. With
    `samples`, those of an epoch, global batches grow. `share` is that of a gradient's bytes which
    goes to everyone, in place of what the system selects; None takes the one that was measured of
    the system, if there is one.
    """
    how = _checked(cluster, workload, system, seed=seed)
    sends_gradients = isinstance(how, System)
    if share is not None and not (sends_gradients and 0 < check_number("share", share) <= 1):
        raise UserError(f"share is {share}; give that of a System's gradients, up to 1")
    count = check_whole("iterations", iterations, 1)
    epoch = 0 if samples is None else check_whole("samples", samples, 1)
    run = DryRun(
        *(cluster, workload, how), seed=seed, share=share, samples=epoch, last_iteration=count
    )
    with closing(run):
        run.run()
    schema = {"at_s": pl.Float64, **dict.fromkeys(("node", "iteration", "samples"), pl.Int64)}
    return pl.DataFrame(run.iterations, schema=schema, orient="row")


def _checked(
    cluster: Cluster, workload: Workload, system: str | System | MakeExchange, *, seed: int
) -> System | MakeExchange:
    how = system_or_exchange(system)
    check_kind("workload", workload, Workload, "a Workload, as in Workload(5e6, 0.01)")
    if len(check_cluster(cluster)) < 2:
        raise UserError("the cluster has one worker; an exchange takes at least two")
    check_whole("seed", seed, 0)
    return check_exchange(how, cluster) if isinstance(how, MakeExchange) else how
