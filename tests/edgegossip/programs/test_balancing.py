"""One platform balances all of them before each epoch, whatever fails."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.long import usually
from tests.oracles.edgegossip import algorithm_1
from workbench import datasets, decentralised
from workbench.clusters import Link, Node, graph
from workbench.decentralised import GoSgd, Gossip, MakeExchange, View, complete, ring
from workbench.decentralised.selecting import Batches
from workbench.edgegossip import EdgeGossip, Platform, Predictor, Setup
from workbench.edgegossip.algorithms.balancer import Ratios
from workbench.edgegossip.costs.platforms import Load
from workbench.edgegossip.prediction.predictor import Contention
from workbench.edgegossip.programs.trainer import PlatformSelector, State
from workbench.runtime import Crash, Fault, LinkDown, Lossy, Restart, draw_faults

DIGITS = datasets.load("digits").limit(train=120, test=10, seed=1)
LOAD = Load((0.0, 0.3, 1.5), (Contention(), Contention(0.9), Contention(0.2)))


class Note(NamedTuple):
    """What a platform does in an epoch: the decision that it has, and what it learns from."""

    at_s: float
    decision: Ratios
    learnt: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Noting(PlatformSelector):
    """Keeps notes of all platforms, and the reports behind each decision."""

    notes: dict[tuple[int, int], Note] = field(default_factory=dict)  # by epoch and platform
    reports: list[Mapping[int, float]] = field(default_factory=list)

    def fitted(self, setup: Setup) -> Noting:
        return self

    def decide(self, reports: Mapping[int, float]) -> Ratios:
        self.reports.append(reports)
        return super().decide(reports)

    def step(self, state: State, epoch: int, view: View) -> tuple[State, Batches, float]:
        state, batches, cost_s = super().step(state, epoch, view)
        learnt = np.concatenate([*batches, np.zeros(0, np.int64)])
        self.notes[epoch, view.node] = Note(view.now_s, view.decision, learnt)
        return state, batches, cost_s

    def learnt(self, epoch: int) -> list[int]:
        """Points that all platforms together learn from in an epoch, ascending."""
        points = [note.learnt for (at, _), note in self.notes.items() if at == epoch]
        return sorted(np.concatenate(points).tolist())

    def failed(self) -> set[int]:
        """Platforms that ever failed."""
        decisions = [note.decision for note in self.notes.values()]
        return {node for one in decisions for node, gone in enumerate(one.failed) if gone}


def linear() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))


def setup(slower: Sequence[float], load: Load | None = None, **changes: Any) -> Setup:
    """Platforms of 100 samples a second, or this many times slower."""
    kind = Predictor("linear", 4, 1.0, 1.0, (1.0, 1.0, 1.0), 0.01)
    who = [
        Platform(f"p{at}", kind, Load() if load is None else load, slower=times)
        for at, times in enumerate(slower)
    ]
    return Setup(linear, DIGITS, who, **{"epochs": 14, "evaluate_every": 100, **changes})


def run(
    of: Setup, faults: Sequence[Fault] = (), **options: Any
) -> tuple[Noting, decentralised.Trained[Any]]:
    """Train, choosing points at random; others take over all points of a failed platform."""
    how = EdgeGossip(strategy="random_points", ratio=1, **{"failed_share": 0.0, **options})
    noting = Noting(how, of.platforms, of.held, of.seed)
    return noting, decentralised.train(of, noting, faults=faults)


@settings(max_examples=30, deadline=None)  # the first imports PyTorch
@given(
    slower=st.lists(st.sampled_from((1.0, 1.7, 4.0)), min_size=1, max_size=6),
    patience_s=st.sampled_from((None, 1.0)),
    sparse=st.sampled_from((None, ring, complete)),
    coordinator=st.integers(0, 5),
)
def test_all_have_the_decision_of_algorithm_1(
    slower: list[float], patience_s: float | None, sparse: Any, coordinator: int
) -> None:
    """Along a ring, too, and with GoSGD, where nothing else is waited for; under load."""
    count = len(slower)
    exchange: MakeExchange = GoSgd(0.5) if sparse is None else Gossip(sparse(count))
    of = setup(slower, LOAD, epochs=4, patience_s=patience_s, exchange=exchange)
    noting, trained = run(of, balancer="literal", window_s=0.5, coordinator=coordinator % count)
    assert sorted(noting.notes) == list(product(range(1, 5), range(count)))
    assert list(noting.reports[0].values()) == pytest.approx([100 / times for times in slower])
    points = list(map(len, of.held))
    for epoch, reports in enumerate(noting.reports, start=1):
        ratios = algorithm_1(points, [reports[node] for node in range(count)], 0.001, 0.0)
        for node in range(count):
            decision = noting.notes[epoch, node].decision
            assert decision.ratios == pytest.approx([ratios[at] for at in range(count)])
            samples = trained.epochs.filter(epoch=epoch, node=node)["samples"].item()
            assert samples == math.ceil(points[node] * ratios[node] - 1e-9)


@pytest.mark.parametrize("of", [complete(4), ring(6)], ids=["complete", "ring"])
@pytest.mark.parametrize("gone", [1, 2])
def test_within_the_patience_others_take_over_and_every_point_is_learnt_from_once(
    of: nx.Graph, gone: int
) -> None:
    own = setup([1.0] * len(of), exchange=Gossip(of), patience_s=1.0)
    noting, _ = run(own, [Crash(gone, 0.7)])
    assert noting.failed() == {gone}
    seen = min(epoch for (epoch, _), note in noting.notes.items() if note.decision.failed[gone])
    for epoch in range(1, 15):
        if (epoch, gone) in noting.notes or epoch >= seen:
            assert noting.learnt(epoch) == list(range(120))
    longest_s = max(map(len, own.held)) * 0.01  # of an epoch that had begun by then
    at_s = [noting.notes[seen, node].at_s for node in of if node != gone]
    assert max(at_s) < 0.7 + 1.0 + longest_s


@pytest.mark.parametrize(("back_s", "fails"), [(1.0, False), (3.0, True)])
@pytest.mark.parametrize("coordinator", [0, 3])
def test_restarted_platform_gets_its_points_back(
    back_s: float, fails: bool, coordinator: int
) -> None:
    """Nobody learns from a point that another learns from in the same epoch."""
    own = setup([1.0] * 4, patience_s=1.0, epochs=20)
    noting, trained = run(own, [Crash(2, 0.7), Restart(2, back_s)], coordinator=coordinator)
    assert noting.failed() == ({2} if fails else set())
    for epoch in range(1, 21):
        learnt = noting.learnt(epoch)
        assert len(learnt) == len(set(learnt))
    for node in range(4):
        assert sorted(noting.notes[20, node].learnt) == sorted(own.held[node])
    assert trained.epochs.filter(node=2)["restarts"].max() == 1


def test_a_restarted_coordinator_takes_nobody_for_failed_that_it_did_not_listen_to() -> None:
    """It asks a platform that is gone for the model, as long as the patience, before another."""
    own = setup([1.0] * 4, patience_s=1.0)
    noting, _ = run(own, [Crash(0, 0.5), Restart(0, 0.6), Crash(1, 0.4)])
    assert noting.failed() == {1}


def test_a_restarted_platform_holds_up_nobody_on_a_ring() -> None:
    """A neighbour in the epoch before waits for no model of it, so that all can report."""
    own = setup([1.0] * 5, exchange=Gossip(ring(5)), patience_s=1.0)
    noting, _ = run(own, [Crash(1, 0.5), Restart(1, 0.9), Crash(3, 1.1), Restart(3, 1.7)])
    began_s = [noting.notes[epoch, 0].at_s for epoch in range(1, 15)]
    assert np.diff(began_s).max() < 1.0


@pytest.mark.parametrize(
    ("faults", "failed"),
    [
        ([LinkDown(1, 2, 0.2, 3.0), LinkDown(2, 1, 0.2, 3.0)], set()),
        ([LinkDown(0, 1, 0.2, 3.0)], set()),
        ([LinkDown(1, 0, 0.2, 3.0)], {1}),
        ([Lossy(1, 0, 0.3), Lossy(0, 1, 0.3)], set()),
    ],
    ids=["between others", "from the coordinator", "to the coordinator", "lossy"],
)
def test_a_platform_fails_only_if_its_balancer_does_not_hear_it(
    faults: list[Fault], failed: set[int]
) -> None:
    """One that fails though it lives learns from nothing, so that no point is learnt from twice."""
    noting, trained = run(setup([1.0] * 4, patience_s=1.0, epochs=20), faults)
    assert noting.failed() == failed
    for epoch in range(1, 21):
        assert noting.learnt(epoch) == list(range(120))
    assert trained.run.ended == "done"


@pytest.mark.parametrize("seed", usually(range(2), range(6)))
@pytest.mark.parametrize("exchange", [Gossip(ring(5)), GoSgd(0.5)], ids=["gossip", "gosgd"])
def test_whatever_fails_runs_end_and_repeat(exchange: MakeExchange, seed: int) -> None:
    own = setup([1.0, 1.0, 2.0, 4.0, 1.0], exchange=exchange, patience_s=0.5, epochs=20)
    faults = draw_faults(
        *(seed, own.network), until_s=4, crash_every_s=3, down_s=1, link_down_every_s=5
    )
    assert {type(fault) for fault in faults} >= {Crash, Restart, LinkDown}
    one, again = (run(own, faults)[1] for _ in range(2))
    assert one.run.ended == "done"
    assert one.epochs.group_by("node").last()["epoch"].to_list() == [20] * 5
    assert one.epochs.equals(again.epochs)
    assert all(map(torch.equal, one.weights, again.weights))


def test_a_balancer_that_not_all_can_reach_is_refused_before_anything_runs() -> None:
    """Or that is no platform at all."""
    nodes = [Node(f"p{at}") for at in range(4)]
    star = graph(nodes, [(1, 0), (1, 2), (1, 3)], Link(1e9))
    of = setup([1.0] * 4, cluster=star, epochs=1)
    with pytest.raises(ValueError, match=r"runs on p0, .* no links both ways with p2, p3; add"):
        decentralised.train(of, EdgeGossip())
    with pytest.raises(ValueError, match="coordinator is 4; the platforms are 0 to 3"):
        decentralised.train(of, EdgeGossip(coordinator=4))
    assert decentralised.train(of, EdgeGossip(ratio=1, coordinator=1)).run.ended == "done"
