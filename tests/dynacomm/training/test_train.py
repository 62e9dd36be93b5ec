"""True learning under every plan: the same weights, bit for bit, and the right ones."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from tests.dynacomm.training.trainings import DIGITS, LENET, LINKS
from workbench import datasets
from workbench.clusters import Link
from workbench.dynacomm import PLANNERS, iteration
from workbench.dynacomm.programs.learning import Pieces, ServerStore, WorkerReplica
from workbench.dynacomm.training import Setup, train

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


def test_several_workers_learn_what_one_learns_from_their_joint_batch() -> None:
    alone = train(replace(LENET, batch_size=24), "dynacomm").weights
    together = train(replace(LENET, batch_size=8, workers=3, servers=2), "dynacomm").weights
    assert torch.allclose(alone, together, atol=1e-5)


def test_it_learns() -> None:
    data = datasets.load("digits").fitted((1, 28, 28))
    epochs = train(replace(LENET, dataset=data, epochs=3, workers=2)).epochs
    assert epochs["top1"][-1] > 0.8
    assert epochs["loss"][-1] < epochs["loss"][0]


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

    def hands_out(self: ServerStore, where: Sequence[slice]) -> Pieces:
        pieces = parameters(self, where)
        handed.update({id(view): (view, view.clone()) for _, view in pieces})
        return pieces

    def writes(self: WorkerReplica, pieces: Pieces) -> None:
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


def test_servers_share_memory_and_hold_every_element_once() -> None:
    """Ten thousand copies of LeNet-5, each thrice, would take 7.4 GB."""
    stores = replace(LENET, servers=300).programs().stores
    for name in ("vector", "velocity", "total"):
        assert len({getattr(store, name).data_ptr() for store in stores}) == 1, name
    held = [index for store in stores for part in store.own for index in range(10**6)[part]]
    assert sorted(held) == list(range(len(stores[0].vector)))
