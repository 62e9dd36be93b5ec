"""Models of language are trained as those of images are: in full, and by peft's adapters alone."""

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
from torch import nn

from tests.long import usually
from tests.training.systems import (
    ALONE,
    BATCH,
    MIXED,
    check_plain_loop,
    combined,
    placed,
    tiers,
    train_several,
)
from workbench import dlion, hiertrain
from workbench.datasets import IGNORED, markov
from workbench.training import initialise, model_layout
from workbench.zoo.gpt import GPT

DATA = markov.load(tokens=8, length=6, train=24, test=8)


def gpt(*, adapters: bool) -> nn.Module:
    made = partial(GPT, 8, 6, width=16, depth=2, heads=2, dropout=0.0)
    module, how = initialise(made, 3), peft.LoraConfig(r=2, target_modules="all-linear")
    adapted: Any = lambda: peft.get_peft_model(module, how)  # noqa: E731
    return initialise(adapted, 4) if adapters else module


def of_others() -> nn.Module:
    """A GPT-2 of the package transformers with adapters by the package peft."""
    size: dict[str, Any] = {"vocab_size": 8, "n_positions": 6, "n_embd": 16, "n_layer": 2}
    still = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    config = transformers.GPT2Config(**size, **still, n_head=2)
    how = peft.LoraConfig(r=2, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)
    return initialise(lambda: peft.get_peft_model(transformers.GPT2LMHeadModel(config), how), 4)


ADAPTED: dict[str, Callable[[], nn.Module]] = {
    "of the zoo": partial(gpt, adapters=True),
    "of others": of_others,
}


def is_usual(system: str, made: str) -> bool:
    return made == "of the zoo" or system in ("dynacomm", "hiertrain, three tiers")


@pytest.mark.parametrize(("system", "made"), combined(ALONE, ADAPTED, is_usual))
def test_adapters_have_the_weights_of_a_plain_loop(
    system: str, made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ADAPTED[made]()
    names = model_layout(module, DATA.inputs).tensor_slices
    assert all(".lora_A." in name or ".lora_B." in name for name in names)
    check_plain_loop(system, module, DATA, monkeypatch)


SENT = {
    **{"dynacomm": "pull|push", "mixing": "model", "gosgd": "model", "edgegossip": "model"},
    **{"baseline": "gradient", "ad_psgd": "model|average"},
}
"""Labels of what the nodes of a system send."""


@pytest.mark.parametrize("made", usually(["of the zoo"], ADAPTED))
@pytest.mark.parametrize("system", SENT)
def test_adapters_alone_are_sent(system: str, made: str) -> None:
    module = ADAPTED[made]()
    size = sum(4 * one.numel() for one in module.parameters() if one.requires_grad)
    trace = train_several(system, module, DATA, trace=True).run.trace
    assert trace is not None
    sent = trace.frame.filter(pl.col("bytes") > 0, pl.col("label").str.contains(SENT[system]))
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
    found = hiertrain.train(tiers(module, data), MIXED).weights
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
