"""Before each epoch a coordinator hears of every node that is alive, and all have its decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.decentralised.setups import setup
from workbench import decentralised
from workbench.decentralised import Coordinated, EverySample, GoSgd, View, complete
from workbench.decentralised.selecting import Batches
from workbench.runtime import Crash, Fault, LinkDown, Restart, SlowDown


@dataclass(frozen=True)
class Counting:
    """Nodes report how many epochs they have begun; the coordinator passes all reports on."""

    coordinator: int = 0
    seen: dict[tuple[int, int], Any] = field(default_factory=dict)  # by epoch and node
    began_s: dict[tuple[int, int], float] = field(default_factory=dict)

    def fitted(self, setup: Any) -> Counting:
        return self

    def begin(self, node: int) -> int:
        return 0

    def report(self, state: int, view: View) -> tuple[int, int]:
        return state + 1, state + 1

    def decide(self, reports: Mapping[int, int]) -> dict[int, int]:
        return dict(reports)

    def step(self, state: int, epoch: int, view: View) -> tuple[int, Batches, float]:
        self.seen[epoch, view.node] = view.decision
        self.began_s[epoch, view.node] = view.now_s
        return state, EverySample().step(None, epoch, view)[1], 0.0


def run(of: Any, faults: list[Fault], coordinator: int = 0) -> Counting:
    counting = Counting(coordinator)
    assert isinstance(counting, Coordinated)
    assert decentralised.train(of, counting, faults=faults).run.ended == "done"
    return counting


@pytest.mark.parametrize("nodes", [1, 2, 4])
@pytest.mark.parametrize("patience_s", [None, 5.0])
@pytest.mark.parametrize("exchange", [None, GoSgd(0.0), GoSgd(1.0)], ids=str)
def test_all_have_the_reports_of_all(
    nodes: int, patience_s: float | None, exchange: GoSgd | None
) -> None:
    """Where nothing is exchanged, they begin together, though one is slow."""
    of = setup(complete(nodes), None, exchange=exchange, epochs=4, patience_s=patience_s)
    found = run(of, [SlowDown(0, 0.0, 1.0, 3.0)], coordinator=nodes - 1)
    for epoch in range(1, 5):
        for node in range(nodes):
            assert found.seen[epoch, node] == dict.fromkeys(range(nodes), epoch)
        if exchange == GoSgd(0.0):
            assert len({found.began_s[epoch, node] for node in range(nodes)}) == 1


ALONE = {"exchange": GoSgd(0.0), "patience_s": 1.0, "epochs": 12}  # epochs of 0.32 s for three


@pytest.mark.parametrize("coordinator", [0, 2])
def test_silent_nodes_are_left_out_until_they_report_again(coordinator: int) -> None:
    found = run(setup(complete(3), None, **ALONE), [Crash(1, 0.5), Restart(1, 3.0)], coordinator)
    nodes = [sorted(found.seen[epoch, coordinator]) for epoch in range(1, 13)]
    with_it, without = [0, 1, 2], [0, 2]
    assert nodes[:3] == [with_it, with_it, without]  # it had reported twice before the crash
    assert nodes[-1] == with_it
    back = min(epoch for epoch in range(3, 13) if (epoch, 1) in found.seen)
    assert found.seen[back, 1] in (found.seen[back, 0], found.seen[back - 1, 0])


@pytest.mark.parametrize("links", [[(1, 0)], [(0, 1)], [(1, 0), (0, 1)]], ids=str)
def test_a_lost_report_or_decision_is_soon_repeated(links: list[tuple[int, int]]) -> None:
    """As soon as a heartbeat, a third of the patience later."""
    lost: list[Fault] = [LinkDown(*link, 0.3, 0.35) for link in links]
    found = run(setup(complete(3), None, **ALONE), lost)
    assert all(found.seen[epoch, 1] == dict.fromkeys(range(3), epoch) for epoch in range(1, 13))
    began_s = [found.began_s[epoch, 1] for epoch in range(1, 13)]
    assert 0.32 < began_s[1] < 0.32 + 2 / 3
    assert np.diff(began_s[1:]) == pytest.approx(0.32, abs=0.01)


def test_while_the_coordinator_is_silent_its_newest_decision_holds() -> None:
    """For a node that it has not left out; once it is back, it hears all again."""
    found = run(setup(complete(3), None, **ALONE), [Crash(0, 0.5), Restart(0, 2.3)])
    without = [epoch for epoch in range(1, 13) if (epoch, 0) not in found.seen]
    assert len(without) > 1
    newest = dict.fromkeys(range(3), without[0] - 1)
    assert all(found.seen[epoch, node] == newest for epoch in without for node in (1, 2))
    assert all(sorted(found.seen[12, node]) == [0, 1, 2] for node in range(3))


def test_who_is_behind_a_restarted_coordinator_is_not_held_up() -> None:
    """While that was away, one ran ahead; it goes on there, and waits for the other."""
    of = setup(complete(3), [1.0, 4.0, 1.0], **ALONE)
    found = run(of, [Crash(0, 0.5), Restart(0, 2.0)])
    began_s = [found.began_s[epoch, 2] for epoch in range(3, 13)]
    assert np.diff(began_s).max() < 0.32 + 1 / 3
    ahead = next(epoch for epoch in range(3, 13) if (epoch, 0) in found.seen)
    assert found.began_s[ahead, 0] == found.began_s[ahead, 2] > found.began_s[ahead - 1, 1] + 1
