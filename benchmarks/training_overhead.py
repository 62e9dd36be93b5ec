"""What the simulator adds to the gradient steps that it runs: LeNet-5, batch 32, 8 workers.

``python benchmarks/training_overhead.py`` runs the same gradient steps in a bare loop and on
simulated parameter servers, taking turns, in this process's CPU seconds. The simulator's own time
is what it takes beside the gradient steps, timed from within; differences between two whole runs
drown in how differently a busy machine treats them. Status 1 if it is over 10 % of the bare loop.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from workbench import datasets, training
from workbench.clusters import Link
from workbench.dynacomm.train import Setup, build
from workbench.runtime import simulate

ROUNDS = 9
BAR_PERCENT = 10.0
SETUP = Setup(
    "lenet5",
    datasets.load("digits").fitted((1, 28, 28)),
    Link(100e6, 0.01),
    workers=8,
    batch_size=32,
    epochs=2,
)


def main() -> int:
    with training.fixed_threads():
        bare_s, own_s = [], []
        for _ in range(ROUNDS):
            bare_s.append(bare())
            own_s.append(own())
    bare_median_s, own_median_s = statistics.median(bare_s), statistics.median(own_s)
    overhead_percent = 100 * own_median_s / bare_median_s
    print(f"bare loop {bare_median_s:.3f} s, simulator's own {own_median_s:.3f} s of CPU, medians")
    met = overhead_percent <= BAR_PERCENT
    print(
        f"{'met   ' if met else 'MISSED'} simulator's own time {overhead_percent:.1f} %, bar 10 %"
    )
    return 0 if met else 1


def bare() -> float:
    """Seconds of the workers' gradients and one optimiser step an iteration, nothing else."""
    built = build(SETUP)
    data, flats = SETUP.dataset, [replica.flat for replica in built.replicas]
    sgd, first = SETUP.sgd, built.flat
    velocity = sgd.start(first.parameters)
    before_s = time.process_time()
    for iteration in range(built.ends[-1]):
        for flat, replica in zip(flats, built.replicas, strict=True):
            batch = replica.batches[iteration]
            training.gradient_step(flat, data.x_train[batch], data.y_train[batch], seed=iteration)
        sgd.step(first.parameters, flats[0].gradients, velocity)
    return time.process_time() - before_s


def own() -> float:
    """Seconds of a simulated run that are not spent in gradient steps: messages, sums, events."""
    built = build(SETUP)
    inside_s = 0.0

    def timed(learn: Callable[[int], None]) -> Callable[[int], None]:
        def learn_timed(iteration: int) -> None:
            nonlocal inside_s
            before_s = time.process_time()
            learn(iteration)
            inside_s += time.process_time() - before_s

        return learn_timed

    for replica in built.replicas:
        replica.learn = timed(replica.learn)  # type: ignore[assignment]
    before_s = time.process_time()
    simulate(SETUP.cluster, built.programs)
    return time.process_time() - before_s - inside_s


if __name__ == "__main__":
    sys.exit(main())
