"""Models of language are trained as those of images are: in full, and by adapters alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import polars as pl
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tests.training.modules import with_adapters
from workbench import decentralised, dlion, dynacomm, edgegossip, hiertrain
from workbench.clusters import Link, full_mesh
from workbench.datasets import IGNORED, Dataset, markov, partition
from workbench.decentralised import learner
from workbench.edgegossip import Platform, Predictor
from workbench.hiertrain import Chain, Hybrid, problem_of
from workbench.profiles import profile_model
from workbench.training import (
    OBJECTIVES,
    FlatModel,
    Sgd,
    Trained,
    batches,
    evaluate,
    gradient_step,
    initialise,
    model_layout,
)
from workbench.utils.checks import UserError
from workbench.zoo.gpt import GPT

DATA = markov.load(tokens=8, length=6, train=24, test=8)
BATCH = 8
SGD, PLAIN = Sgd(0.1, momentum=0.9), Sgd(0.1)
RING = decentralised.metropolis_hastings(decentralised.ring(3))


def gpt(*, adapters: bool) -> nn.Module:
    made = partial(GPT, 8, 6, width=16, depth=2, heads=2, dropout=0.0)
    module = initialise(made, 3)
    return initialise(lambda: with_adapters(module), 4) if adapters else module


def servers(module: nn.Module, data: Dataset = DATA, **options: Any) -> Trained[Any]:
    setup = dynacomm.Setup(module, data, Link(20e6, 0.02), batch_size=BATCH, sgd=SGD, **options)
    return dynacomm.train(setup, trace=True)


def tiers(module: nn.Module, data: Dataset = DATA, **options: Any) -> hiertrain.Setup:
    problem = problem_of(
        profile_model(module, data.inputs),
        flops_per_s={"device": 1e8, "edge": 1e9, "cloud": 1e10},
        device_edge_bps=8e6,
        edge_cloud_bps=4e6,
        batch=BATCH,
        backward_over_forward=2.0,
        overhead_s=0.01,
    )
    return hiertrain.Setup(module, data, problem, sgd=SGD, **options)


def placed(module: nn.Module, *names: str, data: Dataset = DATA, **options: Any) -> Trained[Any]:
    setup = tiers(module, data, **options)
    layers = setup.problem.layers
    each = (names[layer * len(names) // layers] for layer in range(layers))
    return hiertrain.train(setup, Chain(tuple(each), BATCH))


def gossip(module: nn.Module, nodes: int, **options: Any) -> Trained[Any]:
    shards = partition.by_size(DATA.y_train, [1] * nodes, seed=0)
    links = full_mesh(nodes, Link(1e9))
    setup = decentralised.GossipSetup(module, DATA, shards, links, batch_size=4, sgd=SGD, **options)
    return decentralised.train(setup, trace=True)


def platforms(module: nn.Module, nodes: int, strategy: str = "importance") -> Trained[Any]:
    each = [
        Platform(f"p{node}", Predictor("linear", 4, 1.0, 1.0, (1.0, 1.0, 1.0), 0.01 * (node + 1)))
        for node in range(nodes)
    ]
    setup = edgegossip.Setup(module, DATA, each, batch_size=4, sgd=SGD)
    return edgegossip.train(setup, strategy, trace=True)


def exchange(module: nn.Module, nodes: int, system: str = "baseline") -> dlion.Trained:
    cluster = full_mesh(nodes, Link(1e9))
    setup = dlion.Setup(
        *(module, DATA), cluster=cluster, local_batch=4, iterations=3, sgd=PLAIN, sample_s=0.01
    )
    return dlion.train(setup, system, trace=True)


ALONE: dict[str, Callable[[nn.Module], Trained[Any]]] = {
    "dynacomm": lambda module: servers(module, servers=2),
    "hiertrain, one tier": lambda module: placed(module, "edge"),
    "hiertrain, three tiers": lambda module: placed(module, "device", "edge", "cloud"),
    "decentralised": lambda module: gossip(module, 1, mixing=[[1.0]]),
    "edgegossip": lambda module: platforms(module, 1),
    "dlion": lambda module: exchange(module, 1),
}


def plain_loop(module: nn.Module, learnt: list[tuple[Any, Any]], sgd: Sgd) -> dict[str, Any]:
    """Trained parameters behind PyTorch's own steps on these batches."""
    trained = {name: one for name, one in module.named_parameters() if one.requires_grad}
    theirs = torch.optim.SGD(
        trained.values(), lr=sgd.learning_rate, momentum=sgd.momentum, foreach=False
    )
    for x, y in learnt:
        theirs.zero_grad()
        scores = module(torch.tensor(x))
        F.cross_entropy(scores.flatten(0, 1), torch.tensor(y).flatten()).backward()  # type: ignore[no-untyped-call]
        theirs.step()
    return trained


