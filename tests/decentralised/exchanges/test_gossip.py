"""One exchange an epoch: the right models at the right times, whatever fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from tests.decentralised.exchanges import runs
from tests.decentralised.setups import (
    MODEL_BYTES,
    SAMPLE_S,
    Watching,
    epochwise,
    mixing_of,
    models,
    scattered,
)
from tests.oracles import gossip as oracle
from tests.oracles.model_exchange import Inner
from workbench import decentralised
from workbench.decentralised import Gossip, Trained, View, train
from workbench.runtime import Crash, Fault, LinkDown, Restart, SlowDown
from workbench.training import Sgd

MODEL_S = 0.25


def spread(found: np.ndarray) -> float:
    return float(np.sqrt(((found - found.mean(0)) ** 2).sum(1).mean()))


def epochs_of(trained: Trained[Any], node: int) -> list[int]:
    return trained.epochs.filter(node=node)["epoch"].to_list()


def test_equals_plain_loops_in_double_precision() -> None:
    graph = decentralised.ring(4)
    of = replace(
        epochwise(graph, epochs=3), model=runs.Regression, dataset=runs.DIGITS, sgd=Sgd(0.1, 0.9)
    )
    flat = of.flat()
    workers = [Inner(flat.parameters.tolist(), 0.1, 0.9) for _ in graph]
    for epoch in (1, 2, 3):
        for node, worker in enumerate(workers):
            view = View(node, 0, flat, of, of.held[node], 8, 0)
            for batch in decentralised.EverySample(3).step(None, epoch, view)[1]:
                x, y = runs.DIGITS.x_train[batch], runs.DIGITS.y_train[batch]
                worker.step([(np.ravel(a).tolist(), int(b)) for a, b in zip(x, y, strict=True)])
        matrix = mixing_of(of).matrix.tolist()
        mixed = oracle.mixed(matrix, [one.weights for one in workers], [True] * 4)
        for worker, weights in zip(workers, mixed, strict=True):
            worker.weights = weights
    expected = np.array([one.weights for one in workers])
    np.testing.assert_allclose(models(train(of)), expected, atol=1e-9)


class TestPureMixing:
    @pytest.mark.parametrize("name", decentralised.GRAPHS)
    def test_consensus_error_falls_as_the_gap_says(self, name: str) -> None:
        setup = epochwise(decentralised.GRAPHS[name](8), epochs=6)
        first, found = scattered(setup)
        errors = found.epochs.group_by("epoch").agg(pl.col("consensus_error").unique())
        rate = 1 - mixing_of(setup).spectral_gap
        start = spread(first)
        for epoch, (error,) in errors.sort("epoch").iter_rows():
            assert error <= rate**epoch * start + 1e-5
            exact = np.linalg.matrix_power(mixing_of(setup).matrix, epoch) @ first
            assert error == pytest.approx(spread(exact), abs=1e-5)
        assert models(found).mean(0) == pytest.approx(first.mean(0), abs=1e-5)

    def test_matrices_that_are_not_symmetric(self) -> None:
        """A directed ring: who is heard need not hear, so some run ahead; nothing is skipped."""
        matrix = 0.5 * np.eye(4) + 0.5 * np.roll(np.eye(4), 1, axis=1)
        speeds = [1, 0.5, 2, 4]
        setup = epochwise(decentralised.complete(4), speeds=speeds, epochs=5)
        setup = replace(setup, exchange=Gossip(matrix))
        first, found = scattered(setup)
        assert models(found) == pytest.approx(np.linalg.matrix_power(matrix, 5) @ first, abs=1e-5)
        assert all(epochs_of(found, node) == [1, 2, 3, 4, 5] for node in range(4))


class TestTime:
    def test_everyone_waits_for_the_slowest(self) -> None:
        found = train(epochwise(decentralised.complete(4), speeds=[1, 1, 1, 0.1], epochs=2))
        slowest_s = 24 * SAMPLE_S / 0.1  # which finds the others' models there, and goes on
        for node, later_s in ((3, 0), (0, MODEL_S)):
            ends_s = found.epochs.filter(node=node)["at_s"].to_list()
            assert ends_s == pytest.approx([slowest_s + later_s, 2 * slowest_s + later_s])
        assert found.run.bytes == 2 * 4 * 3 * MODEL_BYTES


class TestFaults:
    def test_a_crash_takes_nothing_from_the_others(self) -> None:
        setup = epochwise(decentralised.ring(5), epochs=4, patience_s=5.0)
        first, found = scattered(setup, [Crash(2, 2.0)])  # while computing the second epoch
        models_now = [row[:4].tolist() for row in first]
        matrix = mixing_of(setup).matrix.tolist()
        models_now = oracle.mixed(matrix, models_now, [True] * 5)
        for _ in range(3):
            models_now = oracle.mixed(matrix, models_now, [True, True, False, True, True])
        for node in (0, 1, 3, 4):
            assert models(found)[node, :4] == pytest.approx(np.array(models_now[node]), abs=1e-5)
            assert epochs_of(found, node) == [1, 2, 3, 4]
        assert epochs_of(found, 2) == [1]

    def test_a_dead_peer_is_waited_for_once(self) -> None:
        faults = [Crash(1, 0.5)]
        _, found = scattered(epochwise(decentralised.ring(2), epochs=8, patience_s=6.0), faults)
        # Its first sign, at 0, is its last; from 6.0 on there is nobody to wait for.
        assert found.epochs["at_s"].to_list() == pytest.approx([6.0 + epoch for epoch in range(8)])

    def test_who_comes_back_fetches_the_model_and_takes_part_again(self) -> None:
        setup = epochwise(decentralised.complete(4), epochs=8, patience_s=2.0)
        faults = [Crash(3, 3.1), Restart(3, 6.0)]
        first, found = scattered(setup, faults)
        back = found.epochs.filter(node=3)
        assert back["restarts"].is_sorted()
        assert (back["restarts"].max(), back["epoch"].max()) == (1, 8)
        assert len(set(back["epoch"])) == len(back) < 8
        # It did not bring the first model of all nodes back, from which all are far by now.
        assert spread(models(found)) < 1e-5
        assert np.abs(models(found) - first[:3].mean(0)).mean() < 0.5

    def test_who_was_cut_off_catches_up(self) -> None:
        setup = epochwise(decentralised.complete(4), epochs=12, patience_s=1.5)
        others = (0, 2, 3)
        faults: list[Fault] = [SlowDown(1, 2.0, 9.0, 3.0)]
        faults += [LinkDown(*ends, 2.0, 9.0) for one in others for ends in ((one, 1), (1, one))]
        _, found = scattered(setup, faults)
        cut_off = epochs_of(found, 1)
        assert cut_off[-1] == 12
        assert len(cut_off) < 12
        assert all(epochs_of(found, node) == list(range(1, 13)) for node in others)
        assert spread(models(found)) < 1e-5
        ends = found.epochs.filter(epoch=12)["at_s"].to_list()
        assert max(ends) - min(ends) < 1.0

    @pytest.mark.parametrize("patience_s", [0.5, 20.0])
    def test_who_is_slow_is_waited_for(self, patience_s: float) -> None:
        setup = epochwise(decentralised.ring(4), epochs=4, patience_s=patience_s)
        slowed, plain = (scattered(setup, faults)[1] for faults in ([SlowDown(1, 1, 9, 5.0)], []))
        assert np.array_equal(models(slowed), models(plain))
        assert slowed.run.end_s > plain.run.end_s

    def test_all_crash_and_begin_again(self) -> None:
        setup = epochwise(decentralised.complete(3), epochs=2, patience_s=2.0)
        faults = [fault for node in range(3) for fault in (Crash(node, 0.5), Restart(node, 1.0))]
        found = train(setup, faults=faults)
        assert [epochs_of(found, node)[-1] for node in range(3)] == [2, 2, 2]
        assert set(found.epochs["restarts"]) == {1}

    def test_a_crash_leaves_nothing_of_what_was_learnt(self) -> None:
        """Of a node alone, whose models are those of all nodes."""
        alone = epochwise(decentralised.ring(1), epochs=2)
        plain, again = train(alone), train(alone, faults=[Crash(0, 1.5), Restart(0, 2.0)])
        assert torch.equal(plain.weights[0], again.weights[0])
        assert again.epochs["at_s"].to_list() == pytest.approx([0.96, 2.96, 3.92])
        assert again.epochs["samples"].to_list() == [96, 96, 96]
        assert again.epochs["consensus_error"].to_list() == [0, 0, 0]

    def test_who_comes_back_last_of_all_still_gets_the_model(self) -> None:
        setup = epochwise(decentralised.ring(2), epochs=2, patience_s=4.0)
        _, found = scattered(setup, [Crash(1, 0.5), Restart(1, 7.0)])
        assert torch.equal(*found.weights)
        assert epochs_of(found, 1) == [2]


class TestSelecting:
    def test_choosing_takes_its_time(self) -> None:
        setup = epochwise(decentralised.complete(3), speeds=[1, 1, 0.1], epochs=2)
        plain, charged = (train(setup, Watching({}, seconds)) for seconds in (0.0, 3.0))
        plain_s, charged_s = (one.epochs.filter(node=2)["at_s"] for one in (plain, charged))
        assert (charged_s - plain_s).to_list() == pytest.approx([30.0, 60.0])
        assert all(torch.equal(*both) for both in zip(plain.weights, charged.weights, strict=True))

    def test_the_last_epoch_is_told(self) -> None:
        views: dict[tuple[int, int], View] = {}
        train(epochwise(decentralised.ring(3), speeds=[1, 0.5, 1]), Watching(views))
        assert views[1, 1].last is None
        last = views[1, 2].last
        assert last is not None
        assert last.samples == 32
        assert last.seconds == pytest.approx(32 * SAMPLE_S / 0.5)
        assert views[1, 2].sample_s == SAMPLE_S
