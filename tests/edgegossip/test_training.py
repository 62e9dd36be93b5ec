"""EdgeGossip in one call: the same as both parts made by hand, with sensible defaults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.edgegossip.strategies import platforms
from tests.refusals import refusals
from workbench import datasets, decentralised
from workbench.datasets import partition
from workbench.decentralised import GossipSetup
from workbench.edgegossip import EdgeGossip, Setup, train
from workbench.edgegossip.costs.platforms import cluster
from workbench.training import Sgd, initialise

DIGITS = datasets.load("digits").limit(train=120, test=20, seed=1).fitted((1, 28, 28))


def linear() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))


def test_it_is_gossip_that_selects() -> None:
    who = platforms(0.01, 0.02, 0.04)
    setup = Setup(
        linear, DIGITS, who, epochs=2, batch_size=8, sgd=Sgd(0.02), seed=3, uplink_bps=1e8,
        overhead_s=0.01,
    )  # fmt: skip
    ours = EdgeGossip(technique="hash_kmeans", ratio=5, balancer="literal")
    trained, expected = train(setup, ours, trace=True), decentralised.train(setup, ours)
    assert trained.epochs.equals(expected.epochs)
    assert all(map(torch.equal, trained.weights, expected.weights))
    assert trained.epochs.filter(epoch=1).sort("node")["samples"].to_list() == [40, 20, 10]
    assert trained.run.trace is not None


def test_without_selecting_it_is_the_gossip_of_the_same_nodes() -> None:
    who = platforms(0.01, 0.02, 0.04)
    setup = Setup(linear, DIGITS, who, batch_size=8, seed=3, uplink_bps=1e8, overhead_s=0.01)
    gossip = GossipSetup(
        linear, DIGITS, partition.by_size(DIGITS.y_train, [1, 1, 1], seed=3),
        cluster(who, 1e8, 0.01), batch_size=8,
        exchange=decentralised.Gossip(decentralised.complete(3)), seed=3,
        sample_s=[0.01, 0.02, 0.04],
    )  # fmt: skip
    found, expected = decentralised.train(setup), decentralised.train(gossip)
    assert found.epochs.equals(expected.epochs)
    assert all(map(torch.equal, found.weights, expected.weights))
    with pytest.raises(ValueError, match="platforms, which a GossipSetup has not; give an edgego"):
        decentralised.train(gossip, EdgeGossip())


def test_a_model_of_ones_own_on_a_graph_or_matrix() -> None:
    ring = decentralised.ring(4)
    matrix = decentralised.metropolis_hastings(ring).matrix
    who = platforms(0.01, 0.01, 0.02, 0.02)
    runs = [
        train(Setup(model, DIGITS, who, exchange=decentralised.Gossip(mixing), epochs=3))
        for model, mixing in (
            (linear, ring),
            (initialise(linear, 0), matrix),
            (linear, matrix.tolist()),
        )
    ]
    assert all(one.epochs.equals(runs[0].epochs) for one in runs)
    assert runs[0].epochs.filter(epoch=3).sort("node")["samples"].to_list() == [30, 30, 15, 15]


def test_shards_of_ones_own() -> None:
    shards = (np.arange(100), np.arange(100, 120))
    setup = Setup(linear, DIGITS, platforms(0.01, 0.01), shards=shards)
    assert [one.tolist() for one in setup.held] == [one.tolist() for one in shards]
    assert [len(one) for one in EdgeGossip().fitted(setup).shards] == [100, 20]


def test_slower_platform_needs_a_node_of_its_speed_in_a_cluster_of_ones_own() -> None:
    who = [replace(platform, slower=3.0) for platform in platforms(0.01, 0.01)]
    slow, quick = cluster(who, 1e9, 0.0), cluster(platforms(0.01, 0.01), 1e9, 0.0)
    assert Setup(linear, DIGITS, who, cluster=slow).network is slow
    with pytest.raises(ValueError, match=r"p0 is slowed .* slower=3, but .* Node\('p0', speed="):
        Setup(linear, DIGITS, who, cluster=quick)


def test_a_network_of_ones_own() -> None:
    who = platforms(0.01, 0.01)
    slow = replace(Setup(linear, DIGITS, who), cluster=cluster(who, 1e6, 2.0))
    assert train(slow).run.end_s > 2.0 > train(Setup(linear, DIGITS, who)).run.end_s


SETUP = Setup(linear, DIGITS, platforms(0.01, 0.01), epochs=1)
test_setup_refused = refusals(
    Setup,
    {"model": linear, "dataset": DIGITS, "platforms": SETUP.platforms},
    {
        "platforms": {
            r"a platform is 'pi'; give an edgegossip\.Platform": [["pi"]],
            "there are no platforms": [[]],
        },
        "exchange": {
            "mixing is for 3 nodes, not for 2": [decentralised.Gossip(decentralised.ring(3))],
            r"give one such as decentralised\.Gossip": [decentralised.ring(2)],
        },
        "shards": {"1 shards for a cluster of 2 nodes": [[np.arange(9)]]},
        "cluster": {
            "platforms are p0, p1, the cluster's nodes p.*; give as many, in the same": [
                cluster(platforms(1, 1)[::-1], 1e9),
                cluster(platforms(1, 1, 1), 1e9),
            ],
        },
    },
)
test_options_refused = refusals(
    lambda setup=SETUP, **options: train(setup, EdgeGossip(**options)),
    {},
    {
        "setup": {
            "DiLoCo needs as many batches on each": [
                replace(SETUP, exchange=decentralised.DiLoCo(1))
            ]
        },
        "strategy": {"Did you mean 'importance'": ["important"]},
        "technique": {"technique of Table 3": ["pca_kmeans"]},
        "ratio": {"p0 has 60 points, less than one aggregated point": [100]},
    },
)


@pytest.mark.parametrize("how", [0, "edgegossip", EdgeGossip, decentralised.EverySample()])
def test_anything_but_options_is_refused(how: Any) -> None:
    with pytest.raises(TypeError, match=r"how is .*; give options, such as EdgeGossip\(ratio=5\)"):
        train(SETUP, how)
