"""What replicas learn, at once and layer by layer; what each draws, and what all remember."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.dynacomm.training.trainings import DIGITS, LENET
from workbench import training
from workbench.clusters import Link, full_mesh
from workbench.dynacomm import PLANNERS
from workbench.dynacomm.programs.worker_and_server import Fixed, worker, worker_and_server
from workbench.dynacomm.training import Setup, Trained, TrainingError, train
from workbench.runtime import simulate
from workbench.training import Sgd

SMALL = DIGITS.limit(train=32, test=16).fitted((3, 32, 32))


def test_workers_drop_out_each_for_itself() -> None:
    setup = Setup("mobilenet_v2_cifar", SMALL, Link(1e9), workers=2, batch_size=4)

    def gradients(setup: Setup, worker: int, iteration: int) -> torch.Tensor:
        built = setup.programs()
        replica = built.replicas[worker]
        replica.flat.parameters.copy_(first)
        replica.batches = [built.replicas[0].batches[0]] * 2
        replica.learn(iteration)
        return replica.flat.gradients.clone()

    with training.fixed_threads():
        first = setup.programs().epochs.weights
        found = gradients(setup, 0, 0)
        assert torch.equal(gradients(setup, 0, 0), found)
        assert not torch.equal(gradients(setup, 1, 0), found)
        assert not torch.equal(gradients(setup, 0, 1), found)


def test_epochs_are_evaluated_with_what_workers_remember_on_average() -> None:
    setup = Setup("resnet20_cifar", SMALL, Link(20e6, 0.02), workers=2, batch_size=8)
    with training.fixed_threads():
        built = setup.programs()
        simulate(setup.cluster, built.programs)
        module, (row,) = built.epochs.flat.module, built.epochs.frame.iter_rows(named=True)
        one, other = (replica.buffers[-1] for replica in built.replicas)
        averaged = {
            name: (value + other[name]) / 2 if value.is_floating_point() else value
            for name, value in one.items()
        }
        assert any(not torch.allclose(value, averaged[name]) for name, value in one.items())
        losses = []
        for buffers in (averaged, one, other):
            training.set_buffers(module, buffers)
            losses.append(training.evaluate(module, SMALL.x_train, SMALL.y_train).loss)
    assert row["loss"] == pytest.approx(losses[0], rel=1e-6)
    assert all(loss != pytest.approx(losses[0], rel=1e-4) for loss in losses[1:])


def test_a_run_of_another_seed_draws_other_numbers_in_every_iteration() -> None:
    setup = Setup("lenet5_cifar", SMALL, Link(1e9), workers=2, batch_size=4)
    runs = [replace(setup, seed=seed).programs().replicas for seed in (0, 1)]
    draws = [one.draws(number) for replicas in runs for one in replicas for number in range(8)]
    assert len(set(draws)) == len(draws)


@pytest.mark.parametrize("place", [0, 1])
def test_server_on_a_worker_gives_the_same_weights(place: int) -> None:
    setup = replace(LENET, workers=2)
    with training.fixed_threads():
        built, own = setup.programs(), setup.programs()
        simulate(setup.cluster, built.programs)
        job = setup.job(own.epoch_ends[-1], own.epochs.flat.layout.starts)
        job = replace(job, hub=place)
        planning = Fixed(PLANNERS["dynacomm"](setup.costs))
        programs = [worker(job, planning, state) for state in own.states]
        programs[place] = worker_and_server(job, planning, own.states[place], own.stores[0])
        run = simulate(full_mesh(setup.nodes, setup.link), programs)
        assert not torch.equal(own.epochs.weights, setup.programs().epochs.weights)
        assert torch.equal(own.epochs.weights, built.epochs.weights)
    assert [len(report.plans) for report in run.results.values()] == [own.epoch_ends[-1]] * 2


# with shortcuts that pass a cut, and buffers
RESNET = Setup("resnet20_cifar", SMALL, Link(20e6, 0.02), workers=2, batch_size=8)
DROPOUT = Setup("alexnet_small", SMALL, Link(20e6, 0.02), workers=2, batch_size=8, epochs=2)


def trained(setup: Setup, planner: str, *, by_layer: bool) -> Trained[torch.Tensor]:
    return train(replace(setup, by_layer=by_layer), planner, trace=True)


@pytest.mark.parametrize("planner", PLANNERS)
def test_layer_by_layer_gives_the_same_weights_losses_and_times(planner: str) -> None:
    setup = replace(LENET, workers=2)
    at_once = trained(setup, planner, by_layer=False)
    by_layer = trained(setup, planner, by_layer=True)
    assert torch.equal(by_layer.weights, at_once.weights)
    assert by_layer.epochs.equals(at_once.epochs)
    traces = [each.run.trace for each in (by_layer, at_once)]
    assert traces[0] is not None
    assert traces[1] is not None
    assert traces[0].frame.equals(traces[1].frame)


def test_layer_by_layer_gives_the_same_weights_and_buffers_past_shortcuts() -> None:
    at_once = trained(RESNET, "layer_by_layer", by_layer=False)
    by_layer = trained(RESNET, "layer_by_layer", by_layer=True)
    assert torch.equal(by_layer.weights, at_once.weights)
    assert by_layer.epochs.equals(at_once.epochs)  # evaluated with the buffers


def test_what_a_layer_drops_depends_on_no_plan() -> None:
    one, other = (
        trained(DROPOUT, planner, by_layer=True) for planner in ("sequential", "layer_by_layer")
    )
    assert torch.equal(one.weights, other.weights)


def test_diverging_by_layer_says_who_and_when() -> None:
    wild = replace(LENET, sgd=Sgd(1e20), by_layer=True)
    with pytest.raises(TrainingError, match=r"diverged: .*worker0 in iteration 2, epoch 1"):
        train(wild, "layer_by_layer")
