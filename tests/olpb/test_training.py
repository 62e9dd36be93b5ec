"""Exact methods train as plain descent does, DPB as late as it says; all of it repeats."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.long import usually
from tests.oracles import olpb_nodes as oracle
from tests.refusals import refusals
from workbench import training
from workbench.datasets import Dataset
from workbench.olpb.algorithms import METHODS
from workbench.olpb.algorithms.decoupled import cut
from workbench.olpb.costs.subtasks import Node, Pool
from workbench.olpb.training import Setup, Trained, TrainingError, train
from workbench.profiles import profile_model
from workbench.runtime import Crash, LinkDown, SlowDown, simulate

POOL = Pool(tuple(Node(1e6) for _ in range(4)), 1e-4, 1e-3)


def made_samples(seed: int = 0) -> Dataset:
    random = np.random.default_rng(seed)
    labels = np.arange(48) % 3
    images = random.normal(size=(48, 1, 6, 6)) + labels[:, None, None, None]
    x, y = images.astype(np.float32), labels.astype(np.int64)
    return Dataset("made", x[:36], y[:36], x[36:], y[36:], ("one", "two", "three"))


def small() -> nn.Module:
    convolutions = (nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten())
    return nn.Sequential(*convolutions, nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 3))


def normalised() -> nn.Module:
    convolution = (nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(0.3), nn.Flatten())
    return nn.Sequential(*convolution, nn.Linear(48, 8), nn.Tanh(), nn.Linear(8, 3))


def setup(model: Any = small, **options: Any) -> Setup:
    chosen: dict[str, Any] = {"batch_size": 6, "epochs": 2, "sgd": training.Sgd(0.05)}
    return Setup(model, made_samples(), POOL, **(chosen | options))


@pytest.mark.parametrize("model", [small, normalised])
@pytest.mark.parametrize(
    ("method", "in_batches"),
    [("olpb", False), ("olpb", True), ("bppsa", False), ("sequential", False)],
)
def test_exact_methods_are_plain_descent_bit_for_bit(
    model: Any, method: str, in_batches: bool
) -> None:
    sgd = training.Sgd(0.05, momentum=0.9, weight_decay=0.01)
    one = setup(model, sgd=sgd, in_batches=in_batches)
    found = train(one, method)
    with training.fixed_threads():
        flat = training.flatten(one.made(), (1, 6, 6))
        velocity = one.sgd.start(flat.parameters)
        for iteration, batch in enumerate(one.batches):
            with training.seeded(0, training.repeatable.STEP, 0, iteration):
                x, y = one.dataset.x_train[batch], one.dataset.y_train[batch]
                loss = training.gradient_step(flat, x, y)
            assert loss == found.losses[iteration]
            one.sgd.step(flat.parameters, flat.gradients, velocity)
        shown = training.evaluate(flat.module, one.dataset.x_test, one.dataset.y_test)
    assert torch.equal(found.weights, flat.parameters)
    assert found.epochs["top1"][-1] == shown.top1


@pytest.mark.parametrize(
    ("model", "method", "in_batches"),
    [(small, "olpb", True), (normalised, "olpb", False), (normalised, "bppsa", False)],
)
def test_nodes_that_multiply_jacobians_train_as_plain_descent(
    model: Any, method: str, in_batches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To 1e-6: nodes compute in double precision, plain descent in single."""
    sgd = training.Sgd(0.05, momentum=0.9, weight_decay=0.01)
    one = setup(model, iterations=4, sgd=sgd, in_batches=in_batches)
    plain = train(one, method, trace=True)
    monkeypatch.setattr("workbench.olpb.programs.learning.gradient_step", None)  # not used
    found = train(replace(one, jacobians=True), method, trace=True)
    torch.testing.assert_close(found.weights, plain.weights, rtol=0, atol=1e-6)
    assert not torch.equal(found.weights, plain.weights)
    assert found.losses == pytest.approx(plain.losses, abs=1e-6)
    last, wanted = found.evaluations.row(-1), plain.evaluations.row(-1)
    assert last == pytest.approx(wanted, abs=1e-5)  # with the buffers of the server's passes
    assert found.run.trace is not None
    assert plain.run.trace is not None
    assert found.run.trace.frame.equals(plain.run.trace.frame)
    dry = simulate(one.cluster, one.programs(method, learning=False).programs, trace=True)
    assert dry.trace is not None
    assert dry.trace.frame.equals(found.run.trace.frame)


