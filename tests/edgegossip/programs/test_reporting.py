"""Who is not heard yet has not failed; who is silent has, for all in the same epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.long import usually
from workbench import datasets, decentralised
from workbench.datasets import partition
from workbench.decentralised import View
from workbench.decentralised.selecting import Batches
from workbench.edgegossip import EdgeGossip, Platform, Predictor
from workbench.edgegossip.costs.platforms import Load
from workbench.edgegossip.prediction.predictor import Contention
from workbench.edgegossip.programs.reporting import Report, rates
from workbench.edgegossip.programs.trainer import State
from workbench.edgegossip.training import OPTIONS, Setup
from workbench.runtime import Crash, Fault, LinkDown, Lossy, Restart, draw_faults

DIGITS = datasets.load("digits").limit(train=120, test=10, seed=1)
RING_6 = nx.cycle_graph(6)


@dataclass(frozen=True, eq=False)
class Noting(EdgeGossip):
    """Notes what each platform holds in each epoch, and whom it takes for failed."""

    notes: dict[tuple[int, int], tuple[NDArray[np.int64], tuple[int, ...]]] = field(
        default_factory=dict
    )

    def step(self, state: State, epoch: int, view: View) -> tuple[State, Batches, float]:
        found = super().step(state, epoch, view)
        self.notes[epoch, view.node] = found[0].held, found[0].failed
        return found


def linear() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))


def platforms(slower: Sequence[float]) -> list[Platform]:
    """This many times slower than the fastest; what co-runs begins and ends at its own times.

    So reports of one platform differ with their age.
    """
    return [
        Platform(
            f"p{at}",
            Predictor("linear", 4, 1.0, 1.0, (1.0, 1.0, 1.0), 0.01 * factor),
            Load((0.0, 0.3 + at, 1.5 + at), (Contention(), Contention(0.9), Contention(0.2))),
        )
        for at, factor in enumerate(slower)
    ]


def run(
    graph: nx.Graph,
    slower: Sequence[float] | None = None,
    faults: Sequence[Fault] = (),
    **options: Any,
) -> tuple[Noting, decentralised.Trained[Any]]:
    """Train a linear model, choosing points at random."""
    who = platforms(slower or [1.0] * len(graph))
    options = {"window_s": 0.5, "ratio": 1, "epochs": 5, **options}
    ours = {name: options.pop(name) for name in OPTIONS if name in options}
    setup = Setup(linear, DIGITS, who, mixing=graph, **options)
    noting = Noting(strategy="random_points", **ours)
    trained = decentralised.train(setup, noting, faults=faults)
    return noting.fitted(setup), trained


GRAPHS: dict[str, Callable[[int], nx.Graph]] = {
    "ring": decentralised.ring,
    "star": decentralised.star,
    "complete": decentralised.complete,
    "random_regular": lambda count: decentralised.random_regular(count, min(2, count - 1)),
}


@pytest.mark.parametrize("name", usually(("ring", "star"), GRAPHS))
@settings(max_examples=25, deadline=None)  # the first imports PyTorch
@given(
    slower=st.lists(st.sampled_from((1.0, 1.7, 4.0)), min_size=1, max_size=8),
    patience_s=st.sampled_from((None, 1.0)),
)
def test_as_long_as_nobody_fails_everybody_holds_its_shard(
    name: str, slower: list[float], patience_s: float | None
) -> None:
    noting, trained = run(GRAPHS[name](len(slower)), slower, patience_s=patience_s)
    assert len(noting.notes) == 5 * len(slower)
    for (_, node), (held, failed) in noting.notes.items():
        assert failed == ()
        assert held.tolist() == noting.shards[node].tolist()
    assert trained.epochs["samples"].min() > 0  # type: ignore[operator]


def test_ratios_follow_as_reports_come_in_on_a_ring() -> None:
    """On a ring of six, too: everybody ends as fast as the fastest."""
    slower = [1.0, 2, 4, 1, 2, 4]
    _, trained = run(RING_6, slower)
    first = trained.epochs.filter(epoch=1).sort("node")["samples"].to_list()
    assert first == [20, 10, 5, 20, 10, 5]


@pytest.mark.parametrize(
    ("graph", "gone"),
    [
        (decentralised.complete(4), 2),
        (RING_6, 2),
        (decentralised.random_regular(6, 3), 2),
        (decentralised.star(6), 0),
        (nx.path_graph(6), 2),
    ],
    ids=["complete", "ring", "random_regular", "star without its hub", "path in two"],
)
def test_a_crash_is_seen_by_all_in_one_epoch_and_every_point_is_held_again(
    graph: nx.Graph, gone: int
) -> None:
    """Though the survivors' reports of each other are of different ages, or come no more at all."""
    noting, _ = run(graph, faults=[Crash(gone, 0.6)], epochs=14, patience_s=1.0, failed_share=0.0)
    views = {
        epoch: {noting.notes[epoch, node][1] for node in graph if node != gone}
        for epoch in range(1, 15)
    }
    assert views[14] == {(gone,)}
    told = min(epoch for epoch, found in views.items() if found != {()})
    assert all(found == {(gone,)} for epoch, found in views.items() if epoch >= told)
    for epoch in range(told, 15):
        held = np.concatenate([noting.notes[epoch, node][0] for node in graph if node != gone])
        assert sorted(held.tolist()) == list(range(120))
        for node in set(graph) - {gone}:
            own = noting.shards[node].tolist()
            assert noting.notes[epoch, node][0][: len(own)].tolist() == own


