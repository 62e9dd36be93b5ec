"""How far predicted and simulated seconds of an iteration are from those of real processes.

``python benchmarks/measured_trainings.py`` measures every case of
`workbench.comparison.validation.cases` once, in random order. Status 1 if the simulation misses the
goal, or if weights differ from its own where they do not depend on the order of arrival. On a busy
machine, ``chrt --rr 5`` before the command keeps others from disturbing it.
``workbench record three_ways runs`` measures each ten times.

At last one training in which work takes its own time, against a profile of this machine: a worker
and a server, each in a process.
"""

from __future__ import annotations

import sys

import polars as pl

from workbench import dynacomm
from workbench.clusters import Link
from workbench.comparison.validation import errors, recording
from workbench.comparison.validation.cases import digits
from workbench.profiles import measure_layer_times
from workbench.training import RunOptions, fixed_threads, train

MODEL, BATCH_SIZE, ITERATIONS = "resnet20_cifar", 64, 4


def main() -> int:
    """Measure, print a line for each case, and say whether the goal is met."""
    runs = recording.RUNS.frame("default")
    for row in runs.iter_rows(named=True):
        about = ", ".join(row[name] for name in errors.CASE)
        if row["reason"] is not None:
            print(f"FAILED {about}: {row['reason']}")
            continue
        off = (f"{row[name] / row['measured_s'] - 1:+.2%}" for name in errors.WAYS.values())
        print(
            f"{'void  ' if row['void'] else '      '} {about}: {1e3 * row['measured_s']:.1f} ms, "
            f"{', '.join(map(' '.join, zip(errors.WAYS, off, strict=True)))}; "
            f"{row['late']} of {row['deadlines']} late, steal {row['steal']:.1%}"
        )
    wrong = runs.filter(~pl.col("ordered"), pl.col("same_weights") == pl.lit(False))
    for row in wrong.iter_rows(named=True):
        print(f"MISSED weights differ: {', '.join(row[name] for name in errors.CASE)}")
    goals = errors.goals(runs)
    print(goals)
    unpadded()
    return int(not wrong.is_empty() or not goals.filter(way="simulated")["met"].all())


def unpadded() -> None:
    """Predict a training from a profile, and measure it with work that takes its own time."""
    with fixed_threads():
        times = measure_layer_times(MODEL, BATCH_SIZE, warmup=5, repeats=41)
    setup = dynacomm.Setup(
        MODEL,
        digits(BATCH_SIZE * ITERATIONS, MODEL),
        Link(100e6, 0.01),
        workers=1,
        epochs=1,
        batch_size=BATCH_SIZE,
        layer_times=times,
        by_layer=True,
    )
    plan = dynacomm.PLANNERS["dynacomm"](setup.costs)
    predicted_s = dynacomm.iteration(setup.costs, plan).total_s
    trained = train(setup, "dynacomm", RunOptions(measured="unpadded"))
    measured_s = trained.run.end_s / ITERATIONS
    print(
        f"work in its own time, {MODEL}: {1e3 * measured_s:.0f} ms an iteration, predicted "
        f"{predicted_s / measured_s - 1:+.1%} off"
    )


if __name__ == "__main__":
    sys.exit(main())
