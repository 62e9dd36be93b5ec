"""Profiling runs: a training process beside jobs of several sizes, on this machine.

Samples {(U, t)} for the performance predictor (Han et al. 2021, Sec. 3.3 and 4.4).
"""

from __future__ import annotations

import math
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path

import polars as pl

from workbench.clusters.checks import check_number, whole
from workbench.edgegossip.prediction.contention import Source, between
from workbench.edgegossip.prediction.helper_process import Helper, helper
from workbench.edgegossip.prediction.host_counters import host_counters
from workbench.edgegossip.prediction.map_reduce import WORKLOADS
from workbench.edgegossip.prediction.monitor import timed
from workbench.edgegossip.prediction.store import Store
from workbench.interrupted import keeping
from workbench.names import check_name
from workbench.runtime import progress

SCHEMA = {
    "source": pl.String,
    "order": pl.Int64,
    "repeat": pl.Int64,
    "workload": pl.String,
    "size_bytes": pl.Int64,
    "cores": pl.Int64,
    "window_s": pl.Float64,
    "core": pl.Float64,
    "network_bytes_per_s": pl.Float64,
    "disk_bytes_per_s": pl.Float64,
    "seconds_per_sample": pl.Float64,
    "sample_s": pl.Float64,
    "report_s": pl.Float64,
}

SETTLE_S = 0.2
"""From the begin of the jobs to that of the measuring."""

Point = tuple[str, int]
ALONE: Point = ("none", 0)


def profiling_runs(
    sizes: Sequence[int],
    workloads: Sequence[str] = tuple(WORKLOADS),
    seconds_per_point: float = 1.0,
    *,
    repeats: int = 4,
    every_s: float = 0.25,
    seed: int = 0,
) -> pl.DataFrame:
    """Measure contention and training time beside jobs of each size.

    A job is begun every `every_s` seconds, or as soon as the one before has ended, as many
    workers doing their share of it as there are cores. So a machine is the busier the larger the
    jobs, until all its cores are wanted by others without a pause. Whatever else it does counts
    as contention, too. Each repetition goes through all points in an order of its own, training
    alone among them, so that a machine that is slow for a while is not so at one size alone.

    Parameters
    ----------
    sizes
        Input bytes of a job.
    workloads
        Names in `WORKLOADS`.
    seconds_per_point
        How long each point is measured in each repetition.
    repeats
        How often; each gives a row for every point.
    every_s
        See above.
    seed
        Of the order.

    Returns
    -------
    polars.DataFrame
        A row per point and repetition, in the ``order`` of measuring; ``source`` is "measured",
        ``workload`` "none" without jobs; contention as in `Contention`, ``seconds_per_sample`` of
        the training; ``sample_s`` and ``report_s``, what reading the counters and writing a
        report took.

    Raises
    ------
    ValueError
        An unknown workload, a number that cannot be, no room on the disk for the largest job, or a
        system on which pipes cannot be waited for.
    RuntimeError
        The training or a job failed.
    workbench.interrupted.ExperimentInterrupted
        At Ctrl-C, with the points that were measured.
    """
    points = _points(sizes, workloads)
    _check_seconds("seconds_per_point", seconds_per_point, 0.1)
    _check_seconds("every_s", every_s, 0.01)
    if (whole(repeats) or 0) < 1:
        raise ValueError(f"repeats is {repeats!r}; give a whole number of at least 1")
    _check_machine(max(sizes, default=0))
    cores = os.cpu_count() or 1
    shuffled = random.Random(seed)
    rows: list[tuple[object, ...]] = []
    with (
        keeping(lambda: pl.DataFrame(rows, schema=SCHEMA, orient="row")),
        _beside(cores) as beside,
        progress.steps("Profiling runs", repeats * len(points)) as told,
    ):
        for repeat in range(repeats):
            for workload, size_bytes in shuffled.sample(points, len(points)):
                told(f"{workload} of {size_bytes / 1e6:g} MB" if size_bytes else "alone")
                beside.command(f"{workload} {-(-size_bytes // cores)} {every_s}\n")
                time.sleep(SETTLE_S)
                point = ("measured", len(rows), repeat, workload, size_bytes, cores)
                rows.append((*point, *beside.measured(seconds_per_point)))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _points(sizes: Sequence[int], workloads: Sequence[str]) -> list[Point]:
    for size in sizes:
        if (whole(size) or 0) < 1:
            raise ValueError(f"sizes has {size!r}; give bytes of input, whole and at least 1")
    for workload in workloads:
        check_name("workload", workload, WORKLOADS)
    return [ALONE, *((workload, int(size)) for workload in workloads for size in sizes)]


def _check_seconds(name: str, given: float, least: float) -> None:
    if not least <= check_number(name, given) < math.inf:
        raise ValueError(f"{name} is {given}; give seconds, at least {least}")


def _check_machine(largest_bytes: int) -> None:
    if os.name != "posix":
        raise ValueError("profiling runs need a POSIX system, such as Linux or macOS")
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < 4 * largest_bytes:
        raise ValueError(
            f"sorting {largest_bytes / 1e6:g} MB keeps up to three times as much on the disk, of "
            f"which {tempfile.gettempdir()} has {free / 1e6:.0f} MB free; choose smaller sizes, or "
            "another folder by the environment variable TMPDIR"
        )


@dataclass(frozen=True)
class _Beside:
    """The training and the jobs' workers, all running; `_beside` makes it."""

    trainee: Helper
    workers: Sequence[Helper]
    store: Store
    read: Source

    def command(self, line: str) -> None:
        """Tell all workers at once, and wait until each has left what it did before."""
        for worker in self.workers:
            worker.tell(line.encode())
        for worker in self.workers:
            worker.answer()

    def measured(self, seconds: float) -> tuple[float, ...]:
        """Columns of `SCHEMA` from ``window_s`` on, over so many seconds from now."""
        before, samples, began_s = self.read(), *self._mark()
        time.sleep(seconds)
        (after, sampling), (more, ended_s) = timed(self.read), self._mark()
        mean, window_s = between(before, after), after.at_s - before.at_s
        _, reporting = timed(partial(self.store.write, "here", time.time(), window_s, mean))
        seconds_per_sample = (ended_s - began_s) / (more - samples)
        return (window_s, *astuple(mean), seconds_per_sample, sampling.wall_s, reporting.wall_s)

    def _mark(self) -> tuple[int, float]:
        """Samples learnt from so far, and when, at the end of a step."""
        samples, at_s = self.trainee.ask(b".").split()
        return int(samples), float(at_s)


@contextmanager
def _beside(cores: int) -> Iterator[_Beside]:
    """Run the training and the jobs' workers; end them, and clear their files, at the end."""
    with ExitStack() as ending:  # in reverse: first the processes, then their folder
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="workbench-")))
        store = ending.enter_context(Store(folder / "contention.sqlite"))
        package = "workbench.edgegossip.prediction"
        workers = [
            ending.enter_context(helper(f"{package}.co_runners", str(folder))) for _ in range(cores)
        ]
        ports = " ".join(worker.answer() for worker in workers)
        for worker in workers:
            worker.tell(f"{ports}\n".encode())
        trainee = ending.enter_context(helper(f"{package}.trainee"))
        trainee.ask(b".")  # it has begun
        yield _Beside(trainee, workers, store, host_counters((trainee.pid,)))
