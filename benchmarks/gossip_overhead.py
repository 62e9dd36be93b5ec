"""What the simulator adds to decentralised training: LeNet-5, batch 32, 8 and 64 nodes.

``python benchmarks/gossip_overhead.py`` takes the same gradient steps in a bare loop and in
simulated training, taking turns, in CPU and in wall seconds. The simulator's own time is what it
takes beside the steps, timed from within: events, messages, exchanged models, records; evaluation
on test samples is left out on both sides. Status 1 if it is over 10 % of the bare loop's.

``python benchmarks/gossip_overhead.py memory 25 50 100`` trains on so many nodes, each in a process
of its own, and prints the largest memory that it held.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from workbench import datasets, decentralised, training
from workbench.clusters import Link, graph
from workbench.decentralised import EverySample, GossipSetup, View
from workbench.decentralised.learner import PeerLearner
from workbench.runtime import simulate

ROUNDS = 7
BAR_PERCENT = 10.0
DIGITS = datasets.load("digits").fitted((1, 28, 28))


class Seconds(NamedTuple):
    """Of this process, and on the wall."""

    cpu: float
    wall: float

    def __sub__(self, other: Seconds) -> Seconds:
        return Seconds(self.cpu - other.cpu, self.wall - other.wall)


def now() -> Seconds:
    return Seconds(time.process_time(), time.perf_counter())


def main() -> int:
    if sys.argv[1:2] == ["memory"]:
        return memory(sys.argv[2:])
    if sys.argv[1:2] == ["peak"]:
        return peak(int(sys.argv[2]))
    missed = 0
    for nodes in (8, 64):
        for way in ("one exchange an epoch", "GoSGD, p = 0.1"):
            missed += overhead(nodes, way)
    return int(missed > 0)


def setup_of(nodes: int, way: str = "one exchange an epoch", epochs: int = 2) -> GossipSetup:
    """Nodes with 96 samples each, three batches an epoch, three peers each."""
    of = decentralised.random_regular(nodes, 3 if nodes % 2 == 0 else 4, seed=0)
    rng = np.random.default_rng(0)
    shards = [rng.choice(len(DIGITS.y_train), 96, replace=False) for _ in range(nodes)]
    epochwise = way == "one exchange an epoch"
    return GossipSetup(
        "lenet5",
        DIGITS,
        shards,
        graph(nodes, of.edges, Link(100e6, 0.001)),
        exchange=decentralised.Gossip(of) if epochwise else decentralised.GoSgd(0.1),
        batch_size=32,
        epochs=epochs,
        evaluate_every=epochs,
    )


def overhead(nodes: int, way: str) -> bool:
    """Whether the bar was missed."""
    setup = setup_of(nodes, way)
    pairs = []
    with training.fixed_threads():
        for _ in range(ROUNDS):
            pairs.append((bare(setup), own(setup)))
    missed = False
    for clock in ("cpu", "wall"):
        bare_s = statistics.median(getattr(one, clock) for one, _ in pairs)
        own_s = statistics.median(getattr(one, clock) for _, one in pairs)
        percent = 100 * own_s / bare_s
        missed |= percent > BAR_PERCENT
        print(
            f"{'MISSED' if percent > BAR_PERCENT else 'met   '} {nodes} nodes, {way}: bare loop "
            f"{bare_s:.3f} s, simulator's own {own_s:.3f} s of {clock}, {percent:.1f} %, bar 10 %"
        )
    return missed


def bare(setup: GossipSetup) -> Seconds:
    """Each node's steps, all nodes taking turns, nothing else."""
    programs: list[Any] = setup.programs().programs
    learners = [program.state.value for program in programs]
    selecting = EverySample(setup.seed)
    before = now()
    for epoch in range(1, setup.epochs + 1):
        dealt = []
        for node, learner in enumerate(learners):
            shard = setup.held[node]
            view = View(node, 0, learner.flat, setup, shard, setup.batch_size, 0)
            dealt.append(selecting.step(None, epoch, view)[1])
        for batches in zip(*dealt, strict=True):
            for learner, batch in zip(learners, batches, strict=True):
                learner.learn(batch)
    return now() - before


def own(setup: GossipSetup) -> Seconds:
    """A simulated run in one thread without its gradient steps and evaluations."""
    built = setup.programs()
    inside: list[Seconds] = []

    def timed(call: Callable[..., Any]) -> Callable[..., Any]:
        def method(this: PeerLearner, **given: Any) -> Any:
            before = now()
            result = call(this, **given)
            inside.append(now() - before)
            return result

        return method

    with (
        mock.patch.object(PeerLearner, "learn", timed(PeerLearner.learn)),
        mock.patch.object(PeerLearner, "evaluate", timed(PeerLearner.evaluate)),
    ):
        before = now()
        simulate(setup.cluster, built.programs, threads=1)
        took = now() - before
    return took - Seconds(*np.sum(inside, axis=0))


def memory(counts: list[str]) -> int:
    for nodes in counts:
        done = subprocess.run(
            [sys.executable, __file__, "peak", nodes], capture_output=True, text=True, check=True
        )
        print(done.stdout, end="")
    return 0


def peak(nodes: int) -> int:
    first_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    setup = setup_of(nodes, epochs=3)
    began_s = time.perf_counter()
    decentralised.train(setup)
    took_s = time.perf_counter() - began_s
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    each_mib = 61_706 * 4 / 2**20
    print(
        f"{nodes} nodes: at most {peak_mib:.0f} MiB, {first_mib:.0f} of them before; "
        f"{took_s:.1f} s for 3 epochs; a model has {each_mib:.2f} MiB"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
