"""Whole trainings: repeatable to the bit, ended by what ends them, recorded as they are."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from tests.dlion.trainings import DIGITS, EXCHANGING, linear, often, setup
from tests.long import usually
from workbench import dlion
from workbench.dlion import Trained, TrainingError, train
from workbench.runtime import SimulationError
from workbench.training import Sgd
from workbench.training.trained import DivergedError


def digest(name: str, threads: int | None = None, seed: int = 0) -> str:
    """Hash of all that a short training ends with; other processes import this."""
    found = train(setup(1, 2, 0.5, mbps=1.0, seed=seed), often(name), threads=threads)
    made = hashlib.sha256(found.weights.tobytes())
    for frame in (found.epochs, found.evaluations, found.iterations, found.transfers):
        made.update(frame.write_csv().encode())
    return made.hexdigest()


class TestRepeatable:
    @pytest.mark.parametrize("name", usually(("ako", "dlion"), EXCHANGING))
    def test_the_same_seed_gives_the_same_bits(self, name: str) -> None:
        assert digest(name) == digest(name, threads=1) == digest(name, threads=2)
        assert digest(name, seed=1) != digest(name)

    def test_a_user_s_generators_stay(self) -> None:
        torch.manual_seed(5)
        before = torch.get_rng_state()
        train(setup(), "dlion")
        assert torch.equal(before, torch.get_rng_state())


class TestEnds:
    def test_iterations(self) -> None:
        found = train(setup(1, 0.5, iterations=7), "ako")
        assert found.run.ended == "done"
        assert found.run.results == {0: 7, 1: 7}

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

    def test_the_last_evaluation_is_of_the_last_weights(self) -> None:
        found = train(setup(1, 0.5, first_weights="shared", iterations=4), "baseline")
        assert np.allclose(found.weights[0], found.weights[1], atol=1e-6)
        assert found.evaluations["loss"].to_list() == pytest.approx(
            [found.evaluations["loss"][0]] * 2, rel=1e-4
        )

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

    def test_shapes(self) -> None:
        found = train(setup(1, 1, 1), "dlion")
        assert found.weights.shape == (3, 650)
        assert found.weights.dtype == np.float32
        assert np.isfinite(found.iterations["loss"].to_numpy()).all()
        assert set(found.transfers["topic"]) <= {"gradient", "weights", "model"}

    def test_progress(self) -> None:
        seen: list[float] = []
        train(setup(), "dlion", progress=lambda now_s, events: seen.append(now_s))
        assert seen == sorted(seen)
        built = setup(iterations=4).programs()
        assert (
            built.standing().at(0.0)
            == "0 of 12 iterations of all workers, 0 %, 0.0 virtual seconds"
        )
        assert setup(seconds=4.0).programs().standing().percent == 0


class TestDiverging:
    @pytest.mark.parametrize("name", usually(("baseline", "dlion"), EXCHANGING))
    def test_what_was_done_is_kept(self, name: str) -> None:
        with pytest.raises(TrainingError, match=r"diverged: the loss is .* than 1e\+38") as raised:
            train(setup(sgd=Sgd(1e38), iterations=60), often(name))
        error = raised.value
        assert isinstance(error.__cause__, DivergedError)
        assert isinstance(error, SimulationError)
        found = error.trained
        assert isinstance(found, Trained)
        assert len(found.iterations) > 0
        assert all(map(math.isfinite, found.iterations["loss"]))
        assert found.run.ended == "failed"

    def test_found_by_the_last_evaluation(self) -> None:
        """The seconds end before the next step would find out."""
        with pytest.raises(TrainingError, match=r"diverged: the loss is .* on the test samples"):
            train(setup(1, sgd=Sgd(1e38), seconds=0.0081), "baseline")
