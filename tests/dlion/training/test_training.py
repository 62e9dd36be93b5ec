"""Whole trainings: repeatable to the bit, ended by what ends them, recorded as they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from tests.dlion.trainings import DIGITS, linear, often, setup
from tests.long import usually
from workbench import dlion
from workbench.dlion import SYSTEMS, TrainingError, train
from workbench.training import Sgd


@pytest.mark.parametrize("name", usually(("ako", "dlion"), SYSTEMS))
def test_every_system_learns_the_same_bits_on_any_number_of_threads(name: str) -> None:
    found, same = (
        train(setup(1, 2, 0.5, mbps=1.0), often(name), threads=threads) for threads in (1, 2)
    )
    assert np.array_equal(found.weights, same.weights)
    for frame in ("epochs", "evaluations", "iterations", "transfers"):
        assert getattr(found, frame).equals(getattr(same, frame))


def test_divergence_is_found_by_the_last_evaluation() -> None:
    """The seconds end before the next step would find out."""
    with pytest.raises(TrainingError, match=r"diverged: the loss is .* on the test samples"):
        train(setup(1, sgd=Sgd(1e38), seconds=0.0081), "baseline")


def test_a_training_of_seconds_is_as_far_as_its_seconds() -> None:
    assert setup(seconds=4.0).programs().standing().percent == 0
    told = setup(iterations=4).programs().standing().at(0.0)
    assert told == "0 of 12 iterations of all workers, 0 %, 0.0 virtual seconds"


class TestEnds:
    @pytest.mark.parametrize("seconds", [0.02, 0.041, 0.21])
    def test_seconds(self, seconds: float) -> None:
        found = train(setup(1, 0.5, seconds=seconds), "ako")
        assert (found.run.ended, found.run.end_s) == ("stopped", seconds)
        for node, each_s in enumerate((0.008, 0.016)):
            rows = found.iterations.filter(node=node)
            assert len(rows) == int(seconds / each_s)
        assert found.evaluations.group_by("node").len()["len"].to_list() == [1, 1]
        assert found.evaluations["at_s"].to_list() == [seconds] * 2

    def test_before_the_first_iteration_is_over(self) -> None:
        found = train(setup(1, 0.5, seconds=1e-4), "dlion")
        assert len(found.iterations) == len(found.epochs) == len(found.transfers) == 0
        assert found.evaluations["iteration"].to_list() == [0, 0]

    def test_whichever_comes_first(self) -> None:
        assert train(setup(1, iterations=3, seconds=1.0), "hop").run.results == {0: 3}
        assert train(setup(1, iterations=300, seconds=0.1), "hop").run.ended == "stopped"

    @pytest.mark.parametrize("epochs", [1, 3])
    def test_epochs(self, epochs: int) -> None:
        """Two workers learn 96 samples in six iterations of 16."""
        found = train(setup(1, 0.5, epochs=epochs), "baseline")
        assert found.run.results == {0: 6 * epochs, 1: 6 * epochs}
        rows = found.epochs
        assert rows["epoch"].to_list() == [one for one in range(1, epochs + 1) for _ in range(2)]
        assert rows["samples"].to_list() == [48] * 2 * epochs

    @pytest.mark.parametrize("held", [24, 96])
    def test_an_epoch_is_what_the_workers_hold(self, held: int) -> None:
        """Fewer samples than there are, or some at both; the global batch grows by the same."""
        shards, growth = [np.arange(held)] * 2, dlion.Growth(16, 2.0, 1, 1, 1.0, 1.0)
        plain = train(setup(1, 0.5, epochs=2, shards=shards), "baseline")
        iterations = 2 * held // 16
        assert plain.run.results == dict.fromkeys(range(2), 2 * iterations)
        assert plain.epochs["samples"].to_list() == [held] * 4
        system = replace(often("dlion"), batching=dlion.Batching(growth))
        grown = train(setup(1, 0.5, epochs=2, shards=shards), system)
        sizes = grown.iterations.filter(node=0)["global_batch"].to_list()
        assert sizes == [16] * iterations + [32] * -(-iterations // 2)
        assert grown.epochs["epoch"].unique().to_list() == [1, 2]

    def test_epochs_of_a_growing_batch(self) -> None:
        system = replace(
            often("dlion"), batching=dlion.Batching(dlion.Growth(8, 2.0, 1, 1, 0.5, 0.5))
        )
        found = train(setup(1, 1, epochs=4), system)
        samples = found.epochs.group_by("epoch").agg(pl.col("samples").sum()).sort("epoch")
        assert samples["epoch"].to_list() == [1, 2, 3, 4]
        assert samples["samples"].sum() == found.iterations["samples"].sum()
        assert all(96 - 48 < one < 96 + 48 for one in samples["samples"])


class TestRecords:
    def test_evaluations_every_so_often_and_at_the_end(self) -> None:
        found = train(setup(1, 0.5, iterations=10, evaluate_every=4), "ako")
        for node in range(2):
            rows = found.evaluations.filter(node=node).sort("iteration")
            assert rows["iteration"].to_list() == [4, 8, 10]
            done = found.iterations.filter(pl.col("iteration").is_in([4, 8]), node=node)
            assert rows["at_s"].to_list() == [*done["at_s"], found.run.end_s]

    def test_evaluations_are_of_the_weights(self) -> None:
        """A single worker's last evaluation is of what it ends with."""
        found = train(setup(1, iterations=5), "baseline")
        model = linear()
        torch.nn.utils.vector_to_parameters(torch.tensor(found.weights[0]), model.parameters())
        with torch.no_grad():
            logits = model(torch.tensor(DIGITS.x_test))
        right = float((logits.argmax(1).numpy() == DIGITS.y_test).mean())
        row = found.evaluations.row(-1, named=True)
        assert row["top1"] == pytest.approx(right)
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(DIGITS.y_test))
        assert row["loss"] == pytest.approx(float(loss), rel=1e-5)

    def test_epochs_sum_up_iterations(self) -> None:
        found = train(setup(1, 0.5, epochs=2, evaluate_every=4), "baseline")
        first = found.iterations.filter(pl.col("iteration") <= 6, pl.col("node") == 1)
        row = found.epochs.row(
            by_predicate=(pl.col("epoch") == 1) & (pl.col("node") == 1), named=True
        )
        assert row["loss"] == pytest.approx(first["loss"].mean())
        assert row["at_s"] == first["at_s"].max()
        evaluated = found.evaluations.filter(node=1, iteration=4)
        assert row["top1"] == evaluated["top1"].item()
        assert train(setup(1, 1, epochs=1)).epochs["top1"].null_count() == 0
