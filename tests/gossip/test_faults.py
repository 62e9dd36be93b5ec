"""Whatever fails, drawn at random: runs end, and nobody's model leaves where all models were."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gossip.setups import epochwise, gosgd, scattered
from workbench import gossip
from workbench.clusters import Cluster
from workbench.gossip import train
from workbench.runtime import Crash, Fault, Restart, draw_faults

EPOCHS = 12


def drawn(seed: int, cluster: Cluster) -> tuple[Fault, ...]:
    return draw_faults(
        seed,
        cluster,
        until_s=15,
        crash_every_s=15,
        down_s=3,
        slow_every_s=10,
        link_down_every_s=20,
    )


@pytest.mark.parametrize("seed", range(8))
def test_epochwise(seed: int) -> None:
    setup = epochwise(gossip.random_regular(6, 3), epochs=EPOCHS, patience_s=1.0)
    faults = drawn(seed, setup.cluster)
    assert {type(fault) for fault in faults} >= {Crash, Restart}
    first, found = scattered(setup, faults)
    assert found.run.ended == "done"
    last = found.epochs.group_by("node").last()
    assert last["epoch"].to_list() == [EPOCHS] * 6  # all that crash come back
    models = np.stack([one.double().numpy() for one in found.weights])
    # Who begins anew does so with the first model of all, which is near zero.
    low, high = first.min(0).clip(max=-0.5) - 1e-5, first.max(0).clip(min=0.5) + 1e-5
    assert ((low <= models) & (models <= high)).all()


@pytest.mark.parametrize("seed", range(4))
def test_gosgd(seed: int) -> None:
    setup = gosgd(gossip.random_regular(6, 3), 0.4, epochs=EPOCHS, batch_size=16, patience_s=1.0)
    found = train(setup, faults=drawn(seed, setup.cluster))
    assert found.run.ended == "done"
    assert found.epochs.group_by("node").last()["epoch"].to_list() == [EPOCHS] * 6
    alphas = list(found.run.results.values())
    assert len(alphas) == 6
    assert min(alphas) > 0
    # Who begins anew, because nobody answers, brings another sixth; nothing else adds any.
    anew = sum(
        bool(len(found.epochs.filter(node=node, epoch=1, restarts=life)))
        for node in range(6)
        for life in range(1, 9)
    )
    assert sum(alphas) <= 1 + anew / 6 + 1e-9
