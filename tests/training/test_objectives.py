"""Losses and metrics of all kinds, inputs by name, outputs in any wrapping; and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tests.refusals import refusals
from tests.short_trainings import DIGITS
from tests.training.systems import placed, plain_loop, pool, servers, tiers
from workbench import dynacomm, edgegossip, olpb
from workbench.datasets import IGNORED, Dataset, NamedArrays, markov
from workbench.edgegossip import Platform, Predictor
from workbench.training import (
    OBJECTIVES,
    Metric,
    Objective,
    evaluate,
    initialise,
)
from workbench.utils.checks import UserError

RANDOM = np.random.default_rng(0)
TOKENS = RANDOM.integers(0, 9, (32, 5))
MASKS = RANDOM.random((32, 5)) < 0.7
INPUTS = NamedArrays({"ids": TOKENS, "mask": MASKS})
LABELS = RANDOM.integers(0, 3, 32)
MASKED = Dataset("masked", INPUTS, LABELS, INPUTS[:8], LABELS[:8], tuple("abc"))
POINTS = RANDOM.normal(size=(32, 4)).astype(np.float32)
HEIGHTS = (POINTS @ np.array([1, -2, 0.5, 0], np.float32) + 3)[:, None]
NUMBERS = Dataset("numbers", POINTS, HEIGHTS, POINTS[:8], HEIGHTS[:8])


class Pooled(nn.Module):
    """Classes of masked tokens, wrapped as models of others wrap them."""

    def __init__(self, wrap: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.embedding, self.hidden, self.head = (
            nn.Embedding(9, 6),
            nn.Linear(6, 6),
            nn.Linear(6, 3),
        )
        self.wrap = wrap

    def forward(self, *, mask: Tensor, ids: Tensor, cache: None = None) -> Any:
        x = torch.tanh(self.hidden(self.embedding(ids))) * mask[..., None]
        pooled = x.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        return self.wrap(self.head(pooled), pooled)


class Output(NamedTuple):
    logits: Tensor
    pooled: Tensor


WRAPPED: dict[str, tuple[Callable[[Tensor, Tensor], Any], Any]] = {
    "a tensor": (lambda scores, pooled: scores, None),
    "a dictionary": (lambda scores, pooled: {"pooled": pooled, "logits": scores}, None),
    "an object": (lambda scores, pooled: SimpleNamespace(pooled=pooled, logits=scores), None),
    "a named tuple": (Output, None),
    "a tensor and more": (lambda scores, pooled: (scores, None), None),
    "two tensors": (lambda scores, pooled: (pooled, scores), lambda returned: returned[1]),
}


READ: dict[str, Callable[[Any], Tensor]] = {
    "a tensor": lambda returned: returned,
    "a dictionary": lambda returned: returned["logits"],
    "an object": lambda returned: returned.logits,
    "a named tuple": lambda returned: returned.logits,
    "a tensor and more": lambda returned: returned[0],
    "two tensors": lambda returned: returned[1],
}


@pytest.mark.parametrize("wrapping", WRAPPED)
def test_inputs_by_name_and_outputs_in_any_wrapping(wrapping: str) -> None:
    wrap, outputs = WRAPPED[wrapping]
    module = initialise(lambda: Pooled(wrap), 0)

    def loss_of(module: nn.Module, x: NamedArrays, y: Any) -> Tensor:
        returned = module(**{name: torch.tensor(array) for name, array in x.arrays.items()})
        return F.cross_entropy(READ[wrapping](returned), torch.tensor(y))

    expected = plain_loop(initialise(lambda: Pooled(wrap), 0), MASKED, loss_of=loss_of)
    found = dynacomm.train(servers(module, MASKED, outputs=outputs))
    assert torch.equal(found.weights, expected)
    assert found.epochs.columns[3:] == ["train_top1", "train_top5", "top1", "top5"]
    on_tiers = tiers(module, MASKED, outputs=outputs)
    assert torch.equal(placed(on_tiers, "device", "edge", "cloud").weights, expected)


def test_regression_has_errors_in_the_units_of_its_labels() -> None:
    module = initialise(lambda: nn.Linear(4, 1), 0)
    found = dynacomm.train(servers(module, NUMBERS))
    expected = plain_loop(
        initialise(lambda: nn.Linear(4, 1), 0),
        NUMBERS,
        loss_of=lambda module, x, y: F.mse_loss(module(torch.tensor(x)), torch.tensor(y)),
    )
    assert torch.equal(found.weights, expected)
    row = found.epochs.row(-1, named=True)
    assert list(row)[3:] == ["train_rmse", "train_mae", "test_loss", "rmse", "mae"]
    with torch.no_grad():
        weight, bias = expected[:4], expected[4:]
        away = (torch.tensor(POINTS) @ weight + bias - torch.tensor(HEIGHTS[:, 0])).double()
    assert row["loss"] == pytest.approx((away**2).mean().item(), rel=1e-5)
    assert row["train_rmse"] == pytest.approx(math.sqrt((away**2).mean().item()), rel=1e-5)
    assert row["mae"] == pytest.approx(away[:8].abs().mean().item(), rel=1e-5)


def test_a_loss_and_metrics_of_ones_own() -> None:
    def loss(outputs: Tensor, labels: Tensor) -> Tensor:
        return F.smooth_l1_loss(outputs, labels)

    objective = Objective(
        loss,
        {
            "within_one": lambda outputs, labels: (outputs - labels).abs() < 1,
            "mean_of_batch": lambda outputs, labels: (outputs - labels).mean(),
            "doubled": Metric(None, lambda mean: 2 * mean),
        },
    )
    made = lambda: nn.Linear(4, 1)  # noqa: E731
    expected = plain_loop(
        initialise(made, 0),
        NUMBERS,
        loss_of=lambda module, x, y: loss(module(torch.tensor(x)), torch.tensor(y)),
    )
    found = dynacomm.train(servers(made, NUMBERS, objective=objective))
    assert torch.equal(found.weights, expected)
    row = found.epochs.row(-1, named=True)
    assert row["doubled"] == 2 * row["test_loss"]
    away = POINTS[:8] @ expected[:4].numpy() + expected[4:].numpy() - HEIGHTS[:8, 0]
    assert row["within_one"] == np.mean(abs(away) < 1)
    assert row["mean_of_batch"] == pytest.approx(away.mean(), abs=1e-5)
    only = dynacomm.train(servers(made, NUMBERS, objective=loss)).epochs
    assert only.columns == ["epoch", "at_s", "loss", "test_loss"]


def test_scan_finds_the_gradients_of_any_objective() -> None:
    module = initialise(lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)), 0)
    expected = dynacomm.train(servers(module, NUMBERS))
    found = olpb.train(pool(module, NUMBERS))
    assert torch.equal(found.weights, expected.weights)
    assert found.epochs["rmse"].to_list() == expected.epochs["rmse"].to_list()


@pytest.mark.parametrize("batch_size", [3, 32])
def test_evaluation_does_not_depend_on_how_samples_are_batched(batch_size: int) -> None:
    module = initialise(lambda: nn.Linear(4, 1), 0)
    whole = evaluate(module, POINTS, HEIGHTS, objective=OBJECTIVES["regression"])
    found = evaluate(module, POINTS, HEIGHTS, batch_size, objective=OBJECTIVES["regression"])
    for name, value in {"loss": whole.loss, **whole.metrics}.items():
        other = found.loss if name == "loss" else found.metrics[name]
        assert other == pytest.approx(value, rel=1e-6)


class Idle(nn.Linear):
    """A linear layer, beside one that its loss does not depend on."""

    def __init__(self) -> None:
        super().__init__(4, 1)
        self.idle = nn.Linear(2, 2)


def numbers(x: Tensor, y: Tensor) -> Tensor:
    return x - y


CHAIN = markov.load(tokens=8, length=6, train=8, test=2)
RARE = Dataset("rare", CHAIN.x_train.copy(), CHAIN.y_train, CHAIN.x_test, CHAIN.y_test)
RARE.x_train.flags.writeable = True
EMBEDDED = nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 8))

test_what_no_training_takes = refusals(
    servers,
    {"module": nn.Linear(4, 1), "data": NUMBERS},
    {
        "module": {
            "loss of Idle does not depend on its parameters idle.weight, idle.bias": [Idle()],
            "every parameter of Linear is frozen": [nn.Linear(4, 1).requires_grad_(False)],
            r"outputs of shape \(2, 2\) for labels of shape \(2, 1\); a regression": [
                nn.Linear(4, 2)
            ],
            r"samples of shape \(4,\), as numbers": [nn.Linear(5, 1)],
            "returns tuple .*; say which tensor": [nn.GRU(4, 1)],
        },
        "data": {"inputs by name|not take samples of shape": [MASKED]},
        "objective": {
            r"the loss is a tensor of shape \(2, 1\); give one that is a tensor of one": [numbers],
            "the loss is float; give": [lambda x, y: 1.0],
            "has no gradient": [lambda x, y: x.detach().mean()],
            "Did you mean 'regression'": ["regresion"],
            "objective is 5; give one of classes, next_token, regression, a loss": [5],
        },
        "outputs": {"outputs is 'logits'; give a function": ["logits"]},
    },
)
test_objectives = refusals(
    Objective,
    {"loss": numbers},
    {
        "loss": {"loss is 5; give a function of outputs": [5]},
        "metrics": {
            "error is 'mae'; give a function of": [{"error": "mae"}],
            "a metric has the name loss, as another column": [{"loss": F.l1_loss}],
        },
    },
)


class TestTokens:
    @staticmethod
    def refused(module: nn.Module, data: Dataset, message: str, **options: Any) -> None:
        with pytest.raises(UserError, match=message):
            servers(module, data, **options)

    def test_beyond_the_vocabulary_are_found_wherever_they_are(self) -> None:
        x = CHAIN.x_train.copy()
        x[5, 3] = 8
        data = Dataset("rare", x, CHAIN.y_train, CHAIN.x_test, CHAIN.y_test, CHAIN.classes)
        self.refused(EMBEDDED, data, r"int64\[6\] with numbers from 0 to 8, as rare has: index out")
        x[5, 3] = -1
        self.refused(EMBEDDED, data, "numbers from -1 to 7")

    def test_have_an_output_each(self) -> None:
        few = nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 7))
        self.refused(few, CHAIN, "the model has 7 outputs, markov has 8 classes")

    def test_have_as_many_labels_as_outputs(self) -> None:
        short = Dataset("short", CHAIN.x_train, CHAIN.y_train[:, 1:], *self.test[:1], self.test[1])
        self.refused(EMBEDDED, short, r"outputs of shape \(2, 6, 8\) for labels of shape \(2, 5\)")

    test = CHAIN.x_test, CHAIN.y_test[:, 1:]

    def test_are_not_averaged_by_edgegossip(self) -> None:
        platforms = [Platform("p", Predictor("linear", 4, 1.0, 1.0, (1.0, 1.0, 1.0), 0.01))]
        setup = edgegossip.Setup(EMBEDDED, CHAIN, platforms, batch_size=4)
        with pytest.raises(UserError, match=r"int64\[6\] a sample.*strategy=importance or random"):
            edgegossip.train(setup)
        assert edgegossip.train(setup, "importance").epochs["perplexity"][-1] > 1


def test_images_of_ones_own_may_have_some_positions_ignored() -> None:
    """A class for each pixel, as in segmentation."""
    x = DIGITS.x_train[:16]
    y = (x[:, 0] > 0.5).astype(np.int64)
    y[:, :2] = IGNORED
    data = Dataset("pixels", x, y, x[:4], y[:4], ("dark", "light"))
    module = initialise(lambda: nn.Sequential(nn.Conv2d(1, 2, 3, padding=1)), 0)
    setup = servers(module, data, outputs=lambda scores: scores.movedim(1, -1), epochs=8)
    assert dynacomm.train(setup).epochs["top1"][-1] > 0.5
