"""Gradient steps of several nodes as one batched step, against one after the other: LeNet-5.

``python benchmarks/batched_steps.py`` prints how many times as fast the batched step is at 4, 16
and 64 nodes with batches of 32 and of 8, taking turns, in CPU and in wall seconds, one thread each.
A ratio below 1 says that one after the other is faster, which is why training does it so. Gradients
are compared in double precision: in single, rounding now and then moves a pooling's maximum.
"""

from __future__ import annotations

import statistics
import sys
import time

import torch

from workbench import training
from workbench.training import FlatModel, batched_gradients, gradient_step

ROUNDS = 7


def main() -> int:
    with training.fixed_threads():
        for batch_size in (32, 8):
            for nodes in (4, 16, 64):
                compare(nodes, batch_size)
    return 0


def compare(nodes: int, batch_size: int) -> None:
    first = training.flatten(training.initialise("lenet5", 0), (1, 28, 28))
    flats = [first.replica() for _ in range(nodes)]
    drawn = torch.Generator().manual_seed(0)
    for flat in flats:
        flat.parameters.add_(torch.randn(flat.layout.size, generator=drawn), alpha=0.01)
    xs = list(torch.randn(nodes, batch_size, 1, 28, 28, generator=drawn))
    ys = list(torch.randint(0, 10, (nodes, batch_size), generator=drawn))
    took: dict[str, list[tuple[float, float]]] = {"plain": [], "batched": []}
    for round_number in range(ROUNDS + 1):
        for way, step in (("plain", one_by_one), ("batched", batched_gradients)):
            cpu_s, wall_s = time.process_time(), time.perf_counter()
            step(flats, xs, ys)
            if round_number:  # the first is for warming up
                took[way].append((time.process_time() - cpu_s, time.perf_counter() - wall_s))
    largest = difference(flats, xs, ys)
    for clock, name in enumerate(("CPU", "wall")):
        plain_s, batched_s = (statistics.median(one[clock] for one in took[way]) for way in took)
        print(
            f"{nodes:3} nodes, batch {batch_size:2}, {name:4}: one by one "
            f"{1e3 * plain_s / nodes:.2f} ms a node, batched {1e3 * batched_s / nodes:.2f} ms: "
            f"ratio {plain_s / batched_s:.2f}"
        )
    print(f"    gradients differ by at most {largest:.1e}")


def one_by_one(
    flats: list[FlatModel], xs: list[torch.Tensor], ys: list[torch.Tensor]
) -> list[float]:
    return [gradient_step(flat, x, y) for flat, x, y in zip(flats, xs, ys, strict=True)]


def difference(flats: list[FlatModel], xs: list[torch.Tensor], ys: list[torch.Tensor]) -> float:
    doubles = [
        training.flatten(flat.replica().module.double(), (1, 28, 28), input_dtype="float64")
        for flat in flats
    ]
    exact = [x.double() for x in xs]
    one_by_one(doubles, exact, ys)
    plain = [flat.gradients.clone() for flat in doubles]
    batched_gradients(doubles, exact, ys)
    return max(
        float((flat.gradients - before).abs().max())
        for flat, before in zip(doubles, plain, strict=True)
    )


if __name__ == "__main__":
    sys.exit(main())
