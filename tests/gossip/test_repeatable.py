"""The same bits each time, in any process, with faults, dropout or normalisation."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.gossip.setups import DIGITS, epochwise, gosgd
from workbench import gossip
from workbench.gossip import GossipSetup, train
from workbench.paths import ROOT
from workbench.runtime import Crash, Restart


def digest(how: str, seed: int = 3) -> str:
    """Hash of all weights and rows of a run with a crash."""
    common: dict[str, Any] = {"epochs": 6, "patience_s": 1.0, "evaluate_every": 2, "seed": seed}
    of = gossip.random_regular(4, 3, seed=1)
    setup = epochwise(of, **common) if how == "epochwise" else gosgd(of, 0.5, **common)
    found = train(setup, faults=[Crash(2, 0.7), Restart(2, 1.1)])
    assert found.epochs["restarts"].max() == 1
    whole = hashlib.sha256(found.epochs.write_csv().encode())
    for weights in found.weights:
        whole.update(weights.numpy().tobytes())
    return whole.hexdigest()


@pytest.mark.parametrize("how", ["epochwise", "gosgd"])
def test_another_process_gives_the_same_bits(how: str) -> None:
    here = digest(how)
    assert digest(how) == here != digest(how, seed=4)
    there = subprocess.check_output(
        [sys.executable, "-c", f"from {__name__} import digest; print(digest({how!r}))"],
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "2"},
    )
    assert there.strip() == here


def test_buffers_and_dropout_too() -> None:
    data = DIGITS.limit(train=16, test=8).fitted((3, 32, 32))
    of = epochwise(gossip.ring(2))
    changes = {**vars(of), "dataset": data, "shards": [range(8), range(8, 16)], "epochs": 2}
    for model in ("resnet20_cifar", "mobilenet_v2_cifar"):
        setup = GossipSetup(**{**changes, "model": model})
        one, again = train(setup), train(setup)
        assert one.epochs.equals(again.epochs)
        assert all(a.equal(b) for a, b in zip(one.weights, again.weights, strict=True))