def test_a_node_that_leaves_takes_no_jacobian_with_it() -> None:
    one = setup(iterations=3, jacobians=True)
    plain = train(one)
    second = plain.passes[1]
    found = train(one, faults=[Crash("node2", second.begin_s + second.backward_s / 2)])
    assert [counts.attempts for counts in found.passes] == [1, 2, 1]
    torch.testing.assert_close(found.weights, plain.weights, rtol=0, atol=1e-7)


class Changing(nn.Module):
    """Has another operator after ten passes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.passes = nn.Linear(36, 3), 0

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        scores: Tensor = self.linear(x.flatten(1))
        return scores.tanh() if self.passes > 10 else scores


def test_a_model_that_takes_another_path_is_refused() -> None:
    with pytest.raises(TrainingError, match="has other operators in iteration"):
        train(setup(Changing, jacobians=True))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("modules", usually([2, 4], [1, 2, 3, 4]))
def test_dpb_follows_its_recurrence(modules: int, momentum: float) -> None:
    sgd = training.Sgd(0.05, momentum=momentum)
    one = setup(lambda: small().double(), modules=modules, iterations=9, sgd=sgd)
    found = train(one, "dpb")
    with training.fixed_threads():
        module = one.made()
        flat = training.flatten(module, (1, 6, 6), input_dtype="float64")
        built = one.programs("dpb")
        assert torch.equal(built.epochs.flat.parameters, flat.parameters)
        start = flat.parameters.clone()

        def gradient(batch: int, weights: Tensor) -> Tensor:
            flat.parameters.copy_(weights)
            indices = one.batches[batch]
            x = one.dataset.x_train[indices].astype(np.float64)
            training.gradient_step(flat, x, one.dataset.y_train[indices])
            return flat.gradients.clone()

        table = profile_model(module, (1, 6, 6), input_dtype="float64").table
        spans = cut((table["forward_flops"] + table["backward_flops"]).to_list(), modules)
        places = [flat.layout.layers_slice(span.start + 1, span.stop) for span in spans]
        wanted = oracle.late_descent(gradient, start, places, 0.05, 9, momentum=momentum)
    torch.testing.assert_close(found.weights, wanted[-1], rtol=1e-12, atol=1e-12)


def test_one_module_is_plain_back_propagation() -> None:
    one = setup(normalised, modules=1)
    found, plain = train(one, "dpb"), train(one, "sequential")
    assert torch.equal(found.weights, plain.weights)
    assert found.run.end_s == plain.run.end_s


@pytest.mark.parametrize("method", METHODS)
def test_the_same_arguments_give_the_same_bits(method: str) -> None:
    one = setup(normalised, iterations=6, random_delays=True, evaluate_every=4, modules=3)
    first, again = train(one, method), train(one, method, threads=2)
    assert torch.equal(first.weights, again.weights)
    assert first.evaluations.equals(again.evaluations)
    other = train(replace(one, seed=1), method)
    assert not torch.equal(first.weights, other.weights)


@pytest.mark.parametrize("method", METHODS)
def test_evaluations(method: str) -> None:
    found = train(setup(evaluate_every=4), method)
    assert found.evaluations.columns[:3] == ["iteration", "at_s", "loss"]
    assert found.evaluations["iteration"].to_list() == [4, 8, 12]
    assert found.evaluations["at_s"].is_sorted()
    assert found.evaluations["at_s"][-1] <= found.run.end_s
    assert found.epochs["epoch"].to_list() == [1]  # of two, that which ends at an evaluation
    assert train(setup(), method).epochs["epoch"].to_list() == [1, 2]
    assert len(found.losses) == 12
    assert found.losses[-1] < found.losses[0]


@pytest.mark.parametrize("method", METHODS)
def test_progress_counts_epochs_and_not_evaluations(method: str) -> None:
    shown: list[tuple[str, int]] = []
    programs = setup(evaluate_every=2).programs(method)

    def show(now_s: float, events: int) -> None:
        shown.append((programs.standing().done, len(programs.epochs.table)))

    training.run(programs, training.RunOptions(progress=show))
    assert list(dict.fromkeys(done for done, _ in shown))[-1] == "2 of 2 epochs"
    epochs = {evaluations: int(done.split()[0]) for done, evaluations in shown}
    assert epochs == {number: number // 3 for number in epochs}
    assert programs.standing().losses[-1].endswith("after epoch 2")


@pytest.mark.parametrize("method", METHODS)
def test_operators_take_their_time_forward_and_backward(method: str) -> None:
    one = setup(iterations=1, modules=1)
    slow = replace(one, operator_flops=2e6, pool=Pool((Node(1e6),)))
    plain = train(replace(one, pool=Pool((Node(1e6),))), method)
    # The network has eight modules, of which one only views; the loss has two operators.
    assert train(slow, method).run.end_s == pytest.approx(plain.run.end_s + 2.0 * 2 * 9)


def test_a_node_that_leaves_changes_nothing_but_time() -> None:
    one = setup()
    plain = train(one)
    fifth = plain.passes[4]
    found = train(one, faults=[Crash("node2", fifth.begin_s + fifth.backward_s / 2)])
    assert torch.equal(found.weights, plain.weights)
    assert [counts.attempts for counts in found.passes] == [1, 1, 1, 1, 2, *[1] * 7]
    assert found.passes[4].backward_s > fifth.backward_s
    assert len(found.passes) == 12


def test_faults_that_lose_messages_are_refused() -> None:
    with pytest.raises(ValueError, match="the server and links may not"):
        train(setup(), faults=[Crash("server", 1.0)])
    with pytest.raises(ValueError, match="the server and links may not"):
        train(setup(), faults=[LinkDown("node0", "node1", 0.0)])
    with pytest.raises(ValueError, match="loses messages"):
        train(setup(), "dpb", faults=[Crash("node0", 1.0)])
    slow = train(setup(), "dpb", faults=[SlowDown("node0", 0.0, 1e9, 2.0)])
    assert slow.run.end_s > train(setup(), "dpb").run.end_s


def test_divergence_keeps_what_was_evaluated() -> None:
    for method in METHODS:
        with pytest.raises(TrainingError, match="smaller learning rate") as caught:
            train(setup(sgd=training.Sgd(1e30), epochs=9), method)
        found = caught.value.trained
        assert isinstance(found, Trained)
        assert len(found.losses) < 54


test_setups = refusals(
    setup,
    {},
    {
        "scan": {"unknown scan": ["steele"]},
        "batch_size": {"36 training samples, less than one batch of 37": [37]},
    },
)


def test_trainings_that_cannot_be() -> None:
    with pytest.raises(ValueError, match=r"unknown method .oplb.\. Did you mean .olpb."):
        train(setup(), "oplb")
    with pytest.raises(ValueError, match="layers cannot be cut into 7 modules"):
        train(setup(modules=7), "dpb")
    few = replace(setup(), pool=Pool((Node(1e6), Node(1e6))))
    with pytest.raises(ValueError, match="4 modules need a node each, and the pool has 2"):
        train(few, "dpb")
    with pytest.raises(TrainingError, match=r"subtask \d+ .* needs"):
        train(replace(setup(), pool=Pool((Node(1e6, 100), Node(1e6, 100)))))
