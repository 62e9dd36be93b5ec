from __future__ import annotations

import os
import subprocess
import sys

from tests.event_loop import in_event_loop
from tests.runtime import busy
from workbench.paths import ROOT
from workbench.runtime import simulate


def test_the_same_seed_gives_the_same_bits_in_every_process() -> None:
    here = busy.fingerprint(busy.run())
    assert busy.fingerprint(busy.run()) == here
    for hash_seed in ("1", "4242"):
        told = subprocess.run(
            [sys.executable, "-m", "tests.runtime.busy"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert told.stdout.strip() == here


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
