"""True learning under every plan, at once and layer by layer: the same weights, the right ones."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.dynacomm.trainings import DIGITS, LENET, LINKS, replicas, stores
from tests.long import usually
from workbench import training
from workbench.clusters import Link, full_mesh
from workbench.dynacomm import PLANNERS, iteration
from workbench.dynacomm.learning import ServerStore
from workbench.dynacomm.programs import FixedPlan, Worker, worker_and_server
from workbench.dynacomm.training import Setup, Trained, TrainingError, train
from workbench.runtime import simulate
from workbench.training import Sgd
from workbench.training.data_parallel import Parts, WorkerReplica


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("servers", usually([2], [1, 2]))
def test_weights_are_the_same_under_every_plan(workers: int, servers: int) -> None:
    setup = replace(LENET, workers=workers, servers=servers)
    weights = {planner: train(setup, planner).weights for planner in PLANNERS}
    for planner, found in weights.items():
        assert torch.equal(found, weights["sequential"]), planner


def linear() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))


SMALL = DIGITS.limit(train=32, test=16).fitted((3, 32, 32))


@pytest.mark.parametrize("by_layer", [False, True])
@pytest.mark.parametrize("workers", usually([2, 5], [1, 2, 3, 4, 5]))
@pytest.mark.parametrize("samples", [11, 21, 23])
def test_uneven_last_batches_are_weighted_by_their_samples(
    samples: int, workers: int, by_layer: bool
) -> None:
    """Of 21 samples, four of five workers have none in the last round."""
    data = DIGITS.limit(train=samples, test=16).fitted((1, 8, 8))
    setup = Setup(linear, data, Link(20e6), batch_size=4, epochs=3, sgd=Sgd(0.1, momentum=0.9))
    alone = train(replace(setup, batch_size=4 * workers))
    together = train(replace(setup, workers=workers, by_layer=by_layer))
    assert torch.allclose(alone.weights, together.weights, atol=1e-6)
    assert together.epochs["loss"].to_list() == pytest.approx(alone.epochs["loss"].to_list())


def test_several_servers_are_as_one_with_a_wider_link() -> None:
    link = Link(20e6, 0.02, tensor_s=0.013, split_bytes=50_000, whole_share=0.5)
    setup = replace(LENET, link=link, servers=3)
    assert (
        setup.costs.pull_s.sum()
        > replace(setup, link=replace(link, whole_share=1)).costs.pull_s.sum()
    )
    plan = PLANNERS["dynacomm"](setup.costs)
    once_s = iteration(setup.costs, plan).total_s
    # Parts of a layer are whole elements, but bytes are shared out exactly.
    assert train(setup, replan_every=None).run.end_s == pytest.approx(12 * once_s, rel=1e-9)


@pytest.mark.parametrize("planner", ["sequential", "layer_by_layer", "dynacomm"])
def test_latency_is_waited_for_twice_an_iteration(planner: str) -> None:
    setup = replace(LENET, link=Link(20e6, 0.02, latency_s=0.5))
    once_s = iteration(LENET.costs, PLANNERS[planner](LENET.costs)).total_s
    found = train(setup, planner, replan_every=None)
    assert found.run.end_s == pytest.approx(12 * (once_s + 2 * 0.5) + 0.5, rel=1e-9)
    assert torch.equal(found.weights, train(LENET, planner).weights)


def test_the_slowest_worker_sets_the_pace() -> None:
    setup = replace(LENET, workers=2, speeds=(1.0, 0.01), link=Link(2e9, 1e-4))
    plan = PLANNERS["dynacomm"](setup.costs)
    slow = replace(setup, workers=1, speeds=(), flops_per_s=setup.flops_per_s / 100).costs
    found = train(setup, replan_every=None)
    assert found.run.end_s == pytest.approx(6 * iteration(slow, plan).total_s, rel=1e-9)
    assert torch.equal(found.weights, train(replace(setup, speeds=())).weights)


def test_all_that_is_pulled_was_written_before_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers step in place, and messages hold views: none may be on its way then."""
    setup = replace(
        LENET,
        link=replace(LINKS["sawtooth"], latency_s=0.05),
        workers=3,
        servers=2,
        batch_size=8,
        speeds=(1.0, 0.5, 0.25),
    )
    handed: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    parameters, write, written = ServerStore.parameters, WorkerReplica.write, 0

    def hands_out(self: ServerStore, where: Sequence[slice]) -> Parts:
        pieces = parameters(self, where)
        handed.update({id(view): (view, view.clone()) for _, view in pieces})
        return pieces

    def writes(self: WorkerReplica, pieces: Parts) -> None:
        nonlocal written
        for _, view in pieces:
            kept, then = handed[id(view)]
            assert kept is view
            assert torch.equal(view, then)
            written += 1
        write(self, pieces)

    monkeypatch.setattr(ServerStore, "parameters", hands_out)
    monkeypatch.setattr(WorkerReplica, "write", writes)
    train(setup, replan_every=1)
    assert written > 2 * 3 * 2 * 4  # epochs, workers, servers, iterations: several segments each


