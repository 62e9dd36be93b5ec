"""GoSGD as published: weights are never lost, models go where chance sends them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.decentralised.exchanges import runs
from tests.decentralised.setups import (
    LINK,
    MODEL_BYTES,
    SAMPLE_S,
    gosgd,
    learners,
    models,
)
from tests.oracles import gossip as oracle
from tests.oracles.model_exchange import Inner
from workbench import datasets, decentralised, training
from workbench.clusters import Link
from workbench.decentralised import EverySample, GoSgd, View, train
from workbench.decentralised.exchanges.gosgd import WeightedModel, WeightedModels
from workbench.decentralised.learner import Model
from workbench.decentralised.training import EpochPrograms
from workbench.runtime import Crash, LinkDown, Lossy, Restart, SlowDown
from workbench.runtime.simulation import Simulation


def held(exchange: WeightedModels | None) -> float:
    """Weight that is at a node; NaN before it has begun."""
    if exchange is None:
        return math.nan
    return exchange.alpha + sum(model.alpha for model in exchange.arrived)


def shares(built: EpochPrograms) -> list[WeightedModels]:
    programs: list[Any] = built.programs
    return [program.exchange for program in programs]


def alpha_everywhere(built: EpochPrograms, simulation: Simulation) -> float:
    """Sum over nodes and over messages in queues, on links and unread."""
    sent = [one for host in simulation.hosts for one in host.mailbox.unread]
    for pipe in simulation.pipes.values():
        sent += [*pipe.queue, *([] if pipe.current is None else [pipe.current])]
    payloads = [one.payload for one in sent]
    on_the_way = sum(one.alpha for one in payloads if isinstance(one, WeightedModel))
    return sum(map(held, shares(built))) + on_the_way


def test_alphas_sum_to_one_at_any_time() -> None:
    setup = gosgd(decentralised.complete(5), 0.7, speeds=[1, 2, 0.5, 1, 1.3], epochs=4)
    built = setup.programs()
    simulation = Simulation(setup.cluster, built.programs, seed=1)
    on_the_way = 0
    for at_s in np.arange(0.05, 3.0, 0.05):
        simulation.run(at_s)
        on_the_way += sum(map(held, shares(built))) < 1 - 1e-9
        assert alpha_everywhere(built, simulation) == pytest.approx(1, abs=1e-12)
    assert on_the_way > 10
    run = simulation.run()
    assert sum(run.results.values()) == pytest.approx(1, abs=1e-12)
    assert [share.alpha for share in shares(built)] == list(run.results.values())


def test_a_pair_in_lockstep_does_what_the_paper_says() -> None:
    link = Link(runs.MODEL_BYTES * 8 / (8 * SAMPLE_S / 2))  # a model takes half a step
    setup = replace(
        gosgd(decentralised.ring(2), 1.0, link=link, epochs=2),
        model=runs.Regression,
        dataset=runs.DIGITS,
        sgd=training.Sgd(0.1),
    )
    flat = setup.flat()
    batches = [
        [
            batch
            for epoch in (1, 2)
            for batch in EverySample(3).step(
                None, epoch, View(node, 0, flat, setup, setup.held[node], 8, 0)
            )[1]
        ]
        for node in range(2)
    ]

    def step(node: int, number: int, model: list[float]) -> list[float]:
        batch, worker = batches[node][number], Inner(model, 0.1)
        x, y = runs.DIGITS.x_train[batch], runs.DIGITS.y_train[batch]
        worker.step([(np.ravel(a).tolist(), int(b)) for a, b in zip(x, y, strict=True)])
        return worker.weights

    first, found = flat.parameters.tolist(), train(setup)
    expected, alphas = oracle.pair_of_gosgd([first, first], step, len(batches[0]))
    np.testing.assert_allclose(models(found), expected, atol=1e-9)
    assert list(found.run.results.values()) == pytest.approx(alphas)


def test_without_sending_everyone_learns_alone() -> None:
    alone = train(gosgd(decentralised.ring(1), 0.5, shards=[np.arange(24)]))
    apart = train(gosgd(decentralised.complete(3), 0.0, shards=[np.arange(24)] * 3))
    assert torch.equal(alone.weights[0], apart.weights[0])
    assert not torch.equal(apart.weights[0], apart.weights[1])
    assert apart.run.bytes == 0
    assert alone.run.results == {0: 1.0}


def test_peers_are_equally_likely() -> None:
    setup = gosgd(decentralised.complete(4), 0.5, batch_size=1, epochs=8, link=Link(1e12))
    run = train(setup).run
    sent = Counter({(use.source, use.target): use.bytes / MODEL_BYTES for use in run.links})
    steps = 8 * 24  # of each node
    deviation = math.sqrt(steps / 6 * 5 / 6)  # binomial, of a sixth
    assert len(sent) == 12
    assert all(abs(count - steps / 6) < 5 * deviation for count in sent.values())
    assert abs(sum(sent.values()) - 4 * steps / 2) < 5 * math.sqrt(4 * steps / 4)


def test_nobody_waits_while_learning() -> None:
    found = train(gosgd(decentralised.complete(3), 1.0, speeds=[1, 0.25, 4], epochs=2))
    for node, speed in enumerate([1, 0.25, 4]):
        ends = found.epochs.filter(node=node)["at_s"].to_list()
        epoch_s = 32 * SAMPLE_S / speed
        assert ends == pytest.approx([epoch_s, 2 * epoch_s])


class TestConsensusError:
    """Paces change nothing where nobody sends; they only decide what is known."""

    @staticmethod
    def errors(speeds: list[float], epochs: int) -> list[float | None]:
        nodes = len(speeds)
        setup = gosgd(decentralised.complete(nodes), 0.0, speeds=speeds, epochs=epochs)
        found = train(setup).epochs
        assert len(found) == nodes * epochs
        return found.unique(["epoch", "consensus_error"]).sort("epoch")["consensus_error"].to_list()

    def test_is_null_where_the_mean_is_not_kept(self) -> None:
        alike = self.errors([1, 1], 6)
        assert alike[0]
        assert self.errors([1, 0.1], 6) == pytest.approx([*[None] * 4, *alike[4:]])

    def test_is_known_as_long_as_nodes_are_less_epochs_apart_than_there_are_nodes(self) -> None:
        alike = self.errors([1, 1, 1], 3)
        assert None not in alike
        assert self.errors([1, 0.5, 0.1], 3) == pytest.approx(alike)

    def test_who_is_gone_for_good_does_not_count(self) -> None:
        setup = gosgd(decentralised.complete(2), 0.0, epochs=5, patience_s=1.0)
        errors = train(setup, faults=[Crash(1, 0.7)]).epochs["consensus_error"]
        assert errors[0] == errors[1] > 0
        assert errors[2:].to_list() == [0.0] * 4


def test_it_learns_and_stays_together() -> None:
    digits = datasets.load("digits")
    setup = gosgd(decentralised.complete(4), 0.3, batch_size=16, epochs=8, evaluate_every=3)
    sgd = training.Sgd(0.03, momentum=0.9)
    found = train(replace(setup, dataset=digits, shards=None, sgd=sgd))
    evaluated = found.epochs.drop_nulls("top1")["epoch"]
    assert evaluated.unique().sort().to_list() == [3, 6, 8]
    assert found.epochs.filter(epoch=8)["top1"].min() > 0.8  # type: ignore[operator]
    apart = models(found) - models(found).mean(0)
    assert (apart**2).sum() < 0.1 * (models(found) ** 2).sum()


class TestFaults:
    def test_what_a_crash_takes_and_a_fetch_gives_is_known_exactly(self) -> None:
        """Nobody sends: a third goes with the crash, and of a peer's third half comes back."""
        setup = gosgd(decentralised.complete(3), 0.0, epochs=12, patience_s=1.0)
        found = train(setup, faults=[Crash(1, 1.0), Restart(1, 2.0)])
        back = found.epochs.filter(node=1, restarts=1)["epoch"].to_list()
        assert back == list(range(back[0], 13))
        assert back[0] > 3
        alphas = sorted(found.run.results.values())
        assert alphas == pytest.approx([1 / 6, 1 / 6, 1 / 3])

    @settings(max_examples=15, deadline=None)
    @given(
        times=st.dictionaries(
            st.integers(0, 2),
            st.lists(st.floats(0.1, 3), min_size=1, max_size=4, unique=True).map(sorted),
            min_size=1,
        ),
        probability=st.sampled_from([0.0, 0.3, 1.0]),
        patience_s=st.sampled_from([0.3, 1.0]),
    )
    @example({2: [0.5, 1.5]}, 0.0, 0.3)  # whose patience ends before a checkpoint comes
    @example({0: [1.0, 1.5], 1: [1.0, 1.5], 2: [1.0, 1.5]}, 1.0, 1.0)  # no weight is left
    def test_weights_held_and_lost_never_exceed_one(
        self, times: dict[int, list[float]], probability: float, patience_s: float
    ) -> None:
        """Each node crashes and restarts in turn; what links lose is not even counted."""
        faults: list[Crash | Restart] = []
        for node, at in times.items():
            faults += [Crash(node, at_s) for at_s in at[::2]]
            faults += [Restart(node, at_s) for at_s in at[1::2]]
        setup = gosgd(decentralised.complete(3), probability, epochs=6, patience_s=patience_s)
        with training.fixed_threads():
            built = setup.programs()
            simulation = Simulation(setup.cluster, built.programs, seed=3, faults=faults)
            lost, hosts = 0.0, simulation.hosts
            for at_s in [*sorted({at_s for at in times.values() for at_s in at}), None]:
                run = simulation.run(at_s)
                alphas = list(map(held, shares(built)))
                left = sum(alphas[host.index] for host in hosts if host.up or host.ended_s)
                assert left + lost <= 1 + 1e-12
                for host in hosts:
                    if Crash(host.index, at_s or 0) in faults and not host.ended_s:
                        lost += alphas[host.index]
            simulation.close()
        assert run.ended == "done"
        assert all(one.flat.parameters.isfinite().all() for one in learners(built))

    @pytest.mark.parametrize("links", [((0, 1), (1, 0)), ((1, 0),)])
    @pytest.mark.parametrize("before_s", [0.001, 0.2])
    def test_an_outage_at_the_end_loses_messages_but_not_the_end(
        self, links: tuple[tuple[int, int], ...], before_s: float
    ) -> None:
        setup = gosgd(decentralised.ring(2), 0.3, epochs=2, patience_s=1.0)
        end_s = train(setup).run.end_s
        faults = [LinkDown(*link, end_s - before_s, end_s + 0.1) for link in links]
        found = train(setup, faults=faults)
        assert found.run.ended == "done"
        assert found.run.end_s <= end_s + 2.0

    def test_node_without_weight_takes_over_the_first_model_that_comes(self) -> None:
        """As the paper's weighted mean has it, of weights 0 and alpha; 0 and 0 changes nothing."""
        built = gosgd(decentralised.ring(2), 0.0).programs()
        learner = learners(built)[0]
        own = learner.snapshot().parameters
        other = torch.ones_like(own)
        worker: Any = Mock(nodes=2, learner=learner)
        exchange = GoSgd(0.5)(worker)
        exchange.resume(None)  # after a restart
        for alpha, expected in ((0.0, own), (0.25, other)):
            exchange.arrived.append(WeightedModel(alpha, 1, Model(other, {})))
            exchange.merge()
            assert (learner.flat.parameters == expected).all()
            assert exchange.alpha == held(exchange) == alpha

    def test_lost_messages_take_their_alpha_with_them(self) -> None:
        setup = gosgd(decentralised.ring(2), 0.5, epochs=3, patience_s=1.0)
        found = train(setup, faults=[Lossy(0, 1, 1.0), SlowDown(1, 0.5, 2.0, 3.0)])
        assert sum(found.run.results.values()) < 1
        assert len(found.epochs) == 6


def test_slow_links_keep_every_copy() -> None:
    slow = Link(LINK.bandwidth_bps / 4)  # type: ignore[operator]
    found = train(gosgd(decentralised.ring(2), 1.0, link=slow, epochs=1))
    assert found.run.end_s == pytest.approx(8 * SAMPLE_S + 6 * 1.0)  # six models, one after another
    assert sum(found.run.results.values()) == pytest.approx(1)
