"""True learning under every plan: the same weights, bit for bit, and the right ones."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from workbench import datasets, training
from workbench.clusters import Link, Schedule
from workbench.dynacomm import PLANNERS, experiments, iteration
from workbench.dynacomm.train import Setup, train
from workbench.names import UnknownNameError

DIGITS = datasets.load("digits").limit(train=96, test=32)
LENET = Setup(
    "lenet5", DIGITS.fitted((1, 28, 28)), Link(20e6, 0.02), batch_size=16, epochs=2, seed=3
)
NORMALISED = Setup(
    "resnet20_cifar", DIGITS.limit(train=32, test=16).fitted((3, 32, 32)), Link(20e6, 0.02)
)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("servers", [1, 2])
def test_weights_are_the_same_under_every_plan(workers: int, servers: int) -> None:
    setup = replace(LENET, workers=workers, servers=servers)
    weights = {planner: train(setup, planner).weights for planner in PLANNERS}
    for planner, found in weights.items():
        assert torch.equal(found, weights["sequential"]), planner


def test_normalised_models_too() -> None:
    setup = replace(NORMALISED, workers=2, batch_size=8)
    one, other = (train(setup, planner) for planner in ("sequential", "dynacomm"))
    assert torch.equal(one.weights, other.weights)
    assert one.epochs.drop("at_s").equals(other.epochs.drop("at_s"))
    assert other.run.end_s < one.run.end_s


def test_one_worker_learns_what_a_bare_loop_learns() -> None:
    found = train(LENET, "dynacomm")
    data, sgd = LENET.dataset, LENET.sgd
    with training.fixed_threads():
        flat = training.flatten(training.initialise("lenet5", 3), (1, 28, 28))
        velocity = sgd.start(flat.parameters)
        for epoch in range(2):
            for batch in training.batches(data, 16, seed=3, epoch=epoch):
                training.gradient_step(flat, data.x_train[batch], data.y_train[batch])
                sgd.step(flat.parameters, flat.gradients, velocity)
    assert torch.equal(found.weights, flat.parameters)


def test_several_workers_learn_what_one_learns_from_their_joint_batch() -> None:
    alone = train(replace(LENET, batch_size=24), "dynacomm").weights
    together = train(replace(LENET, batch_size=8, workers=3, servers=2), "dynacomm").weights
    assert torch.allclose(alone, together, atol=1e-5)


def test_time_is_what_the_cost_model_says() -> None:
    found = train(LENET, "layer_by_layer")
    plan = PLANNERS["layer_by_layer"](LENET.costs)
    iterations = 2 * 96 // 16
    expected_s = iterations * iteration(LENET.costs, plan).total_s
    assert found.run.end_s == pytest.approx(expected_s, rel=1e-9)
    assert found.epochs["at_s"].to_list() == pytest.approx([expected_s / 2, expected_s])


def test_a_seed_gives_the_same_run_and_another_does_not() -> None:
    one, again, other = (train(replace(LENET, seed=seed)) for seed in (3, 3, 4))
    assert torch.equal(one.weights, again.weights)
    assert one.epochs.equals(again.epochs)
    assert not torch.equal(one.weights, other.weights)


def test_ctrl_c_leaves_the_epochs_that_are_done() -> None:
    def interrupts(now_s: float, events: int) -> None:
        if now_s > first_s:
            raise KeyboardInterrupt

    setup = replace(LENET, epochs=60)
    first_s = train(replace(LENET, epochs=1)).run.end_s
    stopped = train(setup, progress=interrupts)
    assert stopped.run.interrupted
    assert 1 <= len(stopped.epochs) < 60
    whole = train(replace(LENET, epochs=len(stopped.epochs)))
    assert stopped.epochs.equals(whole.epochs)
    assert torch.equal(stopped.weights, whole.weights)


def test_it_learns() -> None:
    data = datasets.load("digits").fitted((1, 28, 28))
    epochs = train(replace(LENET, dataset=data, epochs=3, workers=2)).epochs
    assert epochs["top1"][-1] > 0.8
    assert epochs["loss"][-1] < epochs["loss"][0]


def test_more_workers_than_samples_are_refused() -> None:
    setup = replace(LENET, dataset=LENET.dataset.limit(train=2), workers=3)
    with pytest.raises(ValueError, match="3 workers cannot share 2 samples"):
        train(setup)


def test_unknown_planner_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'dynacomm'"):
        train(LENET, "dynacom")


def test_a_link_that_changes_has_no_one_cost() -> None:
    changing = Link(Schedule.of([(0.0, 1e6), (1.0, 2e6)]))
    with pytest.raises(ValueError, match="changes over time"):
        train(replace(LENET, link=changing))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workers": 0}, "workers is 0"),
        ({"servers": 0}, "servers is 0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": 1.5}, r"batch_size is 1\.5"),
        ({"dataset": "digits"}, r"datasets\.load"),
        ({"link": Link(1e6, tensor_s=0.1)}, r"tensor_s 0\.1"),
        ({"link": Link(1e6, latency_s=0.1)}, r"latency_s 0\.1"),
    ],
)
def test_setups_that_cannot_run_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(LENET, **change)


def test_ctrl_c_stops_an_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(setup: Setup, planner: str) -> Any:
        run = replace(train(replace(setup, epochs=1), planner).run, ended="interrupted")
        return train(setup, planner)._replace(run=run)

    monkeypatch.setattr("workbench.dynacomm.train.train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        experiments.fig10("smoke")
