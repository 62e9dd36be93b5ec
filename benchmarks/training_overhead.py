"""What the simulator adds to the gradient steps that it runs: LeNet-5, batch 32, 8 workers.

``python benchmarks/training_overhead.py`` trains the same model on the same batches in a bare loop
and on simulated parameter servers, and ends with status 1 if the whole simulated run takes over
10 % more than the bare loop, in this process's CPU seconds, or ends with other weights.

The two take turns, and who goes first changes, so that what else the machine does hits both; each
pair gives one ratio, and the median of the ratios is what counts. The second row is the simulator's
own time, everything beside the gradient steps, timed from within the same runs: it has less noise,
but does not see what the gradient steps themselves lose, to caches that messages have filled.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from workbench import datasets, training
from workbench.clusters import Link
from workbench.dynacomm.training import PlanOptions, Setup
from workbench.runtime import simulate

if TYPE_CHECKING:
    from torch import Tensor

ROUNDS = 15
BAR_PERCENT = 10.0
SETUP = Setup(
    "lenet5",
    datasets.load("digits").fitted((1, 28, 28)),
    Link(100e6, 0.01),
    workers=8,
    batch_size=32,
    epochs=4,
)


def main() -> int:
    bares, simulateds, owns = [], [], []
    with training.fixed_threads():
        bare_loop(), simulated()  # what is made once is made
        for turn in range(ROUNDS):
            if turn % 2:
                whole, own, learnt = simulated()
                alone, expected = bare_loop()
            else:
                alone, expected = bare_loop()
                whole, own, learnt = simulated()
            if not learnt.equal(expected):
                print("MISSED the simulated run ends with other weights than the bare loop")
                return 1
            bares.append(alone)
            simulateds.append(whole)
            owns.append(own)

    table = Table("CPU time", "bare loop, s", "simulated, s", "added, % (quartiles)")
    added = [100 * (whole / alone - 1) for whole, alone in zip(simulateds, bares, strict=True)]
    table.add_row("whole run", middle(bares), middle(simulateds), quartiles(added))
    shares = [100 * own / alone for own, alone in zip(owns, bares, strict=True)]
    table.add_row("the simulator's own", middle(bares), middle(owns), quartiles(shares))
    Console().print(table)
    added_percent = statistics.median(added)
    met = added_percent <= BAR_PERCENT
    print(
        f"{'met   ' if met else 'MISSED'} simulated run {added_percent:.1f} % over the bare loop, "
        f"CPU, median of {ROUNDS} pairs; bar {BAR_PERCENT:g} %; same weights"
    )
    return 0 if met else 1


def bare_loop() -> tuple[float, Tensor]:
    """Time of all workers' gradients on one model, their average and the step; the weights."""
    built = SETUP.programs(PlanOptions(replan_every=None))
    data, sgd, flat = SETUP.dataset, SETUP.sgd, built.epochs.flat
    replicas = [worker.replica.value for worker in workers(built)]
    velocity, total = sgd.start(flat.parameters), flat.gradients.clone()
    gc.collect()
    before_s = time.process_time()
    for iteration in range(built.epoch_ends[-1]):
        total.zero_()
        batches = [replica.batches[iteration] for replica in replicas]
        largest = max(map(len, batches))
        for replica, batch in zip(replicas, batches, strict=True):
            x, y = data.x_train[batch], data.y_train[batch]
            training.gradient_step(flat, x, y, seed=replica.draws(iteration))
            total.add_(flat.gradients, alpha=len(batch) / largest)
        total /= sum(map(len, batches)) / largest
        sgd.step(flat.parameters, total, velocity)
    return time.process_time() - before_s, flat.parameters


def workers(built: Any) -> list[Any]:
    """Programs of the workers; the last is the server's."""
    return built.programs[:-1]  # type: ignore[no-any-return]


def simulated() -> tuple[float, float, Tensor]:
    """Time of the whole simulated run, CPU time beside its gradient steps, and the weights."""
    built: Any = SETUP.programs(PlanOptions(replan_every=None))
    learning_s = 0.0

    def timed(learn: Callable[[int], float]) -> Callable[[int], float]:
        def learn_timed(iteration: int) -> float:
            nonlocal learning_s
            before_s = time.process_time()
            loss = learn(iteration)
            learning_s += time.process_time() - before_s
            return loss

        return learn_timed

    for worker in workers(built):
        replica = worker.replica.value
        replica.learn = timed(replica.learn)
    gc.collect()
    before_s = time.process_time()
    # Without an observer nothing is evaluated, as in the bare loop.
    simulate(SETUP.cluster, built.programs, threads=1)
    took_s = time.process_time() - before_s
    *_, server = built.programs
    return took_s, took_s - learning_s, server.store.vector


def middle(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.3f}"


def quartiles(values: list[float]) -> str:
    low, median, high = statistics.quantiles(values, n=4)
    return f"{median:.1f} ({low:.1f} to {high:.1f})"


if __name__ == "__main__":
    sys.exit(main())
