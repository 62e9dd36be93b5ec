"""Profiling runs: a training beside co-runners of several sizes, on this machine.

Samples {(U, t)} for the performance predictor (Han et al. 2021, Sec. 3.3 and 4.4).
"""

from __future__ import annotations

import math
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TypeVar

import polars as pl

from workbench import datasets, training
from workbench.edgegossip.prediction.co_runners import REST, WORKLOADS, co_runners
from workbench.edgegossip.prediction.host_counters import between, host_counters
from workbench.edgegossip.prediction.monitor import report
from workbench.edgegossip.prediction.predictor import RESOURCES, SECONDS
from workbench.reproduction.sweep import interruptible
from workbench.runtime import progress
from workbench.utils.checks import UserError, check_name, check_number, check_whole

T = TypeVar("T")

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
"""Seconds that jobs run before measuring begins."""

BATCH_SIZE = 32

ALONE = (REST, 0)


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

    LeNet-5 trains on digits in this process with one thread, beside as many co-runners as there are
    cores. A job begins every `every_s` seconds, or as soon as the one before has ended: the larger
    the jobs, the busier the machine. Other load of the machine counts as contention, too. Each
    repetition goes through all points, training alone among them, in an order of its own.

    A row per point and repetition, in the ``order`` of measuring; ``source`` is "measured",
    ``workload`` "none" without jobs; contention as in `Contention`, ``seconds_per_sample`` of the
    training; ``sample_s`` and ``report_s``, what reading the counters and writing a report took.

    `sizes` are input bytes of a job, `workloads` names in `WORKLOADS`; each point is measured for
    `seconds_per_point` in each of the `repeats`, in an order drawn by `seed`.

    Raises RuntimeError: a co-runner failed; ExperimentInterrupted: Ctrl-C, with the points that
    were measured.
    """
    for size in sizes:
        check_whole("a size", size, 1)
    for workload in workloads:
        check_name("workload", workload, WORKLOADS)
    for name, seconds, least in (
        ("seconds_per_point", seconds_per_point, 0.1),
        ("every_s", every_s, 0.01),
    ):
        if not least <= check_number(name, seconds) < math.inf:
            raise UserError(f"{name} is {seconds}; give seconds, at least {least}")
    check_whole("repeats", repeats, 1)
    points = [ALONE, *((workload, int(size)) for workload in workloads for size in sizes)]
    shuffled = random.Random(seed)
    rows: list[tuple[object, ...]] = []
    with (
        interruptible(lambda: pl.DataFrame(rows, schema=SCHEMA, orient="row")),
        co_runners() as others,
        tempfile.TemporaryDirectory() as folder,
        progress.steps("Profiling runs", repeats * len(points)) as begin,
        training.fixed_threads(),
    ):
        read, learn = host_counters(descendants=False), _lenet_step()
        for repeat in range(repeats):
            for workload, size_bytes in shuffled.sample(points, len(points)):
                begin(f"{workload} of {size_bytes / 1e6:g} MB" if size_bytes else "alone")
                others.run(workload, size_bytes, every_s)
                _learn_for(SETTLE_S, learn)
                before = read()
                seconds_per_sample = _learn_for(seconds_per_point, learn)
                after, sample_s = timed(read)
                mean, window_s = between(before, after), after.at_s - before.at_s
                path = Path(folder) / "reports.jsonl"
                _, report_s = timed(partial(report, path, "here", window_s, mean))
                rows.append(
                    (
                        *("measured", len(rows), repeat, workload, size_bytes),
                        *(len(others.processes), window_s, *astuple(mean)),
                        *(seconds_per_sample, sample_s, report_s),
                    )
                )
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _learn_for(seconds: float, learn: Callable[[], int]) -> float:
    """Learn for at least so long; return the seconds per sample."""
    samples, began_s = 0, time.perf_counter()
    while (passed_s := time.perf_counter() - began_s) < seconds:
        samples += learn()
    return passed_s / samples


def timed(call: Callable[[], T]) -> tuple[T, float]:
    """Return the result of `call`, and the seconds that it took."""
    began_s = time.perf_counter()
    return call(), time.perf_counter() - began_s


def _lenet_step() -> Callable[[], int]:
    """Make a step of LeNet-5 on digits, which returns the samples that it learnt from."""
    digits = datasets.load("digits").fitted((1, 28, 28))
    flat = training.flatten(training.initialise("lenet5", seed=0), (1, 28, 28))
    sgd = training.Sgd(learning_rate=0.01, momentum=0.9)
    velocity = sgd.start(flat.parameters)
    batches = cycle(training.batches(digits, BATCH_SIZE, seed=0, epoch=0))

    def step() -> int:
        batch = next(batches)
        training.gradient_step(flat, digits.x_train[batch], digits.y_train[batch])
        sgd.step(flat.parameters, flat.gradients, velocity)
        return len(batch)

    return step
