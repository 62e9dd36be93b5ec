"""Models of language are trained as those of images are: in full, and by adapters alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import peft
import polars as pl
import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tests.training.modules import with_adapters
from tests.training.systems import (
    ALONE,
    BATCH,
    RING,
    check_plain_loop,
    gossip,
    placed,
    platforms,
    servers,
    tiers,
    workers,
)
from workbench import decentralised, dlion, dynacomm, edgegossip, hiertrain
from workbench.datasets import IGNORED, markov
from workbench.hiertrain import Hybrid
from workbench.training import (
    OBJECTIVES,
    Trained,
    evaluate,
    initialise,
    model_layout,
)
from workbench.zoo.gpt import GPT

DATA = markov.load(tokens=8, length=6, train=24, test=8)


def gpt(*, adapters: bool) -> nn.Module:
    made = partial(GPT, 8, 6, width=16, depth=2, heads=2, dropout=0.0)
    module = initialise(made, 3)
    return initialise(lambda: with_adapters(module), 4) if adapters else module


def of_others() -> nn.Module:
    """A GPT-2 of the package transformers with adapters by the package peft."""
    size: dict[str, Any] = {"vocab_size": 8, "n_positions": 6, "n_embd": 16, "n_layer": 2}
    still = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    config = transformers.GPT2Config(**size, **still, n_head=2)
    how = peft.LoraConfig(r=2, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)
    return initialise(lambda: peft.get_peft_model(transformers.GPT2LMHeadModel(config), how), 4)


ADAPTED: dict[str, Callable[[], nn.Module]] = {
    "by hand": partial(gpt, adapters=True),
    "peft": of_others,
}


@pytest.mark.parametrize("made", ADAPTED)
@pytest.mark.parametrize("system", ALONE)
def test_adapters_have_the_weights_of_a_plain_loop(
    system: str, made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ADAPTED[made]()
    names = model_layout(module, DATA.inputs).tensor_slices
    assert all(".lora_A." in name or ".lora_B." in name for name in names)
    check_plain_loop(system, module, DATA, monkeypatch)


SENT: dict[str, tuple[str, Callable[[nn.Module], Trained[Any]]]] = {
    "dynacomm": (
        "pull|push",
        lambda module: dynacomm.train(servers(module, DATA, workers=2, servers=2), trace=True),
    ),
    "gossip": (
        "model",
        lambda module: decentralised.train(gossip(module, DATA, 3, mixing=RING), trace=True),
    ),
    "gosgd": (
        "model",
        lambda module: decentralised.train(gossip(module, DATA, 3, probability=1.0), trace=True),
    ),
    "edgegossip": (
        "model",
        lambda module: edgegossip.train(platforms(module, DATA, 3), "random_points", trace=True),
    ),
    "dlion, exchanges of gradients": (
        "gradient",
        lambda module: dlion.train(workers(module, DATA, 3), "baseline", trace=True),
    ),
    "dlion, AD-PSGD": (
        "model|average",
        lambda module: dlion.train(workers(module, DATA, 3), "ad_psgd", trace=True),
    ),
}


@pytest.mark.parametrize("made", ADAPTED)
@pytest.mark.parametrize("system", SENT)
def test_adapters_alone_are_sent(system: str, made: str) -> None:
    module = ADAPTED[made]()
    size = sum(4 * one.numel() for one in module.parameters() if one.requires_grad)
    labels, train = SENT[system]
    trace = train(module).run.trace
    assert trace is not None
    sent = trace.frame.filter(pl.col("bytes") > 0, pl.col("label").str.contains(labels))
    if system == "dynacomm":
        # Two workers pull and push in each iteration, to and from two servers.
        iterations = math.ceil(len(DATA.y_train) / (2 * BATCH))
        assert sent["bytes"].sum() == 2 * 2 * iterations * size
    else:
        assert set(sent["bytes"]) == {size}


@pytest.mark.parametrize("ignores", [False, True])
def test_tiers_split_a_batch_as_one_machine_learns_it(ignores: bool) -> None:
    """Tiers have unequal numbers of labels that count, some samples none."""
    y = DATA.y_train.copy()
    if ignores:
        y[::3, 1:], y[1] = IGNORED, IGNORED
    module, data = gpt(adapters=True), replace(DATA, y_train=y)
    policy = Hybrid(("edge", "device", "cloud"), 2, 4, 3, 2, 3)
    found = hiertrain.train(tiers(module, data), policy).weights
    torch.testing.assert_close(found, placed(tiers(module, data), "edge").weights)


class TestColumns:
    """Loss, accuracy and perplexity of positions, by what labels are."""

    @pytest.mark.parametrize("system", ["dynacomm", "hiertrain, one tier"])
    def test_of_a_common_model(self, system: str) -> None:
        epochs = ALONE[system](gpt(adapters=False), DATA).epochs
        measured = ["train_perplexity", "train_top1", "test_loss", "perplexity", "top1"]
        assert epochs.columns == ["epoch", "at_s", "loss", *measured]
        row = epochs.row(-1, named=True)
        assert row["train_perplexity"] == pytest.approx(math.exp(row["loss"]), rel=1e-12)
        assert row["perplexity"] == pytest.approx(math.exp(row["test_loss"]), rel=1e-12)

    @pytest.mark.parametrize("system", ["decentralised", "edgegossip", "dlion"])
    def test_of_a_model_on_each_node(self, system: str) -> None:
        found = ALONE[system](gpt(adapters=False), DATA)
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
