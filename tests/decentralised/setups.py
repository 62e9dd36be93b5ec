"""Small runs: a linear classifier of digits, nodes that take a second for a hundred samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import torch

from workbench import datasets
from workbench.clusters import Cluster, Link, Node, graph
from workbench.datasets import partition
from workbench.decentralised import EverySample, GoSgd, Gossip, GossipSetup, Mixing, Trained, View
from workbench.decentralised.learner import PeerLearner
from workbench.decentralised.selecting import Batches
from workbench.decentralised.training import EpochPrograms
from workbench.runtime import Fault, simulate
from workbench.training import fixed_threads

DIGITS = datasets.load("digits").limit(train=96, test=32)
SAMPLE_S = 0.01
MODEL_BYTES = 4 * 650
LINK = Link(MODEL_BYTES * 8 / 0.25)  # a model takes a quarter of a second


def linear() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))


def cluster(of: nx.Graph, link: Link = LINK, speeds: Sequence[float] | None = None) -> Cluster:
    """The graph's nodes, linked as its edges say."""
    nodes = [
        Node(f"node{index}", speed=1.0 if speeds is None else speeds[index])
        for index in range(len(of))
    ]
    return graph(nodes, of.edges, link)


def epochwise(
    of: nx.Graph, *, speeds: Sequence[float] | None = None, **changes: Any
) -> GossipSetup:
    """One exchange an epoch along the graph's edges, Metropolis-Hastings weights."""
    return setup(of, speeds, exchange=Gossip(of), **changes)


def mixing_of(of: GossipSetup) -> Mixing:
    """The weights of a setup's gossip."""
    assert isinstance(of.exchange, Gossip)
    return of.exchange.mixing


def gosgd(
    of: nx.Graph, probability: float, *, speeds: Sequence[float] | None = None, **changes: Any
) -> GossipSetup:
    """GoSGD along the graph's edges."""
    return setup(of, speeds, exchange=GoSgd(probability), **changes)


def setup(of: nx.Graph, speeds: Sequence[float] | None, **changes: Any) -> GossipSetup:
    given: dict[str, Any] = {
        "model": linear,
        "dataset": DIGITS,
        "shards": partition.by_size(DIGITS.y_train, [1] * len(of), seed=0),
        "batch_size": 8,
        "epochs": 3,
        "sample_s": SAMPLE_S,
        "evaluate_every": 100,
        "cluster": cluster(of, changes.pop("link", LINK), speeds),
        "seed": 3,
        "parallel": True,
    }
    return GossipSetup(**{**given, **changes})


@dataclass(frozen=True)
class Idle(EverySample):
    """Learns nothing, for some seconds an epoch: what is left is pure mixing."""

    seconds: float = 1.0

    def step(self, state: None, epoch: int, view: View) -> tuple[None, Batches, float]:
        return None, [], self.seconds


def models(trained: Trained[Any]) -> np.ndarray:
    """Weights in the end, (nodes x elements)."""
    return np.stack([weights.double().numpy() for weights in trained.weights])


def learners(built: EpochPrograms) -> list[PeerLearner]:
    """What the nodes learn with."""
    programs: list[Any] = built.programs
    return [program.state.value for program in programs]


def scattered(of: GossipSetup, faults: Sequence[Fault] = ()) -> tuple[np.ndarray, Trained[Any]]:
    """Pure mixing of models drawn at random: the first models (nodes x elements), and the run."""
    with fixed_threads():
        built = of.programs(Idle(seconds=1.0))
        drawn = torch.Generator().manual_seed(0)
        for learner in learners(built):
            learner.flat.parameters.normal_(generator=drawn)
        first = np.stack([one.flat.parameters.double().numpy() for one in learners(built)])
        run = simulate(
            *(of.cluster, built.programs), seed=of.seed, faults=faults, observer=built.observe
        )
    return first, built.trained(run)


@dataclass(frozen=True)
class Watching:
    """All samples; notes what it is shown, choosing costs so many seconds."""

    views: dict[tuple[int, int], View]
    seconds: float = 0.0

    def fitted(self, setup: Any) -> Watching:
        return self

    def begin(self, node: int) -> int:
        return 0

    def step(self, state: int, epoch: int, view: View) -> tuple[int, Batches, float]:
        assert state == epoch - 1
        self.views[view.node, epoch] = view
        return state + 1, EverySample().step(None, epoch, view)[1], self.seconds
