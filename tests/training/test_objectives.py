"""Losses and metrics of all kinds, inputs by name, outputs in any wrapping; and what is refused."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tests.edgegossip.strategies import platforms
from tests.refusals import refusals
from tests.short_trainings import DIGITS
from tests.training.systems import SGD, placed, plain_loop, pool, servers, tiers
from workbench import dynacomm, edgegossip, olpb
from workbench.datasets import IGNORED, Dataset, NamedArrays, markov
from workbench.dlion.programs.recorder import ITERATIONS
from workbench.training import (
    OBJECTIVES,
    Metric,
    Objective,
    batches,
    evaluate,
    initialise,
)
from workbench.training.trained import COLUMNS
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
        self.embedding, self.head = nn.Embedding(9, 6), nn.Linear(6, 3)
        self.hidden = nn.Linear(6, 6)
        self.wrap = wrap

    def forward(self, *, mask: Tensor, ids: Tensor, cache: None = None) -> Any:
        x = torch.tanh(self.hidden(self.embedding(ids))) * mask[..., None]
        pooled = x.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        return self.wrap(self.head(pooled), pooled)


class Output(NamedTuple):
    logits: Tensor
    pooled: Tensor


@dataclass(slots=True)
class Slotted:
    logits: Tensor
    pooled: Tensor


def logits(returned: Any) -> Tensor:
    found: Tensor = returned.logits
    return found


WRAPPED: dict[str, tuple[Callable[[Tensor, Tensor], Any], Callable[[Any], Tensor]]] = {
    "a tensor": (lambda scores, pooled: scores, lambda returned: returned),
    "a dictionary": (
        lambda scores, pooled: {"pooled": pooled, "logits": scores},
        lambda returned: returned["logits"],
    ),
    "an object": (lambda scores, pooled: SimpleNamespace(pooled=pooled, logits=scores), logits),
    "a named tuple": (Output, logits),
    "an object with slots": (Slotted, logits),
    "a tensor and more": (lambda scores, pooled: (scores, None), lambda returned: returned[0]),
    "two tensors": (lambda scores, pooled: (pooled, scores), lambda returned: returned[1]),
}
"""What a model returns of scores and of another tensor, and how the scores are read from it."""


@pytest.mark.parametrize("wrapping", WRAPPED)
def test_inputs_by_name_and_outputs_in_any_wrapping(wrapping: str) -> None:
    wrap, read = WRAPPED[wrapping]
    outputs = read if wrapping == "two tensors" else None  # of the others they are found
    module = initialise(lambda: Pooled(wrap), 0)

    def loss_of(returned: Any, y: Tensor) -> Tensor:
        return F.cross_entropy(read(returned), y)

    expected = plain_loop(initialise(lambda: Pooled(wrap), 0), MASKED, loss_of=loss_of)
    found = dynacomm.train(servers(module, MASKED, outputs=outputs))
    assert torch.equal(found.weights, expected)
    assert found.epochs.columns[3:] == ["train_top1", "train_top5", "top1", "top5"]
    on_tiers = tiers(module, MASKED, outputs=outputs)
    assert torch.equal(placed(on_tiers, "device", "edge", "cloud").weights, expected)


def line() -> nn.Module:
    return nn.Linear(4, 1)


def test_regression_has_errors_in_the_units_of_its_labels() -> None:
    found = dynacomm.train(servers(line, NUMBERS))
    expected = plain_loop(initialise(line, 0), NUMBERS, loss_of=F.mse_loss)
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
    expected = plain_loop(initialise(line, 0), NUMBERS, loss_of=loss)
    found = dynacomm.train(servers(line, NUMBERS, objective=objective))
    assert torch.equal(found.weights, expected)
    row = found.epochs.row(-1, named=True)
    assert row["doubled"] == 2 * row["test_loss"]
    away = POINTS[:8] @ expected[:4].numpy() + expected[4:].numpy() - HEIGHTS[:8, 0]
    assert row["within_one"] == np.mean(abs(away) < 1)
    assert row["mean_of_batch"] == pytest.approx(away.mean(), abs=1e-5)
    only = dynacomm.train(servers(line, NUMBERS, objective=loss)).epochs
    assert only.columns == ["epoch", "at_s", "loss", "test_loss"]


def test_scan_finds_the_gradients_of_any_objective() -> None:
    module = initialise(lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)), 0)
    expected = dynacomm.train(servers(module, NUMBERS))
    found = olpb.train(pool(module, NUMBERS))
    assert torch.equal(found.weights, expected.weights)
    assert found.epochs["rmse"].to_list() == expected.epochs["rmse"].to_list()


class Idle(nn.Linear):
    """A linear layer, beside one that its loss does not depend on."""

    def __init__(self) -> None:
        super().__init__(4, 1)
        self.idle = nn.Linear(2, 2)


def numbers(x: Tensor, y: Tensor) -> Tensor:
    return x - y


def mean(x: Tensor, y: Tensor) -> Tensor:
    return x.mean()


NAN = math.nan
TAKEN_NAMES = (*sorted({*COLUMNS, *ITERATIONS} - {"top1", "top5", "global_batch"}), "train_top1", 5)

CHAIN = markov.load(tokens=8, length=6, train=8, test=2)


def embedding(outputs: int = 8, **options: Any) -> nn.Module:
    return nn.Sequential(nn.Embedding(8, 4, **options), nn.Linear(4, outputs))


EMBEDDED = embedding()

test_what_no_training_takes = refusals(
    servers,
    {"module": nn.Linear(4, 1), "data": NUMBERS},
    {
        "module": {
            "loss of Idle does not depend on its parameters idle.weight, idle.bias": [Idle()],
            r"outputs of shape \(2, 2\) for labels of shape \(2, 1\); a regression": [
                nn.Linear(4, 2)
            ],
            r"samples of float32\[4\], as numbers": [nn.Linear(5, 1)],
            "returns tuple .*; say which tensor": [nn.GRU(4, 1)],
        },
        "data": {"not take samples of ids=int64": [MASKED]},
        "objective": {
            r"the loss is a tensor of shape \(2, 1\) of .*; give one that is a tensor of one": [
                numbers
            ],
            "the loss is float; give": [lambda x, y: 1.0],
            "labels are float32; those of classes are int64": ["classes"],
            "has no gradient": [lambda x, y: x.detach().mean()],
            "of torch.complex64; give": [lambda x, y: x.mean().to(torch.complex64)],
            "the loss of Linear is nan before anything is learnt": [lambda x, y: x.mean() * NAN],
            r"the loss fails on tensors of shapes \(2, 1\) and .*(Type|Runtime)Error": [
                lambda x: x,
                nn.MSELoss,
            ],
            "metric 'm' gives float; give a tensor": [Objective(mean, {"m": lambda x, y: 0.5})],
            "metric 'm' fails on tensors.*shape": [Objective(mean, {"m": torch.addmm})],
            "Did you mean 'regression'": ["regresion"],
            "objective is 5; give one of classes, next_token, regression, a loss": [5],
        },
        "outputs": {
            "outputs is 'logits'; give a function": ["logits"],
            "outputs fails on the Tensor that the model returns.*'logits'": [lambda x: x.logits],
            "outputs makes (tuple|NoneType) of the Tensor": [lambda x: (x, x), lambda x: None],
        },
    },
)
test_metrics = refusals(
    Metric,
    {"each": None},
    {
        "each": {"each of a metric is 3": [3]},
        "of_mean": {"of_mean of a metric is None": [None]},
    },
)
test_objectives = refusals(
    Objective,
    {"loss": numbers},
    {
        "loss": {"loss is 5; give a function of outputs": [5]},
        "metrics": {
            "error is 'mae'; give a function of": [{"error": "mae"}],
            "metrics is .*; give functions by name": [[numbers]],
            "a metric cannot be called": [{name: numbers} for name in TAKEN_NAMES],
        },
    },
)


@pytest.mark.parametrize("field", ["x_train", "x_test", "y_train", "y_test"])
@pytest.mark.parametrize("wrong", [8, -1])
def test_tokens_beyond_the_vocabulary_are_found_wherever_they_are(field: str, wrong: int) -> None:
    changed = getattr(CHAIN, field).copy()
    changed[-1, 3] = wrong
    expected = r"numbers from (-1|.* to 8)" if field[0] == "x" else "labels go from"
    with pytest.raises(UserError, match=expected):
        servers(EMBEDDED, replace(CHAIN, classes=(), **{field: changed}))


test_tokens = refusals(
    servers,
    {"module": EMBEDDED, "data": CHAIN},
    {
        "module": {
            "forward of Sequential changes its parameter '0.weight'": [embedding(max_norm=0.1)],
            "labels go from 0 to 7, but the model has 7 outputs": [embedding(7)],
        },
        "data": {
            r"outputs of shape \(2, 6, 8\) for labels of shape \(2, 5\)": [
                replace(CHAIN, y_train=CHAIN.y_train[:, 1:], y_test=CHAIN.y_test[:, 1:], classes=())
            ],
        },
    },
)


def test_tokens_are_not_averaged_by_edgegossip() -> None:
    setup = edgegossip.Setup(EMBEDDED, CHAIN, platforms(0.01), batch_size=4)
    with pytest.raises(UserError, match=r"int64\[6\] a sample.*strategy=importance or random"):
        edgegossip.train(setup)
    by_loss = edgegossip.EdgeGossip(strategy="importance")
    assert edgegossip.train(setup, by_loss).epochs["perplexity"][-1] > 1


@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_batch_without_a_label_that_counts_teaches_nothing(batch_size: int) -> None:
    y = CHAIN.y_train.copy()
    y[:4] = IGNORED
    data = replace(CHAIN, y_train=y)

    def loss_of(scores: Tensor, y: Tensor) -> Tensor:
        summed = F.cross_entropy(scores.flatten(0, 1), y.flatten(), reduction="sum")
        return summed / max(int((y != IGNORED).sum()), 1)

    found = dynacomm.train(servers(EMBEDDED, data, batch_size=batch_size)).weights
    order = batches(data, batch_size, 0, 0)
    learnt = [(data.x_train[one], data.y_train[one]) for one in order]
    expected = plain_loop(copy.deepcopy(EMBEDDED), data, SGD, loss_of, learnt=learnt)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("by_layer", [False, True])
@pytest.mark.parametrize(("workers", "batch_size"), [(2, 4), (3, 2), (5, 1), (7, 3)])
def test_workers_gradients_are_weighted_by_labels_that_count(
    workers: int, batch_size: int, by_layer: bool
) -> None:
    """Their step is one machine's on the joint batch, whose loss is a mean over all labels."""
    y = CHAIN.y_train.copy()
    y[:3], y[4, 1:], y[6, 2:] = IGNORED, IGNORED, IGNORED
    data = replace(CHAIN, y_train=y)
    setup = servers(EMBEDDED, data, batch_size=batch_size * workers, epochs=2)
    together = replace(setup, batch_size=batch_size, workers=workers, by_layer=by_layer)
    torch.testing.assert_close(dynacomm.train(together).weights, dynacomm.train(setup).weights)


