"""Profiling runs: a training process beside co-runners of several sizes, on this machine.

Samples {(U, t)} for the performance predictor (Han et al. 2021, Sec. 3.3 and 4.4).
"""

from __future__ import annotations

import math
import os
import random
import select
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

import polars as pl

from workbench.edgegossip.prediction.co_runners import (
    REST,
    WORKLOADS,
    ChildProcess,
    CoRunners,
    child_process,
    co_runners,
)
from workbench.edgegossip.prediction.host_counters import Source, between, host_counters
from workbench.edgegossip.prediction.monitor import report, timed
from workbench.edgegossip.prediction.predictor import RESOURCES, SECONDS
from workbench.reproduction.sweep import interruptible
from workbench.runtime import progress
from workbench.utils.checks import UserError, check_name, check_number, check_whole

SCHEMA = {
    "source": pl.String,
    "order": pl.Int64,
    "repeat": pl.Int64,
    "workload": pl.String,
    "size_bytes": pl.Int64,
    "cores": pl.Int64,
    **dict.fromkeys(("window_s", *RESOURCES, SECONDS, "sample_s", "report_s"), pl.Float64),
}

SETTLE_S = 0.2
"""From the begin of the jobs to that of the measuring."""

BATCH_SIZE = 32

Point = tuple[str, int]
ALONE: Point = (REST, 0)


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

    LeNet-5 trains on digits in a process with one thread, beside as many co-runners as there are
    cores. A job begins every `every_s` seconds, or as soon as the one before has ended: the larger
    the jobs, the busier the machine. Other load of the machine counts as contention, too. Each
    repetition goes through all points, training alone among them, in an order of its own.

    A row per point and repetition, in the ``order`` of measuring; ``source`` is "measured",
    ``workload`` "none" without jobs; contention as in `Contention`, ``seconds_per_sample`` of the
    training; ``sample_s`` and ``report_s``, what reading the counters and writing a report took.

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

    Raises
    ------
    RuntimeError
        The training or a job failed.
    workbench.reproduction.sweep.ExperimentInterrupted
        At Ctrl-C, with the points that were measured.
    """
    points = _points(sizes, workloads)
    _check_seconds("seconds_per_point", seconds_per_point, 0.1)
    _check_seconds("every_s", every_s, 0.01)
    check_whole("repeats", repeats, 1)
    shuffled = random.Random(seed)
    rows: list[tuple[object, ...]] = []
    with (
        interruptible(lambda: pl.DataFrame(rows, schema=SCHEMA, orient="row")),
        _bench() as bench,
        progress.steps("Profiling runs", repeats * len(points)) as begin,
    ):
        for repeat in range(repeats):
            for workload, size_bytes in shuffled.sample(points, len(points)):
                begin(f"{workload} of {size_bytes / 1e6:g} MB" if size_bytes else "alone")
                bench.others.run(workload, size_bytes, every_s)
                time.sleep(SETTLE_S)
                cores = len(bench.others.processes)
                point = ("measured", len(rows), repeat, workload, size_bytes, cores)
                rows.append((*point, *bench.measure(seconds_per_point)))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _points(sizes: Sequence[int], workloads: Sequence[str]) -> list[Point]:
    for size in sizes:
        check_whole("a size", size, 1)
    for workload in workloads:
        check_name("workload", workload, WORKLOADS)
    return [ALONE, *((workload, int(size)) for workload in workloads for size in sizes)]


def _check_seconds(name: str, value: float, least: float) -> None:
    if not least <= check_number(name, value) < math.inf:
        raise UserError(f"{name} is {value}; give seconds, at least {least}")


@dataclass(frozen=True)
class _Bench:
    training: ChildProcess
    others: CoRunners
    reports: Path
    read: Source

    def measure(self, seconds: float) -> tuple[float, ...]:
        """Columns of `SCHEMA` from ``window_s`` on, over the next `seconds`."""
        before, samples, began_s = self.read(), *self._mark()
        time.sleep(seconds)
        (after, sample_s), (more, ended_s) = timed(self.read), self._mark()
        mean, window_s = between(before, after), after.at_s - before.at_s
        _, report_s = timed(lambda: report(self.reports, "here", window_s, mean))
        seconds_per_sample = (ended_s - began_s) / (more - samples)
        return (window_s, *astuple(mean), seconds_per_sample, sample_s, report_s)

    def _mark(self) -> tuple[int, float]:
        """Samples learnt from so far, and when, at the end of a step."""
        samples, at_s = self.training.ask("").split()
        return int(samples), float(at_s)


@contextmanager
def _bench() -> Iterator[_Bench]:
    with co_runners() as others, child_process(train_lenet) as training:
        training.ask("")  # it has begun
        reports = others.folder / "reports.jsonl"
        yield _Bench(training, others, reports, host_counters((training.pid,)))


def train_lenet(requests: int = 0) -> None:
    """Train LeNet-5 on digits with one thread until a file descriptor ends.

    Each line from it is answered at the end of a step: samples learnt from so far, and the seconds
    of a steady clock.
    """
    from workbench import datasets, training

    digits = datasets.load("digits").fitted((1, 28, 28))
    samples, epoch = 0, 0
    with training.fixed_threads():
        flat = training.flatten(training.initialise("lenet5", seed=0), (1, 28, 28))
        sgd = training.Sgd(learning_rate=0.01, momentum=0.9)
        velocity = sgd.start(flat.parameters)
        while True:
            for batch in training.batches(digits, BATCH_SIZE, seed=0, epoch=epoch):
                training.gradient_step(flat, digits.x_train[batch], digits.y_train[batch])
                sgd.step(flat.parameters, flat.gradients, velocity)
                samples += len(batch)
                if select.select([requests], [], [], 0)[0]:
                    if not os.read(requests, 1):
                        return
                    print(samples, time.perf_counter(), flush=True)
            epoch += 1
