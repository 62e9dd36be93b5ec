"""A seed gives the same bits in any process, and every purpose numbers of its own."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.event_loop import in_event_loop
from tests.other_process import printed
from tests.runtime import busy
from workbench.clusters import Cluster, Link, Node
from workbench.datasets.dataset import LIMIT
from workbench.datasets.partition import PARTITION
from workbench.decentralised.exchanges.noloco import PAIRS
from workbench.runtime import Context, Crash, draw_faults, simulate
from workbench.runtime.faults import Purpose, stream
from workbench.training import repeatable


def test_no_two_streams_of_a_run_coincide() -> None:
    own = ("FIRST_WEIGHTS", "SHUFFLE", "STEP", "AGGREGATE", "SELECT", "LOAD", "DRAW", "DEAL")
    purposes = [0, 1, LIMIT, PARTITION, PAIRS, *(getattr(repeatable, name) for name in own)]
    assert len({*purposes, *Purpose}) == len(purposes) + len(Purpose)
    keys = [key for length in range(3) for key in product(range(3), repeat=length)]
    first = []
    for seed in (0, 7):
        streams = [stream(seed, purpose, *key) for purpose in Purpose for key in keys]
        spawned = [(), *((purpose, *key) for purpose in purposes for key in keys)]
        sequences = [np.random.SeedSequence(seed, spawn_key=key) for key in spawned]
        streams += map(np.random.default_rng, sequences)
        first += [tuple(one.random(2)) for one in streams]
    assert len(set(first)) == len(first)


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
    assert drawn[0] != drawn[1]
    assert not {drawn[0], drawn[1]} & {*crashes, float(np.random.default_rng(7).exponential(10.0))}


def test_the_same_seed_alone_gives_the_same_bits_in_every_process() -> None:
    here = busy.fingerprint(busy.run())
    assert busy.fingerprint(busy.run()) == here != busy.fingerprint(busy.run(2))
    code = "from tests.runtime import busy; print(busy.fingerprint(busy.run()))"
    for hash_seed in ("1", "4242"):
        assert printed(code, PYTHONHASHSEED=hash_seed).strip() == here


def test_and_within_a_notebooks_event_loop() -> None:
    async def cell() -> str:
        return busy.fingerprint(busy.run())

    assert in_event_loop(cell()) == busy.fingerprint(busy.run())


def test_a_run_with_everything_in_it_ends_alike_without_a_trace() -> None:
    traced = busy.run()
    assert traced.trace is not None
    lanes = set(traced.trace.frame["lane"].to_list())
    assert {"compute", "fault", "to node0", "to node3"} <= lanes
    assert sum(use.lost for use in traced.links) > 0
    assert len(traced.trace.frame) > 100
    plain = simulate(busy.cluster(), [busy.gossip] * 4, seed=1, faults=busy.faults())
    assert (plain.end_s, plain.events, plain.links) == (traced.end_s, traced.events, traced.links)
    assert plain.trace is None