@pytest.mark.parametrize("batch_size", [1, 3, 7])
def test_metrics_weigh_what_they_count_whatever_the_batch(batch_size: int) -> None:
    scores = torch.randn(7, 4, 3, generator=torch.Generator().manual_seed(0))
    y = torch.arange(28).reshape(7, 4) % 3
    y[:3], y[4, 1:] = IGNORED, IGNORED
    metrics = {"sample": lambda x, y: x.mean((1, 2)), "position": lambda x, y: x.amax(-1)}
    objective = replace(
        OBJECTIVES["next_token"], metrics={**OBJECTIVES["next_token"].metrics, **metrics}
    )
    found = evaluate(nn.Identity(), scores, y, batch_size, objective=objective)
    kept, labels = scores[y != IGNORED], y[y != IGNORED]
    counted = F.cross_entropy(kept, labels).item()
    assert found.loss == pytest.approx(counted, rel=1e-6)
    assert found.metrics["perplexity"] == pytest.approx(math.exp(counted), rel=1e-6)
    hits = (kept.argmax(1) == labels).double().mean().item()
    assert found.top1 == pytest.approx(hits, rel=1e-12)
    assert found.metrics["sample"] == pytest.approx(scores.mean().item(), rel=1e-5)
    assert found.metrics["position"] == pytest.approx(scores.amax(-1).mean().item(), rel=1e-6)


