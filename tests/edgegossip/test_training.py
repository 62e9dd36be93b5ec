"""EdgeGossip in one call: the same as both parts made by hand, with sensible defaults."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

from workbench import datasets, decentralised, edgegossip
from workbench.datasets import partition
from workbench.decentralised import GossipSetup, TrainingError
from workbench.edgegossip import EdgeGossip, Platform, Predictor, train
from workbench.edgegossip.costs.platforms import cluster
from workbench.edgegossip.training.train import build
from workbench.names import UnknownNameError
from workbench.runtime import Crash
from workbench.training import Sgd

DIGITS = datasets.load("digits").limit(train=120, test=20, seed=1).fitted((1, 28, 28))


def platforms(*slower: float) -> list[Platform]:
    return [
        Platform(f"p{at}", Predictor("linear", 4, 1.0, 1.0, (1.0, 1.0, 1.0), 0.01 * factor))
        for at, factor in enumerate(slower)
    ]


def linear() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))


def test_equals_its_parts() -> None:
    who = platforms(1, 2, 4)
    found = train(
        "lenet5", DIGITS, who, epochs=2, batch_size=8, sgd=Sgd(0.02), ratio=5, seed=3,
        technique="hash_kmeans", uplink_bps=1e8, overhead_s=0.01, trace=True,
    )  # fmt: skip
    shards = partition.by_size(DIGITS.y_train, [1, 1, 1], seed=3)
    setup = GossipSetup(
        "lenet5", DIGITS, shards, cluster(who, 1e8, 0.01), batch_size=8, epochs=2,
        mixing=decentralised.metropolis_hastings(decentralised.complete(3)), sgd=Sgd(0.02), seed=3,
        sample_s=[0.01, 0.02, 0.04],
    )  # fmt: skip
    ours = EdgeGossip(who, shards, technique="hash_kmeans", ratio=5, seed=3)
    expected = decentralised.train(setup, ours)
    assert found.epochs.equals(expected.epochs)
    assert all(map(torch.equal, found.weights, expected.weights))
    assert found.epochs.filter(epoch=1).sort("node")["samples"].to_list() == [40, 20, 10]
    assert found.run.trace is not None


def test_a_model_of_ones_own_on_a_graph_or_matrix() -> None:
    ring = decentralised.ring(4)
    matrix = decentralised.metropolis_hastings(ring).matrix
    runs = [
        train(model, DIGITS, platforms(1, 1, 2, 2), mixing=mixing, epochs=3)
        for model, mixing in ((linear, ring), (linear(), matrix), (linear, matrix.tolist()))
    ]
    assert all(one.epochs.equals(runs[0].epochs) for one in runs)
    assert runs[0].epochs.filter(epoch=3).sort("node")["samples"].to_list() == [30, 30, 15, 15]


def test_plain_gossip_beside_it() -> None:
    plain = decentralised.train(build(linear, DIGITS, platforms(1, 3)).setup)
    assert plain.epochs["samples"].to_list() == [60, 60]


def test_shards_of_ones_own() -> None:
    shards = (np.arange(100), np.arange(100, 120))
    built = build(linear, DIGITS, platforms(1, 1), shards=shards)
    for part in (built.setup, built.selecting):
        assert [one.tolist() for one in part.shards] == [one.tolist() for one in shards]


def test_failures_need_patience_and_are_told() -> None:
    crash = [Crash("p1", 0.1)]
    with pytest.raises(ValueError, match=r"give patience_s=\.\.\., the seconds"):
        train(linear, DIGITS, platforms(1, 1, 1), faults=crash)
    with pytest.raises(TrainingError, match="1 of 3 platforms have failed"):
        train(
            linear, DIGITS, platforms(1, 1, 1), faults=crash, patience_s=0.5, epochs=9,
            on_failures="stop",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strategie": "importance"}, "unknown option 'strategie'. Did you mean 'strategy'"),
        ({"probability": 0.1}, "unknown option 'probability': .* in GoSGD no exchange"),
        ({"sample_s": 0.1}, "unknown option 'sample_s'"),
        ({"platforms": ["pi"]}, r"a platform is 'pi'; give an edgegossip\.Platform"),
        ({"platforms": []}, "there are no platforms"),
        ({"dataset": "digits"}, "dataset is the name 'digits'"),
        ({"uplink_bps": 0}, "uplink_bps is 0; give bits per second above 0"),
        ({"uplink_bps": "fast"}, "uplink_bps is 'fast'; give a number"),
        ({"mixing": "ring"}, r"mixing is 'ring'; give gossip\.Mixing"),
        ({"mixing": decentralised.ring(3)}, "mixing is for 3 nodes, not for 2"),
        ({"shards": [np.arange(9)]}, "2 platforms, 1 shards"),
        ({"ratio": 100}, "p0 has 60 points, less than one aggregated point"),
        ({"epochs": 0}, "epochs is 0"),
    ],
)
def test_refused(changes: dict[str, Any], message: str) -> None:
    good = {"model": linear, "dataset": DIGITS, "platforms": platforms(1, 1)}
    with pytest.raises(ValueError, match=message):
        train(**{**good, **changes})


def test_parts_that_never_meet_are_refused() -> None:
    with pytest.raises(ValueError, match="never hear of each other"):
        train(linear, DIGITS, platforms(1, 1, 1, 1), mixing=nx.Graph([(0, 1), (2, 3)]))
    with pytest.raises(UnknownNameError):
        train(linear, DIGITS, platforms(1), technique="pca_kmeans")


def test_all_that_a_user_needs_is_in_the_package() -> None:
    for name in edgegossip.__all__:
        assert getattr(edgegossip, name) is not None
    assert {
        "EdgeGossip", "Platform", "Predictor", "Monitor", "Store", "fit", "profiling_runs", "train",
        "aggregate",
    } <= set(edgegossip.__all__)  # fmt: skip
