"""A run with everything in it, and its fingerprint: what every process must find the same."""

from __future__ import annotations

import hashlib
from functools import partial

import numpy as np
from numpy.typing import NDArray

from workbench.clusters import Cluster, Link, Node, Schedule, full_mesh
from workbench.runtime import Context, Fault, Lossy, Message, Run, draw_faults, simulate

PEERS = 4
Vector = NDArray[np.float64]


def cluster() -> Cluster:
    nodes = [
        Node(f"node{index}", cores=1 + index % 2, speed=1 + index / 3, uplink_bps=3e4)
        for index in range(PEERS)
    ]
    wave = Schedule.sampled(lambda at_s: 2e4 + 1e4 * (at_s % 3), step_s=0.7, end_s=20)
    return full_mesh(nodes, Link(wave, overhead_s=0.01, latency_s=0.02))


def mean(one: Vector, two: Vector) -> Vector:
    return (one + two) / 2


async def gossip(context: Context) -> Vector:
    """Average a vector with whoever is heard, in random order, with noise of one's own."""
    vector = context.random.normal(size=32)
    for round_ in range(20):
        peer = int(context.random.choice(context.peers))
        size_bytes = float(context.random.integers(100, 3000))
        context.send(peer, Message(context.node, f"{round_ % 3}", vector.copy(), size_bytes))
        try:
            while True:
                heard = await context.receive(timeout_s=float(context.random.exponential(0.5)))
                vector = await context.compute(
                    partial(mean, vector, heard.payload),
                    cost_s=float(context.random.exponential(0.1)),
                    label=heard.topic,
                )
        except TimeoutError:
            pass
    return vector


def faults() -> tuple[Fault, ...]:
    drawn = draw_faults(
        7, cluster(), until_s=15, crash_every_s=20, down_s=2, slow_every_s=9, link_down_every_s=30
    )
    return (*drawn, Lossy(0, 1, 0.3), Lossy(2, 0, 0.2))


def run(seed: int = 1) -> Run:
    return simulate(cluster(), [gossip] * PEERS, seed=seed, trace=True, faults=faults())


def fingerprint(run: Run) -> str:
    """Hash of every bit of the results and the trace."""
    digest = hashlib.sha256()
    for node, vector in run.results.items():
        digest.update(f"{node}".encode() + vector.tobytes())
    assert run.trace is not None
    for row in run.trace.frame.drop("kind").iter_rows():
        digest.update(repr(row).encode())
    digest.update(repr((run.end_s, run.events, run.links)).encode())
    return digest.hexdigest()