@pytest.mark.parametrize("adapters", [False, True], ids=["all", "adapters"])
@pytest.mark.parametrize("system", ALONE)
def test_one_machine_has_the_weights_of_a_plain_loop(
    system: str, adapters: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, tied embedding and all."""
    module = gpt(adapters=adapters)
    if (system, adapters) == ("hiertrain, three tiers", False):
        with pytest.raises(UserError, match=r"uses 'tokens\.weight' in layer"):
            ALONE[system](module)
        return
    learnt: list[tuple[Any, Any]] = []

    def noted(flat: FlatModel, x: Any, y: Any, **options: Any) -> float:
        learnt.append((x, y))
        return gradient_step(flat, x, y, **options)

    monkeypatch.setattr(learner, "gradient_step", noted)
    weights = ALONE[system](module).weights
    found = torch.as_tensor(weights[0] if isinstance(weights, tuple) else weights).reshape(-1)
    if not learnt:
        learnt = [(DATA.x_train[one], DATA.y_train[one]) for one in batches(DATA, BATCH, 0, 0)]
    slices = model_layout(module, DATA.inputs).tensor_slices
    trained = plain_loop(module, learnt, PLAIN if system == "dlion" else SGD)
    assert slices.keys() == trained.keys()
    assert not adapters or all(".down." in name or ".up." in name for name in slices)
    for name, one in trained.items():
        assert torch.equal(found[slices[name]], one.detach().reshape(-1)), name


SENT: dict[str, tuple[str, Callable[[nn.Module], Trained[Any]]]] = {
    "dynacomm": ("pull|push", lambda module: servers(module, workers=2, servers=2)),
    "gossip": ("model", lambda module: gossip(module, 3, mixing=RING, sample_s=0.01)),
    "gosgd": ("model", lambda module: gossip(module, 3, probability=1.0, sample_s=0.01)),
    "edgegossip": ("model", lambda module: platforms(module, 3, "random_points")),
    "dlion, exchanges of gradients": ("gradient", lambda module: exchange(module, 3)),
    "dlion, AD-PSGD": ("model|average", lambda module: exchange(module, 3, "ad_psgd")),
}


@pytest.mark.parametrize("system", SENT)
def test_adapters_alone_are_sent(system: str) -> None:
    module = gpt(adapters=True)
    size = sum(4 * one.numel() for one in module.parameters() if one.requires_grad)
    labels, train = SENT[system]
    trace = train(module).run.trace
    assert trace is not None
    sent = trace.frame.filter(pl.col("bytes") > 0, pl.col("label").str.contains(labels))
    if system == "dynacomm":
        # Two workers pull and push in each of two iterations, to and from two servers.
        assert sent["bytes"].sum() == 2 * 2 * 2 * size
    else:
        assert set(sent["bytes"]) == {size}


def test_tiers_split_a_batch_as_one_machine_learns_it() -> None:
    module = gpt(adapters=True)
    policy = Hybrid(("edge", "device", "cloud"), 2, 4, 3, 2, 3)
    found = hiertrain.train(tiers(module), policy).weights
    torch.testing.assert_close(found, placed(module, "edge").weights)


class TestColumns:
    """Loss, accuracy and perplexity of positions, by what labels are."""

    @pytest.mark.parametrize("system", ["dynacomm", "hiertrain, one tier"])
    def test_of_a_common_model(self, system: str) -> None:
        epochs = ALONE[system](gpt(adapters=False)).epochs
        measured = ["train_top1", "train_perplexity", "test_loss", "top1", "perplexity"]
        assert epochs.columns == ["epoch", "at_s", "loss", *measured]
        row = epochs.row(-1, named=True)
        assert row["train_perplexity"] == pytest.approx(math.exp(row["loss"]), rel=1e-12)
        assert row["perplexity"] == pytest.approx(math.exp(row["test_loss"]), rel=1e-12)

    @pytest.mark.parametrize("system", ["decentralised", "edgegossip", "dlion"])
    def test_of_a_model_on_each_node(self, system: str) -> None:
        found = ALONE[system](gpt(adapters=False))
        assert {"loss", "top1", "perplexity"} <= set(found.epochs.columns)
        evaluated = found.evaluations if isinstance(found, dlion.Trained) else found.epochs
        loss = evaluated["loss" if isinstance(found, dlion.Trained) else "test_loss"][-1]
        assert evaluated["perplexity"][-1] == pytest.approx(math.exp(loss), rel=1e-12)


class Table(nn.Module):
    """Returns what it is given as scores."""

    def forward(self, x: Tensor) -> Tensor:
        return x


def test_ignored_positions_count_nowhere() -> None:
    draw = torch.Generator().manual_seed(0)
    scores, labels = torch.randn(9, 5, 4, generator=draw), torch.randint(4, (9, 5), generator=draw)
    labels[2:4] = IGNORED
    labels[5, 1:] = IGNORED
    kept = labels != IGNORED
    objective = OBJECTIVES["next_token"]
    for batch_size in (2, 9):
        found = evaluate(Table(), scores, labels, batch_size, objective=objective)
        whole = F.cross_entropy(scores[kept], labels[kept]).item()
        assert found.loss == pytest.approx(whole, rel=1e-6)
        assert found.metrics["perplexity"] == pytest.approx(math.exp(whole), rel=1e-6)
        hits = scores[kept].argmax(1) == labels[kept]
        assert found.top1 == pytest.approx(hits.double().mean().item(), rel=1e-12)
