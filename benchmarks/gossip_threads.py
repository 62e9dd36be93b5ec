"""Simulated training on every core beside a bare loop of the same steps: LeNet-5, batch 32.

``python benchmarks/gossip_threads.py`` takes ten rounds of twenty steps on 1 and on 16 nodes, in a
bare loop without exchange, and in simulated gossip training on a complete graph with one thread
and with as many as there are cores, taking turns; the median of each counts. Weights must be the
same for any number of threads. On two cores or more, status 1 if 16 nodes are not 1.5 times as fast
as the bare loop, or if one node is over 5 % slower than with one thread.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import numpy as np
import torch

from workbench import datasets, decentralised, training
from workbench.clusters import Link, full_mesh
from workbench.decentralised import EverySample, GossipSetup, Trained, View
from workbench.runtime.threads import thread_count

ROUNDS, STEPS, BATCH, REPEATS = 10, 20, 32, 3
SPEED_BAR, ALONE_BAR = 1.5, 1.05
DIGITS = datasets.load("digits").limit(test=100).fitted((1, 28, 28))


def main() -> int:
    cores, missed = thread_count(), False
    for nodes in (1, 16):
        setup = setup_of(nodes)
        seconds: dict[str, list[float]] = {"bare loop": [], "one thread": [], "threads": []}
        for _ in range(REPEATS):
            seconds["bare loop"].append(bare_s(setup))
            one, one_s = trained(setup, 1)
            several, several_s = trained(setup, cores)
            seconds["one thread"].append(one_s)
            seconds["threads"].append(several_s)
            pairs = zip(one.weights, several.weights, strict=True)
            assert all(torch.equal(a, b) for a, b in pairs), "weights depend on the threads"
        loop_s, one_s, several_s = map(statistics.median, seconds.values())
        faster, alone = loop_s / several_s, several_s / one_s
        print(
            f"{nodes} nodes: bare loop {loop_s:.2f} s, one thread {one_s:.2f} s, {cores} threads "
            f"{several_s:.2f} s: {faster:.2f} x the bare loop, {one_s / several_s:.2f} x one thread"
        )
        missed |= cores > 1 and (faster < SPEED_BAR if nodes > 1 else alone > ALONE_BAR)
    print(f"bars (16 nodes {SPEED_BAR} x, one node no slower): {'missed' if missed else 'met'}")
    return int(missed)


def setup_of(nodes: int) -> GossipSetup:
    rng = np.random.default_rng(0)
    count = len(DIGITS.y_train)
    return GossipSetup(
        "lenet5",
        DIGITS,
        [rng.choice(count, STEPS * BATCH, replace=False) for _ in range(nodes)],
        full_mesh(nodes, Link(100e6, 0.001)),
        exchange=decentralised.Gossip(decentralised.complete(nodes)),
        batch_size=BATCH,
        epochs=ROUNDS,
        evaluate_every=ROUNDS,
    )


def trained(setup: GossipSetup, threads: int) -> tuple[Trained[Any], float]:
    began_s = time.perf_counter()
    result = decentralised.train(setup, threads=threads)
    return result, time.perf_counter() - began_s


def bare_s(setup: GossipSetup) -> float:
    """Each node's steps, all nodes taking turns, nothing else."""
    with training.fixed_threads():
        programs: list[Any] = setup.programs().programs
        learners = [program.state.value for program in programs]
        selecting = EverySample(setup.seed)
        began_s = time.perf_counter()
        for epoch in range(1, ROUNDS + 1):
            dealt = []
            for node, learner in enumerate(learners):
                shard = setup.held[node]
                view = View(node, 0, learner.flat, setup, shard, BATCH, 0)
                dealt.append(selecting.step(None, epoch, view)[1])
            for batches in zip(*dealt, strict=True):
                for learner, batch in zip(learners, batches, strict=True):
                    learner.learn(batch)
        return time.perf_counter() - began_s


if __name__ == "__main__":
    sys.exit(main())
