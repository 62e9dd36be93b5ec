"""What is listed of OLPB: every method, scan and planner, each with a line that says what it is."""

from __future__ import annotations

import subprocess
import sys

import pytest

from workbench import graphs
from workbench.cli import _summary
from workbench.olpb.algorithms import ALGORITHMS, METHODS
from workbench.olpb.algorithms.levels import flow, groups


def test_all_are_listed() -> None:
    assert list(ALGORITHMS) == ["methods", "scans", "planners"]
    assert list(METHODS) == ["olpb", "bppsa", "dpb", "sequential"]
    for registry in ALGORITHMS.values():
        lines = [_summary(one) for one in registry.values()]
        assert all(len(line) > 20 for line in lines)
        assert len(set(lines)) == len(lines)


def test_listing_them_imports_no_pytorch() -> None:
    code = "import sys, workbench.olpb.algorithms; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("model", ["lenet5", "squeezenet"])
def test_methods_are_groups_of_the_networks_operators(model: str) -> None:
    network = flow(graphs.trace(model, batch_size=2, training=True))
    assert METHODS["olpb"](network, 3) == groups(network, "operator", 3)
    for method in ("bppsa", "dpb", "sequential"):
        assert METHODS[method](network, 3) == groups(network, "layer", 1)
    fewer, more = (len(METHODS["olpb"](network, level)) for level in (3, 2))
    assert len(METHODS["bppsa"](network, 1)) < more
    assert fewer < more
