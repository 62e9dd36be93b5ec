"""What holds for every exchange by iterations: the systems that workbench.dlion has of them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.decentralised.model_exchange.runs import setup, train
from tests.long import usually
from workbench import dlion
from workbench.decentralised.model_exchange.ad_psgd import AdPsgd
from workbench.decentralised.model_exchange.choco_sgd import ChocoSgd
from workbench.decentralised.model_exchange.diloco import DiLoCo
from workbench.decentralised.model_exchange.moshpit_sgd import MoshpitSgd
from workbench.decentralised.model_exchange.noloco import NoLoCo
from workbench.decentralised.model_exchange.peer import ModelExchange, Peer
from workbench.dlion.algorithms import SYSTEMS
from workbench.runtime import Crash, Fault, LinkDown, Restart
from workbench.training import Sgd

EXCHANGES: dict[str, Callable[[Peer], ModelExchange]] = {
    "diloco": DiLoCo(3),
    "local_sgd": DiLoCo(3, Sgd(1.0)),
    "noloco": NoLoCo(3),
    "choco_sgd": ChocoSgd(0.1, 0.2),
    "ad_psgd": AdPsgd(),
    "moshpit_sgd": MoshpitSgd(3),
}

every_exchange = pytest.mark.parametrize("name", usually(("diloco", "choco_sgd"), EXCHANGES))


@pytest.mark.parametrize("name", EXCHANGES)
def test_it_is_registered(name: str) -> None:
    made: Any = SYSTEMS[name].exchange_models
    ours: Any = EXCHANGES[name]
    assert type(made) is type(ours)
    assert pickle.loads(pickle.dumps(SYSTEMS[name])) == SYSTEMS[name]
    if name not in {"ad_psgd", "choco_sgd"}:
        assert replace(made, every=3) == ours
    found = dlion.train(setup(3, iterations=60), name)
    assert found.run.ended == "done"
    assert len(found.transfers) > 0


@every_exchange
@pytest.mark.parametrize("workers", [1, 5])
def test_repeatable_on_any_number_of_threads(name: str, workers: int) -> None:
    of = setup(workers, iterations=12, speeds=[1, 2, 0.5, 1, 3][:workers])
    once, twice, again = (train(of, EXCHANGES[name], threads=threads) for threads in (1, 2, 2))
    assert np.array_equal(once.weights, twice.weights)
    assert np.array_equal(twice.weights, again.weights)
    assert once.transfers.equals(twice.transfers)


@every_exchange
def test_it_learns(name: str) -> None:
    found = train(setup(4, iterations=100, evaluate_every=100), EXCHANGES[name])
    last = found.evaluations.group_by("node").last()
    assert last["top1"].to_numpy().min() > 0.75


@every_exchange
def test_a_crash_does_not_stop_the_others(name: str) -> None:
    of = setup(4, iterations=30, patience_s=0.5)
    found = train(of, EXCHANGES[name], faults=[Crash("node1", 1.0)])
    assert found.run.ended == "done"
    last = dict(found.iterations.group_by("node").agg(pl.col("iteration").max()).iter_rows())
    assert [last[node] for node in (0, 2, 3)] == [30] * 3
    assert last[1] < 15


@every_exchange
def test_who_restarts_is_among_the_others_again(name: str) -> None:
    of = setup(4, iterations=90, patience_s=0.5)
    found = train(of, EXCHANGES[name], faults=[Crash("node1", 1.0), Restart("node1", 2.5)])
    assert found.run.ended == "done"
    assert 90 in found.iterations.filter(node=1, restarts=1)["iteration"]
    undisturbed = np.ptp(train(of, EXCHANGES[name]).weights, axis=0).max()
    assert np.ptp(found.weights, axis=0).max() < 2 * undisturbed + 0.02


@pytest.mark.parametrize("before_s", [0.002, 0.08])
@pytest.mark.parametrize("nodes", [2, 3])
@every_exchange
def test_outages_and_restarts_near_the_end_end_soon(name: str, nodes: int, before_s: float) -> None:
    of = setup(nodes, iterations=9, patience_s=0.3, speeds=[1, 1.3, 0.7][:nodes], seconds=40.0)
    end_s = train(of, EXCHANGES[name]).run.end_s
    from_s, to_s = end_s - before_s, end_s + 0.2
    down: list[Fault] = [LinkDown(*pair, from_s, to_s) for pair in permutations(range(nodes), 2)]
    for faults in (down, [Crash(0, from_s)]):
        found = train(of, EXCHANGES[name], faults=[*faults, Crash(1, to_s), Restart(1, to_s + 0.1)])
        assert found.run.ended == "done"
        assert found.run.end_s < end_s + 4.0
