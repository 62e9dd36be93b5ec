"""What holds for every exchange of models."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.decentralised.exchanges.runs import setup, train
from tests.long import usually
from workbench import decentralised, dlion
from workbench.decentralised import (
    EXCHANGES,
    AdPsgd,
    ChocoSgd,
    DiLoCo,
    GoSgd,
    GossipSetup,
    MakeExchange,
    MoshpitSgd,
    NoLoCo,
)
from workbench.dlion import Setup
from workbench.runtime import Crash, Fault, LinkDown, Restart
from workbench.training import Sgd, gradient_step
from workbench.training.batches import Draw
from workbench.training.models import make_model
from workbench.training.repeatable import FIRST_WEIGHTS, derive
from workbench.utils.checks import UserError

OFTEN: dict[str, MakeExchange] = {
    "diloco": DiLoCo(3),
    "local_sgd": DiLoCo(3, Sgd(1.0)),
    "noloco": NoLoCo(3),
    "choco_sgd": ChocoSgd(0.1, 0.2),
    "ad_psgd": AdPsgd(),
    "moshpit_sgd": MoshpitSgd(3),
    "gosgd": GoSgd(0.5),
}

every_exchange = pytest.mark.parametrize("name", usually(("diloco", "choco_sgd"), OFTEN))


@pytest.mark.parametrize("name", OFTEN)
def test_it_is_registered(name: str) -> None:
    made: Any = EXCHANGES[name]
    ours: Any = OFTEN[name]
    assert type(made) is type(ours)
    assert pickle.loads(pickle.dumps(made)) == made
    if made.period > 1:
        assert replace(made, period=3) == ours
    found = dlion.train(setup(2, iterations=50), name)
    assert found.run.ended == "done"
    assert len(found.transfers) > 0


def by_epochs(of: Setup, exchange: MakeExchange, epochs: int) -> GossipSetup:
    return GossipSetup(
        *(of.model, of.dataset, of.held, of.network),
        exchange=exchange,
        batch_size=8,
        epochs=epochs,
        sgd=of.sgd,
        sample_s=0.01,
    )


@pytest.mark.parametrize("exchange", [DiLoCo(21), NoLoCo(21), MoshpitSgd(21)], ids=str)
def test_a_training_that_is_shorter_than_a_period_is_refused_or_warns(exchange: Any) -> None:
    """Two epochs of 10 batches each; who goes by iterations learns alone, and is told so."""
    message = f"{type(exchange).__name__} exchanges models every 21 steps, so nothing at all in 20"
    with pytest.raises(UserError, match=message):
        by_epochs(setup(3), exchange, epochs=2)
    assert by_epochs(setup(3), exchange, epochs=3).epochs == 3
    with pytest.warns(UserWarning, match=rf"{message}; .* at most 20, as in .*\(period=20\)"):
        found = train(setup(3, iterations=20), exchange)
    assert found.run.bytes == 0


@pytest.mark.parametrize("name", [name for name in OFTEN if name != "gosgd"])
def test_it_runs_by_epochs_too(name: str) -> None:
    """In a training that counts epochs, with shards of equal sizes."""
    of = setup(3)
    found = decentralised.train(by_epochs(of, OFTEN[name], epochs=3))
    assert found.epochs.group_by("node").last()["epoch"].to_list() == [3, 3, 3]
    assert found.run.bytes > 0
    assert found.epochs.filter(epoch=3)["top1"].min() > 0.4  # type: ignore[operator]


@pytest.mark.parametrize("name", OFTEN)
def test_messages_of_an_iteration_that_stands_for_several_are_as_many_times_as_large(
    name: str,
) -> None:
    plain, larger = (
        train(setup(3, iterations=6, stands_for=times), OFTEN[name]).transfers["bytes"]
        for times in (1.0, 3.0)
    )
    assert len(plain) > 0
    assert set(larger) == set(3 * plain)


@every_exchange
def test_repeatable_on_any_number_of_threads(name: str) -> None:
    of = setup(5, iterations=12, speeds=[1, 2, 0.5, 1, 3])
    once, twice = (train(of, OFTEN[name], threads=threads) for threads in (1, 2))
    assert np.array_equal(once.weights, twice.weights)
    assert once.transfers.equals(twice.transfers)


def plain_sgd(iterations: int) -> np.ndarray:
    """Weights of a worker alone, by a bare loop over its batches."""
    of = setup(1)
    flat = of.flat()
    flat.adopt(make_model(of.model, of.dataset, derive(of.seed, FIRST_WEIGHTS, 0)))
    draw, velocity = Draw(of.held[0], of.seed, 0), of.sgd.start(flat.parameters)
    for _ in range(iterations):
        batch = draw.take(of.local_batch)
        gradient_step(flat, of.dataset.x_train[batch], of.dataset.y_train[batch])
        of.sgd.step(flat.parameters, flat.gradients, velocity)
    return flat.parameters.numpy()


@pytest.mark.filterwarnings("ignore:.*exchanges models every")
@pytest.mark.parametrize("name", OFTEN)
def test_one_worker_alone_does_plain_sgd(name: str) -> None:
    """Bit for bit; with an outer optimiser, which moves it between rounds, up to the first."""
    outer = name in {"diloco", "local_sgd", "noloco"}
    iterations = 2 if outer else 12
    found = train(setup(1, iterations=iterations), OFTEN[name])
    assert np.array_equal(found.weights[0], plain_sgd(iterations))


@every_exchange
def test_it_learns(name: str) -> None:
    found = train(setup(4, iterations=100, evaluate_every=100), OFTEN[name])
    last = found.evaluations.group_by("node").last()
    assert last["top1"].to_numpy().min() > 0.75


@every_exchange
def test_a_crash_does_not_stop_the_others(name: str) -> None:
    of = setup(4, iterations=30, patience_s=0.5)
    found = train(of, OFTEN[name], faults=[Crash("node1", 1.0)])
    assert found.run.ended == "done"
    last = dict(found.iterations.group_by("node").agg(pl.col("iteration").max()).iter_rows())
    assert [last[node] for node in (0, 2, 3)] == [30] * 3
    assert last[1] < 15


@every_exchange
def test_who_restarts_is_among_the_others_again(name: str) -> None:
    of = setup(4, iterations=90, patience_s=0.5)
    found = train(of, OFTEN[name], faults=[Crash("node1", 1.0), Restart("node1", 2.5)])
    assert found.run.ended == "done"
    assert 90 in found.iterations.filter(node=1, restarts=1)["iteration"]
    undisturbed = np.ptp(train(of, OFTEN[name]).weights, axis=0).max()
    assert np.ptp(found.weights, axis=0).max() < 2 * undisturbed + 0.02


@pytest.mark.parametrize("before_s", [0.002, 0.08])
@pytest.mark.parametrize("nodes", [2, 3])
@every_exchange
def test_outages_and_restarts_near_the_end_end_soon(name: str, nodes: int, before_s: float) -> None:
    of = setup(nodes, iterations=9, patience_s=0.3, speeds=[1, 1.3, 0.7][:nodes], seconds=40.0)
    end_s = train(of, OFTEN[name]).run.end_s
    from_s, to_s = end_s - before_s, end_s + 0.2
    down: list[Fault] = [LinkDown(*pair, from_s, to_s) for pair in permutations(range(nodes), 2)]
    for faults in (down, [Crash(0, from_s)]):
        found = train(of, OFTEN[name], faults=[*faults, Crash(1, to_s), Restart(1, to_s + 0.1)])
        assert found.run.ended == "done"
        assert found.run.end_s < end_s + 4.0
