"""Sweeps on a Ray cluster, in a process that has no other Ray."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

CASES = Path(__file__).with_name("ray_cluster.py")


@pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray")
def test_cases_of_a_ray_cluster() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", str(CASES)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