def test_servers_together_hold_the_model_once() -> None:
    held = stores(replace(LENET, servers=300).programs())
    numbers = [index for store in held for part in store.own for index in range(10**6)[part]]
    assert sorted(numbers) == list(range(sum(len(store.vector) for store in held)))


def test_workers_drop_out_each_for_itself() -> None:
    def model() -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Dropout(), torch.nn.Linear(3 * 32 * 32, 10)
        )

    setup = Setup(model, SMALL, Link(1e9), workers=2, batch_size=4)

    def gradients(setup: Setup, worker: int, iteration: int) -> torch.Tensor:
        built = setup.programs()
        replica = replicas(built)[worker]
        replica.flat.parameters.copy_(first)
        replica.batches = [replicas(built)[0].batches[0]] * 2
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
        simulate(setup.cluster, built.programs, observer=built.observe)
        module, (row,) = built.epochs.flat.module, built.epochs.frame.iter_rows(named=True)
        own = [training.get_buffers(replica.flat.module) for replica in replicas(built)]
        one, other = own
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
    runs = [replicas(replace(setup, seed=seed).programs()) for seed in (0, 1)]
    draws = [one.draws(number) for run in runs for one in run for number in range(8)]
    assert len(set(draws)) == len(draws)


@pytest.mark.parametrize("place", [0, 1])
def test_server_on_a_worker_gives_the_same_weights(place: int) -> None:
    setup = replace(LENET, workers=2)
    with training.fixed_threads():
        built, own = setup.programs(), setup.programs()
        simulate(setup.cluster, built.programs, observer=built.observe)
        job = setup.job(own.epoch_ends[-1], own.epochs.flat.layout.starts)
        job = replace(job, hub=place)
        planning = FixedPlan(PLANNERS["dynacomm"](setup.costs))
        states = [each.replica for each in own.programs if isinstance(each, Worker)]
        programs: list[Any] = [Worker(job, planning, state) for state in states]
        programs[place] = worker_and_server(job, planning, states[place], stores(own)[0])
        run = simulate(full_mesh(setup.nodes, setup.link), programs, observer=own.observe)
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
    in_one_piece = train(RESNET, "sequential")
    assert torch.equal(in_one_piece.weights, at_once.weights)
    assert in_one_piece.epochs.drop("at_s").equals(at_once.epochs.drop("at_s"))


def test_what_a_layer_drops_depends_on_no_plan() -> None:
    one, other = (
        trained(DROPOUT, planner, by_layer=True) for planner in ("sequential", "layer_by_layer")
    )
    assert torch.equal(one.weights, other.weights)


def test_diverging_by_layer_says_who_and_when() -> None:
    wild = replace(LENET, sgd=Sgd(1e20), by_layer=True)
    with pytest.raises(TrainingError, match=r"diverged: .*worker0 in iteration 2, epoch 1"):
        train(wild, "layer_by_layer")
