"""Random numbers of one purpose are never those of another."""

from __future__ import annotations

import numpy as np

from workbench.clusters import Cluster, Link, Node
from workbench.runtime import Context, Crash, draw_faults, simulate
from workbench.runtime.faults import Purpose, stream
from workbench.training import repeatable


def test_no_two_streams_of_a_run_coincide() -> None:
    small = range(3)
    streams = {
        (seed, purpose, *which): stream(seed, purpose, *which)
        for seed in (0, 7)
        for purpose in Purpose
        for which in [(), *((a,) for a in small), *((a, b) for a in small for b in small)]
    }
    purposes = [
        getattr(repeatable, name)
        for name in ("FIRST_WEIGHTS", "SHUFFLE", "STEP", "AGGREGATE", "SELECT", "LOAD")
    ]
    for seed in (0, 7):
        streams |= {(seed,): np.random.default_rng(seed)}
        for purpose in (0, 1, *purposes):
            for which in [(), *((a,) for a in small), *((a, b) for a in small for b in small)]:
                key = np.random.SeedSequence(seed, spawn_key=(purpose, *which))
                streams[seed, purpose, *which] = np.random.default_rng(key)
    assert len(set(purposes) | {0, 1} | set(Purpose)) == 2 + len(purposes) + len(Purpose)
    first = {name: tuple(one.random(2)) for name, one in streams.items()}
    assert len(set(first.values())) == len(first)


def test_a_node_draws_neither_its_faults_nor_what_a_seed_gives() -> None:
    async def program(context: Context) -> float:
        return float(context.random.exponential(10.0))

    pair = Cluster([Node("a"), Node("b")], {(1, 0): Link(1e6)})
    drawn = simulate(pair, [program, program], seed=7).results
    crashes = [
        fault.at_s
        for fault in draw_faults(7, pair, until_s=1e4, crash_every_s=10.0)
        if isinstance(fault, Crash)
    ]
    assert not {drawn[0], drawn[1]} & {*crashes, float(np.random.default_rng(7).exponential(10.0))}
