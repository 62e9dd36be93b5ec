"""A seed gives the same bits in any process, and every purpose numbers of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

from tests.event_loop import in_event_loop
from tests.runtime import busy
from workbench.clusters import Cluster, Link, Node
from workbench.runtime import Context, Crash, draw_faults, simulate
from workbench.runtime.faults import Purpose, stream
from workbench.training import repeatable
from workbench.utils.files import ROOT


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
    assert drawn[0] != drawn[1]
    assert not {drawn[0], drawn[1]} & {*crashes, float(np.random.default_rng(7).exponential(10.0))}


def test_the_same_seed_gives_the_same_bits_in_every_process() -> None:
    here = busy.fingerprint(busy.run())
    assert busy.fingerprint(busy.run()) == here
    for hash_seed in ("1", "4242"):
        other = subprocess.run(
            [sys.executable, "-m", "tests.runtime.busy"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert other.stdout.strip() == here


def test_and_within_a_notebooks_event_loop() -> None:
    async def cell() -> str:
        return busy.fingerprint(busy.run())

    assert in_event_loop(cell()) == busy.fingerprint(busy.run())


def test_another_seed_gives_another_run() -> None:
    assert busy.fingerprint(busy.run(2)) != busy.fingerprint(busy.run(1))


def test_the_run_has_everything_in_it() -> None:
    run = busy.run()
    assert run.trace is not None
    lanes = set(run.trace.frame["lane"].to_list())
    assert {"compute", "fault", "to node0", "to node3"} <= lanes
    assert sum(use.lost for use in run.links) > 0
    assert len(run.trace.frame) > 100


def test_watching_changes_nothing() -> None:
    """A trace costs nothing but time: the run without it ends alike."""
    traced = busy.run()
    plain = simulate(busy.cluster(), [busy.gossip] * 4, seed=1, faults=busy.faults())
    assert (plain.end_s, plain.events, plain.links) == (traced.end_s, traced.events, traced.links)
    assert plain.trace is None