@pytest.mark.parametrize(
    ("back_s", "taking"),
    [(1.0, set()), (1.6, {1, 2, 3}), (2.5, {0, 1, 2, 3, 4})],
    ids=["soon", "while silence becomes too long", "after all took over"],
)
def test_restarted_platform_gets_its_points_as_soon_as_the_news_comes(
    back_s: float, taking: set[int]
) -> None:
    """Further away that is later: in the second case near ones already know, far ones take over."""
    gone, faults = 5, [Crash(5, 0.3), Restart(5, back_s)]
    noting, _ = run(RING_6, faults=faults, epochs=16, patience_s=0.5, failed_share=0.0)
    assert {node for (_, node), (_, failed) in noting.notes.items() if failed} == taking
    back = 1 + max(epoch for epoch in range(1, 17) if (epoch, gone) not in noting.notes)
    ways = nx.single_source_shortest_path_length(RING_6, gone)
    for (epoch, node), (held, failed) in noting.notes.items():
        own = noting.shards[node].tolist()
        assert failed in ((), (gone,))
        assert held[: len(own)].tolist() == own
        if epoch >= back + ways[node]:
            assert failed == ()
            assert len(held) == len(own)


@pytest.mark.parametrize(
    "faults",
    [
        [LinkDown(0, 1, 0.2, 3.0)],
        [LinkDown(0, 1, 0.2, 3.0), LinkDown(1, 0, 0.2, 3.0)],
        [Lossy(0, 1, 0.5)],
    ],
    ids=["one way", "both ways", "lossy"],
)
@pytest.mark.parametrize("graph", [decentralised.complete(4), RING_6], ids=["complete", "ring"])
def test_a_faulty_link_alone_makes_nobody_fail(graph: nx.Graph, faults: list[Fault]) -> None:
    """What the link loses, others relay."""
    noting, _ = run(graph, faults=faults, epochs=10, patience_s=0.5)
    assert {failed for _, failed in noting.notes.values()} == {()}


@pytest.mark.parametrize("seed", usually(range(2), range(4)))
def test_whatever_fails_nobody_loses_its_own_points(seed: int) -> None:
    """Views may differ under many faults at once; runs end, and what a survivor holds stays."""
    graph = decentralised.random_regular(6, 3)
    who = platforms([1.0] * 6)
    cluster = Setup(linear, DIGITS, who).network
    faults = draw_faults(
        seed, cluster, until_s=4, crash_every_s=5, down_s=1, slow_every_s=5, link_down_every_s=5
    )
    assert {type(fault) for fault in faults} >= {Crash, Restart}
    noting, trained = run(graph, faults=faults, epochs=20, patience_s=0.5)
    assert trained.run.ended == "done"
    assert trained.epochs.group_by("node").last()["epoch"].to_list() == [20] * 6
    took_over = 0
    for (_, node), (held, _) in noting.notes.items():
        own = noting.shards[node]
        assert held[: len(own)].tolist() == own.tolist()
        assert len(set(held.tolist())) == len(held)
        took_over += len(held) > len(own)
    assert took_over


