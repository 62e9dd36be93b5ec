"""A setup that cannot run is refused before anything runs, and rows add up."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.decentralised.setups import epochwise, mixing_of
from workbench import datasets, decentralised, dlion
from workbench.clusters import Cluster, Link, MissingLinkError, Node
from workbench.decentralised import DiLoCo, EverySample, GoSgd, Gossip, GossipSetup, View
from workbench.decentralised.recorder import Spread
from workbench.utils.checks import UnknownNameError

GOOD = epochwise(decentralised.ring(4))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patience_s": 7.9e-5}, r"patience_s is 7\.9e-05, .* heartbeats .* 8e-05, .* of 0\.08 s"),
        ({"shards": [np.arange(4)] * 3}, "3 shards for a cluster of 4 nodes"),
        *(
            ({"shards": [shard] * 4}, r"shard of node 0 is \[.*; give the indices .* 0 to 95")
            for shard in (np.arange(0), np.arange(200), -np.arange(3), np.ones(3))
        ),
        (
            {"shards": [[0, [1]]] * 4},
            r"shards is \[\[0, \[1\]\], .*; give the indices of each",
        ),
        ({"exchange": decentralised.ring(4)}, "give one such as decentralised.Gossip"),
        ({"exchange": Gossip(decentralised.ring(3))}, "for 3 nodes, not for 4"),
        ({"exchange": DiLoCo()}, "no link leads from node0 to node2"),
        ({"sample_s": [1.0, 2.0]}, "give one number for all nodes, or 4, one for each"),
        ({"sample_s": [1.0, 2.0, math.inf, 1.0]}, "sample_s is .* above 0 and finite"),
        ({"sample_s": ["a"] * 4}, "sample_s is"),
        ({"flops_per_s": math.inf}, "flops_per_s"),
        *(({"sample_s": numbers}, "where order counts; give") for numbers in ({0.5, 0.25}, {0: 1})),
        *(({"shards": shards}, "where order counts; give") for shards in ({(0, 1)}, {(0, 1): 1})),
    ],
)
def test_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(GOOD, **changes)


def test_costs_of_ones_own_model_are_those_of_its_profile_and_trying_it_draws_nothing() -> None:
    def made() -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Linear(64, 12), torch.nn.ReLU(), torch.nn.Linear(12, 10)
        )

    before = torch.get_rng_state()
    setup = replace(GOOD, model=made, sample_s=None, flops_per_s=1e6)
    assert torch.equal(torch.get_rng_state(), before)
    operations = 2 * (64 * 12 + 120) * 3  # forward, and twice that backward
    assert setup.seconds_per_sample == pytest.approx((operations / 1e6,) * 4)


def test_a_fast_node_has_short_batches() -> None:
    fast = epochwise(decentralised.ring(4), speeds=[1, 1, 1, 10], patience_s=1e-5)
    assert fast.patience_s == 1e-5
    with pytest.raises(ValueError, match=r"at least 8e-06, .* of 0\.008 s"):
        replace(fast, patience_s=7e-6)


def test_links_and_names_are_looked_up_first() -> None:
    with pytest.raises(MissingLinkError, match="from node0 to node2"):
        replace(GOOD, exchange=Gossip(decentralised.complete(4)))
    with pytest.raises(UnknownNameError, match="lenet5"):
        replace(GOOD, model="lenet")
    apart = Cluster([Node("one"), Node("other")])
    with pytest.raises(ValueError, match="no link leads from one; give it one"):
        replace(GOOD, cluster=apart, shards=GOOD.held[:2], exchange=GoSgd(0.5))


@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=3), batch_size=st.integers(1, 12))
def test_every_sample_is_learnt_from_once_an_epoch(sizes: list[int], batch_size: int) -> None:
    for node, size in enumerate(sizes):
        shard = np.arange(100, 100 + size)
        view: Any = View(node, 0.0, None, None, shard, batch_size, 0)  # type: ignore[arg-type]
        orders = []
        for epoch in (1, 2):
            _, batches, cost_s = EverySample(1).step(None, epoch, view)
            assert cost_s == 0
            assert all(len(batch) == batch_size for batch in batches[:-1])
            assert 1 <= len(batches[-1]) <= batch_size
            orders.append(np.concatenate(batches).tolist())
            assert sorted(orders[-1]) == shard.tolist()
        assert size < 8 or orders[0] != orders[1]


@given(
    values=st.lists(
        st.lists(st.floats(-5, 5, width=32), min_size=3, max_size=3), min_size=1, max_size=6
    ),
    offset=st.sampled_from([0.0, 1000.0]),
)
def test_spread_is_the_distance_from_the_mean(values: list[list[float]], offset: float) -> None:
    models = np.array(values, dtype=np.float32) + np.float32(offset)
    spread = Spread()
    for node, model in enumerate(models):
        spread.add(node, torch.from_numpy(model))
    exact = models.astype(float)
    expected = np.sqrt(((exact - exact.mean(0)) ** 2).sum(1).mean())
    assert spread.error == pytest.approx(expected, abs=1e-6)


def test_gossip_along_all_links_is_the_default() -> None:
    assert (
        mixing_of(replace(GOOD, exchange=None)).matrix.tolist() == mixing_of(GOOD).matrix.tolist()
    )


def test_rounds_take_as_many_batches_of_each_node() -> None:
    full = epochwise(decentralised.complete(3), shards=[np.arange(8), np.arange(8), np.arange(9)])
    with pytest.raises(ValueError, match="from 1 to 2 batches an epoch, but DiLoCo needs as many"):
        replace(full, exchange=DiLoCo())


@pytest.mark.parametrize("selecting", ["x", decentralised.EverySample])
def test_anything_but_a_selecting_is_refused(selecting: Any) -> None:
    with pytest.raises(TypeError, match=r"selecting is .*; give a decentralised.MakeSelector"):
        decentralised.train(GOOD, selecting)


def test_tables_have_the_nodes_names() -> None:
    digits = datasets.load("digits").limit(train=20, test=10).fitted((1, 28, 28))
    nodes = [Node("laptop"), Node("pi")]
    where = Cluster(nodes, {("laptop", "pi"): Link(1e9), ("pi", "laptop"): Link(1e9)})
    shards = [np.arange(10), np.arange(10, 20)]
    gossip = GossipSetup("lenet5", digits, shards, where)
    found = dlion.train(dlion.Setup("lenet5", digits, cluster=where, iterations=2, local_batch=5))
    epochs = [decentralised.train(gossip).epochs, found.epochs]
    for table in (*epochs, found.iterations, found.evaluations):
        named = set(table.select("node", "name").iter_rows())
        assert named == {(0, "laptop"), (1, "pi")}
    arrived = found.transfers.select("source", "source_name", "target", "target_name")
    assert set(arrived.iter_rows()) == {(0, "laptop", 1, "pi"), (1, "pi", 0, "laptop")}
