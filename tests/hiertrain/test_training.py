"""True learning on three tiers: the weights of one machine, under every policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.hiertrain.strategies import any_problem, chains, hybrids
from tests.long import usually
from tests.oracles.training import train_alone
from tests.profiles.attention import SHAPE, Encoder
from workbench import datasets, training, zoo
from workbench.hiertrain import TIERS, Chain, Hybrid, Policy, iteration
from workbench.hiertrain.algorithms import PLANNERS
from workbench.hiertrain.training import Setup, TierProgram, train
from workbench.runtime import simulate

DIGITS = datasets.load("digits")
ORDERS: list[Any] = list(permutations(TIERS))
SGD = training.Sgd(0.05, momentum=0.9, weight_decay=1e-3)


class Shortcut(nn.Module):
    """Four layers; a shortcut passes two of them."""

    def __init__(self) -> None:
        super().__init__()
        self.flat = nn.Flatten()
        self.first, self.second = nn.Linear(64, 12), nn.Linear(12, 12)
        self.third, self.head = nn.Linear(12, 12), nn.Linear(12, 10)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.first(self.flat(x)))
        y = self.third(torch.tanh(self.second(x)))
        y += x
        out: Tensor = self.head(self.relu(y))
        return out


class Tied(nn.Module):
    """The third layer's matrix is the first one's, the other way round."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(64, 8), nn.Linear(8, 8), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.second(torch.tanh(self.first(x.flatten(1)))))
        out: Tensor = self.head(torch.tanh(nn.functional.linear(x, self.first.weight.t())))
        return out