def test_nothing_is_evaluated_without_a_label_that_counts() -> None:
    with pytest.raises(UserError, match="no label counts: all are -100"):
        evaluate(nn.Identity(), torch.zeros(2, 3, 4), torch.full((2, 3), IGNORED))


def test_perplexity_of_nan_is_nan() -> None:
    found = [OBJECTIVES["next_token"].metrics["perplexity"].of_mean(x) for x in (math.nan, 800.0)]
    assert math.isnan(found[0])
    assert found[1] == math.inf


@pytest.mark.parametrize(("outputs", "labels"), [((3,), (3, 1)), ((3, 1), (3,))])
def test_numbers_may_be_a_column(outputs: tuple[int, ...], labels: tuple[int, ...]) -> None:
    x, y = torch.arange(3.0), torch.tensor([1.0, 1, 4])
    assert OBJECTIVES["regression"].value(x.reshape(outputs), y.reshape(labels)) == 5 / 3


def test_tiers_train_and_evaluate_in_bfloat16() -> None:
    module = initialise(line, 0).bfloat16()
    first = evaluate(
        module, POINTS, HEIGHTS, objective=OBJECTIVES["regression"], dtype=torch.bfloat16
    )
    assert placed(tiers(module, NUMBERS), "device", "edge", "cloud").epochs["loss"][-1] < first.loss


def test_images_of_ones_own_may_have_some_positions_ignored() -> None:
    """A class for each pixel, as in segmentation."""
    x = DIGITS.x_train[:16]
    y = (x[:, 0] > 0.5).astype(np.int64)
    y[:, :2] = IGNORED
    data = Dataset("pixels", x, y, x[:4], y[:4], ("dark", "light"))
    module = initialise(lambda: nn.Sequential(nn.Conv2d(1, 2, 3, padding=1)), 0)
    setup = servers(module, data, epochs=3, outputs=lambda scores: scores.movedim(1, -1))

    def loss_of(scores: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(scores.movedim(1, -1).flatten(0, 2), y.flatten())

    expected = plain_loop(copy.deepcopy(module), data, loss_of=loss_of, epochs=3)
    assert torch.equal(dynacomm.train(setup).weights, expected)
