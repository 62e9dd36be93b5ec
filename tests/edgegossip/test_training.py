"""EdgeGossip in one call: the same as both parts made by hand, with sensible defaults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

from workbench import datasets, decentralised, edgegossip
from workbench.datasets import partition
from workbench.decentralised import GossipSetup, TrainingError
from workbench.edgegossip import EdgeGossip, Platform, Predictor, Setup, train
from workbench.edgegossip.costs.platforms import cluster
from workbench.names import UnknownNameError
from workbench.runtime import Crash
from workbench.training import Sgd, initialise

DIGITS = datasets.load("digits").limit(train=120, test=20, seed=1).fitted((1, 28, 28))


def platforms(*slower: float) -> list[Platform]:
    return [
        Platform(f"p{at}", Predictor("linear", 4, 1.0, 1.0, (1.0, 1.0, 1.0), 0.01 * factor))
        for at, factor in enumerate(slower)
    ]


def linear() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))


def test_options_may_be_a_value() -> None:
    who = platforms(1, 2, 4)
    setup = Setup(
        "lenet5", DIGITS, who, epochs=2, batch_size=8, sgd=Sgd(0.02), seed=3, uplink_bps=1e8,
        overhead_s=0.01,
    )  # fmt: skip
    found = train(setup, ratio=5, technique="hash_kmeans", balancer="literal", trace=True)
    ours = EdgeGossip(technique="hash_kmeans", ratio=5, balancer="literal")
    expected = decentralised.train(setup, ours)
    assert found.epochs.equals(expected.epochs)
    assert all(map(torch.equal, found.weights, expected.weights))
    assert found.epochs.filter(epoch=1).sort("node")["samples"].to_list() == [40, 20, 10]
    assert found.run.trace is not None


def test_without_selecting_it_is_the_gossip_of_the_same_nodes() -> None:
    who = platforms(1, 2, 4)
    setup = Setup("lenet5", DIGITS, who, batch_size=8, seed=3, uplink_bps=1e8, overhead_s=0.01)
    gossip = GossipSetup(
        "lenet5", DIGITS, partition.by_size(DIGITS.y_train, [1, 1, 1], seed=3),
        cluster(who, 1e8, 0.01), batch_size=8,
        mixing=decentralised.metropolis_hastings(decentralised.complete(3)), seed=3,
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
    runs = [
        train(Setup(model, DIGITS, platforms(1, 1, 2, 2), mixing=mixing, epochs=3))  # type: ignore[arg-type]
        for model, mixing in (
            (linear, ring),
            (initialise(linear, 0), matrix),
            (linear, matrix.tolist()),
        )
    ]
    assert all(one.epochs.equals(runs[0].epochs) for one in runs)
    assert runs[0].epochs.filter(epoch=3).sort("node")["samples"].to_list() == [30, 30, 15, 15]


def test_plain_gossip_beside_it() -> None:
    plain = decentralised.train(Setup(linear, DIGITS, platforms(1, 3)))
    assert plain.epochs["samples"].to_list() == [60, 60]


def test_shards_of_ones_own() -> None:
    shards = (np.arange(100), np.arange(100, 120))
    setup = Setup(linear, DIGITS, platforms(1, 1), shards=shards)
    assert [one.tolist() for one in setup.held] == [one.tolist() for one in shards]
    assert [len(one) for one in EdgeGossip().fitted(setup).shards] == [100, 20]


def test_failures_need_patience_and_are_told() -> None:
    crash = [Crash("p1", 0.1)]
    setup = Setup(linear, DIGITS, platforms(1, 1, 1), epochs=9)
    with pytest.raises(ValueError, match=r"give patience_s=\.\.\., the seconds"):
        train(setup, faults=crash)
    with pytest.raises(TrainingError, match="1 of 3 platforms have failed"):
        train(replace(setup, patience_s=0.5), faults=crash, on_failures="stop")


def test_a_network_of_ones_own() -> None:
    who = platforms(1, 1)
    slow = replace(Setup(linear, DIGITS, who), cluster=cluster(who, 1e6, 2.0))
    assert train(slow).run.end_s > 2.0 > train(Setup(linear, DIGITS, who)).run.end_s


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"platforms": ["pi"]}, r"a platform is 'pi'; give an edgegossip\.Platform"),
        ({"platforms": []}, "there are no platforms"),
        ({"dataset": "digits"}, "dataset is the name 'digits'"),
        ({"uplink_bps": 0}, r"uplink_bps is 0\.0; it must be finite and above 0"),
        ({"uplink_bps": "fast"}, "uplink_bps is 'fast'; give a number"),
        ({"mixing": "ring"}, r"mixing is 'ring'; give a Mixing"),
        ({"mixing": decentralised.ring(3)}, "mixing is for 3 nodes, not for 2"),
        ({"shards": [np.arange(9)]}, "1 shards for a cluster of 2 nodes"),
        ({"uplink_bps": float("inf")}, "uplink_bps is inf; it must be finite"),
        ({"overhead_s": -1}, "overhead_s"),
        ({"cluster": 5}, "cluster is 5"),
        (
            {"cluster": cluster(platforms(1, 1)[::-1], 1e9)},
            "the platforms are p0, p1, the cluster's nodes p1, p0; give as many, in the same",
        ),
        ({"cluster": cluster(platforms(1, 1, 1), 1e9)}, "the platforms are p0, p1, the cluster"),
        ({"batch_size": 0}, "batch_size is 0"),
    ],
)
def test_refused(changes: dict[str, Any], message: str) -> None:
    good = {"model": linear, "dataset": DIGITS, "platforms": platforms(1, 1)}
    with pytest.raises(ValueError, match=message):
        Setup(**{**good, **changes})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"techniqe": "hash_kmeans"}, "unknown option 'techniqe'. Did you mean 'technique'"),
        ({"shards": []}, "unknown option 'shards'"),
        ({"strategy": "important"}, "Did you mean 'importance'"),
        ({"ratio": 100}, "p0 has 60 points, less than one aggregated point"),
    ],
)
def test_refused_with_a_good_setup(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(Setup(linear, DIGITS, platforms(1, 1)), **options)


def test_parts_that_never_meet_are_refused() -> None:
    with pytest.raises(ValueError, match="never hear of each other"):
        train(Setup(linear, DIGITS, platforms(1, 1, 1, 1), mixing=nx.Graph([(0, 1), (2, 3)])))
    with pytest.raises(UnknownNameError):
        train(Setup(linear, DIGITS, platforms(1)), technique="pca_kmeans")


def test_all_that_a_user_needs_is_in_the_package() -> None:
    for name in edgegossip.__all__:
        assert getattr(edgegossip, name) is not None
    assert {
        "EdgeGossip", "Platform", "Predictor", "Monitor", "Setup", "fit", "profiling_runs",
        "train", "aggregate",
    } <= set(edgegossip.__all__)  # fmt: skip