def double(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: make().double()


def setup_of(
    make: Any, layers: int, batch: int, shape: tuple[int, ...] = (1, 8, 8), **options: Any
) -> Setup:
    iterations = options.pop("iterations", 4)
    data = DIGITS.limit(train=max(2 * batch, 8), test=8).fitted(shape)
    problem = any_problem(layers, batch)
    return Setup(make, data, problem, iterations=iterations, sgd=SGD, seed=2, **options)


def alone(setup: Setup, *, evaluating: bool = False) -> Tensor:
    """What one machine learns from the same batches, in the order of the flat vector."""
    module, data = setup.made(), setup.dataset
    dtype = next(module.parameters()).dtype
    with training.fixed_threads():
        train_alone(
            module.train(not evaluating),
            [
                (
                    torch.from_numpy(data.x_train[batch]).to(dtype),
                    torch.from_numpy(data.y_train[batch]),
                )
                for batch in setup.batches
            ],
            learning_rate=SGD.learning_rate,
            momentum=SGD.momentum,
            weight_decay=SGD.weight_decay,
        )
    name = str(dtype).removeprefix("torch.")
    return training.flatten(module, data.input_shape, input_dtype=name).parameters


def learnt(setup: Setup, policy: Policy, *, evaluating: bool = False) -> Tensor:
    """Weights after training, with batch normalisation and dropout frozen if asked."""
    if not evaluating:
        return train(setup, policy).weights
    with training.fixed_threads():
        built = setup.programs(policy)
        for program in built.programs:
            if isinstance(program, TierProgram):
                program.learner.flat.module.eval()
        simulate(setup.cluster, built.programs, observer=built.observe)
    return built.epochs.weights


def splits(layers: int, batch: int) -> list[tuple[int, int, int, int, int]]:
    """Borders of what a hybrid policy may be: m_s, m_l, b_o, b_s, b_l."""
    middle, third = max(layers // 2, 1), batch // 3
    rest = batch - 2 * third
    return [
        (0, 0, batch, 0, 0),
        (0, middle, rest, 0, batch - rest),
        (0, layers, third, 0, batch - third),
        (1, middle, rest, third, third),
        (1, layers, rest, third, third),
        (middle, middle, rest, third, third),
        (layers, layers, rest, third, third),
        (1, middle, 0, third, batch - third),
        (middle, middle, 0, batch, 0),
        (1, layers, 0, 0, batch),
        (1, middle, batch, 0, 0),
        (middle, layers, third, 0, batch - third),
    ]


@pytest.mark.parametrize("order", usually(ORDERS[1::3], ORDERS), ids=" ".join)
@pytest.mark.parametrize("split", splits(4, 8), ids=str)
def test_hybrid_parallelism_learns_what_one_machine_learns(order: Any, split: Any) -> None:
    setup = setup_of(double(Shortcut), 4, 8)
    weights = learnt(setup, Hybrid(order, *split))
    torch.testing.assert_close(weights, alone(setup), rtol=1e-9, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(data=st.data(), batch=st.integers(1, 9), sharing=st.sampled_from(["none", "interfaces"]))
def test_any_policy_learns_what_one_machine_learns(
    data: st.DataObject, batch: int, sharing: str
) -> None:
    setup = setup_of(double(Shortcut), 4, batch, sharing=sharing, iterations=3)
    whole = chains(setup.problem, bits=[None])
    policy = data.draw(st.one_of(hybrids(setup.problem), whole))
    torch.testing.assert_close(learnt(setup, policy), alone(setup), rtol=1e-9, atol=1e-9)


def encoder() -> nn.Module:
    """An encoder that reads an image row by row, positions first inside."""
    return nn.Sequential(nn.Flatten(1, 2), Encoder(samples_first=False, classes=10))


@pytest.mark.parametrize(
    ("make", "layers", "shape"),
    [
        pytest.param(encoder, 9, (1, *SHAPE), id="attention"),
        pytest.param(zoo.MODELS["resnet20_cifar"].factory, 20, (3, 32, 32), id="resnet20"),
    ],
)
def test_with_normalisation_and_dropout_frozen(
    make: Callable[[], nn.Module], layers: int, shape: tuple[int, ...]
) -> None:
    """Both would differ: a worker normalises by its own samples and drops by its own masks."""
    setup = setup_of(double(make), layers, 4, shape, iterations=2)
    expected = alone(setup, evaluating=True)
    for policy in (
        Hybrid(("edge", "device", "cloud"), layers // 3, layers // 2, 1, 2, 1),
        Chain(("device",) * (layers - 3) + ("cloud",) * 3, 4),
    ):
        weights = learnt(setup, policy, evaluating=True)
        torch.testing.assert_close(weights, expected, rtol=1e-9, atol=1e-9)


def test_a_tied_weight_is_learnt_from_all_its_uses() -> None:
    # The matrix and its further use count as layers 1 and 2; the head is the third.
    setup = setup_of(double(Tied), 3, 6)
    for split in splits(3, 6):
        weights = learnt(setup, Hybrid(("edge", "cloud", "device"), *split))
        torch.testing.assert_close(weights, alone(setup), rtol=1e-9, atol=1e-9)


def test_a_chain_that_parts_a_tied_weight_is_refused() -> None:
    setup = setup_of(double(Tied), 3, 6)
    with pytest.raises(ValueError, match=r"Tied uses 'first.weight' in layer 2 on the cloud"):
        train(setup, Chain(("device", "cloud", "cloud"), 6))
    together = learnt(setup, Chain(("device", "device", "cloud"), 6))
    torch.testing.assert_close(together, alone(setup), rtol=1e-9, atol=1e-9)


class TestQuantised:
    """JALAD learns from features in few bits."""

    SETUP = setup_of("lenet5", 5, 8, (1, 28, 28))
    CUT = ("edge",) * 2 + ("cloud",) * 3

    def far(self, bits: int | None) -> float:
        policy = Chain(self.CUT, 8, bits)
        return float((learnt(self.SETUP, policy) - alone(self.SETUP)).abs().max())

    def test_fewer_bits_are_further_off(self) -> None:
        assert self.far(None) == pytest.approx(0, abs=1e-5)
        assert self.far(32) == self.far(None)
        assert self.far(None) < self.far(16) < self.far(8) < self.far(2)

    def test_only_between_edge_and_cloud(self) -> None:
        far = learnt(self.SETUP, Chain(("device",) * 2 + ("cloud",) * 3, 8, 2))
        near = learnt(self.SETUP, Chain(("device",) * 2 + ("cloud",) * 3, 8))
        assert torch.equal(far, near)

    def test_by_hand(self) -> None:
        """The edge's step with the rounding written into the model."""
        setup = replace(self.SETUP, iterations=1)
        module, data = setup.made(), setup.dataset
        assert isinstance(module, nn.Sequential)
        (batch,) = setup.batches
        x, y = (torch.from_numpy(part[batch]) for part in (data.x_train, data.y_train))
        with training.fixed_threads():
            features = module[:7](x)
            rounded = training.quantise(features, 4).values.detach().requires_grad_()
            loss = nn.functional.cross_entropy(module[7:](rounded), y)
            torch.autograd.backward([loss])
            assert rounded.grad is not None
            torch.autograd.backward([features], [training.quantise(rounded.grad, 4).values])
        flat = training.flatten(setup.made(), data.input_shape)
        gradients = torch.cat(
            [p.grad.reshape(-1) for p in module.parameters() if p.grad is not None]
        )
        SGD.step(flat.parameters, gradients, SGD.start(flat.parameters))
        weights = learnt(setup, Chain(self.CUT, 8, bits=4))
        torch.testing.assert_close(weights, flat.parameters, rtol=0, atol=1e-7)


LENET = Setup(
    "lenet5",
    DIGITS.limit(train=100, test=40).fitted((1, 28, 28)),
    any_problem(5, 32),
    epochs=2,
    seed=3,
)
MIXED = Hybrid(("edge", "device", "cloud"), 1, 3, 10, 8, 14)


@pytest.mark.parametrize("planner", PLANNERS)
def test_every_planner_trains(planner: str) -> None:
    trained = train(LENET, planner)
    assert trained.epochs["epoch"].to_list() == [1, 2]
    assert len(trained.losses) == 2 * 3  # 100 samples are three batches of 32
    flat, data = training.flatten(LENET.made(), (1, 28, 28)), LENET.dataset
    before = training.evaluate(flat.module, data.x_train, data.y_train).loss
    flat.parameters.copy_(trained.weights)
    assert training.evaluate(flat.module, data.x_train, data.y_train).loss < before
    assert trained.policy == PLANNERS[planner](LENET.problem)
    bound_s = 6 * iteration(LENET.problem, trained.policy).total_s
    assert trained.epochs["at_s"][1] == pytest.approx(trained.run.end_s)
    assert trained.run.end_s <= bound_s * (1 + 1e-9)


def test_what_an_epoch_is_evaluated_with() -> None:
    trained = train(LENET, MIXED)
    flat = training.flatten(LENET.made(), (1, 28, 28))
    flat.parameters.copy_(trained.weights)
    data = LENET.dataset
    result = training.evaluate(flat.module, data.x_test, data.y_test)
    assert trained.epochs["top1"][1] == result.top1
    first = train(replace(LENET, epochs=1), MIXED)
    assert first.epochs.row(0) == trained.epochs.row(0)


def test_running_statistics_are_weighed_by_samples() -> None:
    """After one step each tier's first layer has seen its own samples, worker o's last all."""
    data = DIGITS.limit(train=8, test=8).fitted((3, 32, 32))
    setup = Setup("resnet20_cifar", data, any_problem(20, 8), seed=1)
    built = setup.programs(Hybrid(("cloud", "device", "edge"), 2, 4, 0, 6, 2))
    x = torch.from_numpy(data.x_train[setup.batches[0]])
    with training.fixed_threads():
        simulate(setup.cluster, built.programs, observer=built.observe)
        mean = built.epochs.flat.module.get_buffer("conv1.norm.running_mean")
        conv = setup.made().get_submodule("conv1.conv")
        # Momentum 0.1 from 0; the mean over channels of each tier's images.
        expected = 0.1 * conv(x).mean((0, 2, 3))
    torch.testing.assert_close(mean, expected, rtol=1e-4, atol=1e-6)


def test_iterations_cut_an_epoch_short() -> None:
    trained = train(replace(LENET, iterations=4), MIXED)
    assert len(trained.losses) == 4
    assert len(trained.epochs) == 2
    assert trained.losses == train(LENET, MIXED).losses[:4]


def test_dropout_draws_from_the_seed() -> None:
    def make() -> nn.Module:
        return nn.Sequential(
            nn.Flatten(), nn.Linear(64, 32), nn.Dropout(0.5), nn.Linear(32, 10), nn.Linear(10, 10)
        )

    setup = setup_of(make, 3, 8)
    policy = Hybrid(("edge", "device", "cloud"), 1, 2, 4, 2, 2)
    first, again = (learnt(setup, policy) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, learnt(setup, policy, evaluating=True))


@pytest.mark.parametrize(
    ("change", "policy", "message"),
    [
        ({"problem": any_problem(4, 32)}, "hiertrain", "problem has 4 layers, but lenet5 has 5"),
        ({}, Hybrid(TIERS, 0, 0, 8, 0, 0), "shares out 8 samples"),
        ({}, "hiertrian", "Did you mean 'hiertrain'"),
        ({}, None, r"planner is None; give a name\. Known: hier"),
        ({"iterations": 0}, "hiertrain", "iterations is 0"),
        ({"sharing": "all"}, "hiertrain", "unknown sharing 'all'"),
        ({"problem": any_problem(5, 101)}, "hiertrain", "digits has 100 training samples, less"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], policy: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(replace(LENET, **change), policy)
