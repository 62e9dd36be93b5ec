"""Whatever fails, drawn at random: runs end, and nobody's model leaves where all models were."""

from __future__ import annotations

import networkx as nx
import numpy as np
import polars as pl
import pytest

from tests.decentralised.setups import LINK, epochwise, gosgd, models, scattered
from tests.long import usually
from workbench import decentralised
from workbench.clusters import Cluster, Node
from workbench.decentralised import GossipSetup, train
from workbench.runtime import Crash, Fault, Lossy, Restart, draw_faults

EPOCHS = 12


def drawn(seed: int, cluster: Cluster) -> tuple[Fault, ...]:
    often_s = {"crash_every_s": 15, "slow_every_s": 10, "link_down_every_s": 20}
    return draw_faults(seed, cluster, until_s=15, down_s=3, **often_s)


@pytest.mark.parametrize("seed", usually(range(3), range(8)))
def test_epochwise(seed: int) -> None:
    setup = epochwise(decentralised.random_regular(6, 3), epochs=EPOCHS, patience_s=1.0)
    faults = drawn(seed, setup.cluster)
    assert {type(fault) for fault in faults} >= {Crash, Restart}
    lossy = (Lossy(2, peer, 0.5) for peer in setup.cluster.targets(2))
    first, found = scattered(setup, [*faults, *lossy])
    assert found.run.ended == "done"
    last = found.epochs.group_by("node").last()
    assert last["epoch"].to_list() == [EPOCHS] * 6  # all that crash come back
    # Who begins again does so with the first model of all, which is near zero.
    low, high = first.min(0).clip(max=-0.5) - 1e-5, first.max(0).clip(min=0.5) + 1e-5
    assert ((low <= models(found)) & (models(found) <= high)).all()


@pytest.mark.parametrize("seed", usually(range(2), range(4)))
def test_gosgd(seed: int) -> None:
    setup = gosgd(
        decentralised.random_regular(6, 3), 0.4, epochs=EPOCHS, batch_size=16, patience_s=1.0
    )
    lossy = Lossy(0, setup.cluster.targets(0)[0], 0.5)
    found = train(setup, faults=[*drawn(seed, setup.cluster), lossy])
    assert found.run.ended == "done"
    assert found.epochs.group_by("node").last()["epoch"].to_list() == [EPOCHS] * 6
    alphas = found.run.results
    assert len(alphas) == 6
    assert sum(alphas.values()) <= 1 + 1e-12
    weightless = {node for node, alpha in alphas.items() if alpha == 0}
    assert weightless <= set(found.epochs.filter(pl.col("restarts") > 0)["node"])


def one_way(nodes: int, links: set[tuple[int, int]], epochs: int) -> GossipSetup:
    """GoSGD along links that need not lead back."""
    cluster = Cluster([Node(f"node{index}") for index in range(nodes)], dict.fromkeys(links, LINK))
    return gosgd(
        nx.empty_graph(nodes), 0.5, cluster=cluster, batch_size=16, epochs=epochs, patience_s=2.0
    )


def test_who_has_no_link_back_is_not_asked_for_the_model() -> None:
    setup = one_way(3, {(0, 1), (1, 2), (2, 0)}, epochs=3)
    found = train(setup, faults=[Crash("node1", 0.5), Restart("node1", 0.7)])
    again = found.epochs.filter(node=1, restarts=1)["epoch"]
    assert again.to_list() == [1, 2, 3]  # nobody could answer


@pytest.mark.parametrize("seed", usually(range(2), range(8)))
def test_gosgd_over_one_way_links(seed: int) -> None:
    draw = np.random.default_rng(seed)
    ring = draw.permutation(5).tolist()
    links = {*zip(ring, ring[1:] + ring[:1], strict=True)}  # each leads somewhere
    links |= {(i, j) for i in range(5) for j in range(5) if i != j and draw.random() < 0.2}
    setup = one_way(5, links, epochs=EPOCHS)
    faults = draw_faults(seed, setup.cluster, until_s=4, crash_every_s=2, down_s=0.5)
    assert {type(fault) for fault in faults} == {Crash, Restart}
    found = train(setup, faults=faults)
    assert found.run.ended == "done"
    assert found.epochs.group_by("node").last()["epoch"].to_list() == [EPOCHS] * 5
