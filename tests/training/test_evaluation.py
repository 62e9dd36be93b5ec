"""Evaluation: means over samples, and a model left as it was."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from tests.training.modules import Awkward, Dropping
from workbench.training import evaluate


def test_agrees_with_topk_where_no_scores_are_equal() -> None:
    draw = torch.Generator().manual_seed(0)
    scores = torch.randn(300, 12, generator=draw)
    labels = torch.randint(12, (300,), generator=draw)
    got = evaluate(nn.Identity(), scores, labels, 17)
    assert got.samples == 300
    assert got.loss == pytest.approx(nn.functional.cross_entropy(scores, labels).item(), rel=1e-6)
    for k, found in ((1, got.top1), (5, got.top5)):
        hits = (scores.topk(k).indices == labels[:, None]).any(1)
        assert found == pytest.approx(float(hits.float().mean()))


def test_outputs_that_say_nothing_are_not_all_right() -> None:
    labels = torch.arange(10)
    got = evaluate(nn.Identity(), torch.zeros(10, 10), labels)
    assert (got.top1, got.top5) == (0.1, 0.5)


def test_outputs_that_are_no_numbers_are_wrong() -> None:
    got = evaluate(nn.Identity(), torch.full((3, 4), math.nan), torch.tensor([0, 1, 2]))
    assert (got.top1, got.top5) == (0, 0)
    assert math.isnan(got.loss)


def test_leaves_the_model_as_it_was() -> None:
    model = nn.Sequential(Awkward(), Dropping())
    model.train()
    model[0].norm.eval()  # type: ignore[union-attr]
    model[0].head = nn.Linear(6, 5)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    first, second = (evaluate(model, torch.ones(6, 5), torch.arange(6) % 4) for _ in range(2))
    assert first == second  # no dropout
    assert model[1][2].training  # type: ignore[index]
    assert not model[0].norm.training  # type: ignore[union-attr]
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_gives_modes_back_after_an_error() -> None:
    model = Dropping()
    with pytest.raises(ValueError, match="outputs"):
        evaluate(model, torch.ones(2, 5), torch.tensor([0, 9]))
    assert model.training
