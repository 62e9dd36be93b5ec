"""Weights with the same bits in every process, and within a notebook's event loop."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.dynacomm.training import trainings
from tests.event_loop import in_event_loop
from workbench.dynacomm.training import train
from workbench.paths import ROOT


@pytest.fixture(scope="module")
def here() -> str:
    return trainings.fingerprint(trainings.everything())


@pytest.mark.parametrize("hash_seed", ["1", "4242"])
def test_another_process_learns_the_same_bits(here: str, hash_seed: str) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "tests.dynacomm.training.trainings"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == here


def test_and_so_does_a_running_event_loop(here: str) -> None:
    async def cell() -> str:
        return trainings.fingerprint(trainings.everything())

    assert in_event_loop(cell()) == here


def test_another_seed_has_another_fingerprint() -> None:
    one, other = (
        trainings.fingerprint(train(setup))
        for setup in (trainings.LENET, replace(trainings.LENET, seed=4))
    )
    assert one != other


def test_any_number_of_threads_learns_the_same_bits() -> None:
    setup = replace(trainings.LENET, workers=3)
    found = {trainings.fingerprint(train(setup, threads=threads)) for threads in (1, 2, 5)}
    assert len(found) == 1