class TestRates:
    """Of three platforms, by hand."""

    WHO = platforms([1.0, 2, 4])

    def known(self, epochs: dict[int, int], **changes: Any) -> tuple[Any, Any]:
        reports = {node: Report(epoch, 7, 9.0, 1.0) for node, epoch in epochs.items()}
        given_rates = {"epoch": 6, "began": 1, "hops": 2} | changes
        return rates(reports, [10, 20, 30], self.WHO, **given_rates)

    def test_reports_are_taken_up_to_their_age(self) -> None:
        assert self.known({0: 5, 1: 4, 2: 3}) == ([7, 7, 0], [9.0, 9.0, 0.0])

    def test_never_heard_of_is_silence_once_a_report_could_have_come(self) -> None:
        assert self.known({0: 5}) == ([7, 0, 0], [9.0, 0.0, 0.0])

    @pytest.mark.parametrize(("began", "patient"), [(4, False), (5, True), (6, True)])
    def test_not_heard_yet_is_no_failure(self, began: int, patient: bool) -> None:
        points, found = self.known({0: 5}, began=began)
        assert points == ([7, 20, 30] if patient else [7, 0, 0])
        assert found == pytest.approx([9.0, 50.0, 25.0] if patient else [9.0, 0.0, 0.0])

    @pytest.mark.parametrize(
        ("epochs", "failed"),
        [
            ({0: 5, 1: 3, 2: 2}, {1}),  # 0 hears 1, but 2's last came by way of 1
            ({0: 5, 1: 3, 2: 1}, {1, 2}),  # 1 had gone on without 2
            ({0: 5, 1: 3}, {1, 2}),
            ({0: 5}, {1}),
            ({0: 5, 1: 5, 2: 2}, {2}),
        ],
    )
    def test_who_is_out_of_hearing_has_not_failed(
        self, epochs: dict[int, int], failed: set[int]
    ) -> None:
        """In a row of three, seen from its first."""
        row = decentralised.metropolis_hastings(nx.path_graph(3))
        points, found = self.known(epochs, mixing=row)
        assert {node for node in range(3) if not found[node]} == failed
        for node in range(3):
            heard = 7 if node in epochs else (10, 20, 30)[node]
            assert points[node] == (0 if node in failed else heard)

    def test_silence_after_a_report_is_silence_at_once(self) -> None:
        assert self.known({0: 5, 1: 3}, began=6)[0] == [7, 0, 30]


class TestHops:
    """How long a report may take, from the graph."""

    @pytest.mark.parametrize(
        ("graph", "patience_s", "expected"),
        [
            (decentralised.complete(5), None, 1),
            (decentralised.complete(5), 1.0, 2),
            (RING_6, None, 3),
            (RING_6, 1.0, 5),  # five in a row are left, and a step around a lost link
            (decentralised.star(5), None, 2),
            (decentralised.star(5), 1.0, 3),
            (decentralised.ring(1), None, 1),
        ],
    )
    def test_from_the_mixing(
        self, graph: nx.Graph, patience_s: float | None, expected: int
    ) -> None:
        setup = Setup(
            linear, DIGITS, platforms([1.0] * len(graph)), mixing=graph, patience_s=patience_s
        )
        assert EdgeGossip().fitted(setup).hops == expected

    def test_as_given_if_it_is_enough(self) -> None:
        setup = Setup(linear, DIGITS, platforms([1.0] * 6), mixing=RING_6)
        for hops in (3, 9):
            assert EdgeGossip(hops=hops).fitted(setup).hops == hops

    @pytest.mark.parametrize(
        ("nodes", "how", "hops", "message"),
        [
            (6, {"mixing": RING_6}, 2, "hops is 2, but news takes up to 3 exchanges"),
            (4, {"mixing": nx.Graph([(0, 1), (2, 3)])}, None, "never hear of each other"),
            (3, {"probability": 0.2}, None, r"such as mixing=decentralised.complete\(3"),
        ],
    )
    def test_what_cannot_bring_reports_everywhere_is_refused_before_anything_runs(
        self, nodes: int, how: dict[str, Any], hops: int | None, message: str
    ) -> None:
        setup = Setup(linear, DIGITS, platforms([1.0] * nodes), **how)
        with pytest.raises(ValueError, match=message):
            decentralised.train(setup, EdgeGossip(hops=hops))


def test_points_are_dealt_by_class_too() -> None:
    """A shard that is not in order stays in its own."""
    shards = [part[::-1] for part in partition.by_class(DIGITS.y_train, 4, seed=0)]
    noting, _ = run(decentralised.ring(4), shards=shards)
    assert noting.notes[5, 3][0].tolist() == shards[3].tolist()
