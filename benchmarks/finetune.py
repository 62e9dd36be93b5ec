"""Every system fine-tunes a small GPT by adapters of low rank: what is sent, and what is learnt.

``python benchmarks/finetune.py`` trains `gpt_tiny` on one Markov chain, freezes it, puts an adapter
of the package peft (Hu et al. 2021) beside each of its linear layers, and lets each system
fine-tune it on another chain. It ends with status 1 if messages of models and gradients have other
bytes than the adapters, by more than 1 %, or if a system leaves more than 10 % of the loss that
there is to lose: the difference between what the model has on the new chain and that chain's
entropy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import peft
import polars as pl
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from workbench import decentralised, dlion, dynacomm, edgegossip, hiertrain, training
from workbench.clusters import Link, full_mesh
from workbench.datasets import Dataset, markov, partition
from workbench.edgegossip import Platform, Predictor
from workbench.hiertrain import Hybrid, problem_of
from workbench.profiles import profile_model
from workbench.training import Sgd, Trained

TOKENS, RANK = 8, 4
BATCH, NODES, EPOCHS = 32, 4, 4
OLD, NEW = (markov.load(seed, tokens=TOKENS, test=512) for seed in (1, 0))
SGD, PLAIN = Sgd(0.2, momentum=0.9), Sgd(0.5)
MOST_MORE_PERCENT, LEAST_GAIN_PERCENT = 1.0, 90.0


def pretrained() -> nn.Module:
    """The model behind three epochs on the old chain."""
    model = training.initialise("gpt_tiny", 0, classes=TOKENS)
    adam = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(3):
        for batch in training.batches(OLD, BATCH, 0, epoch):
            scores = model(torch.tensor(OLD.x_train[batch]))
            labels = torch.tensor(OLD.y_train[batch])
            adam.zero_grad()
            nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten()).backward()  # type: ignore[no-untyped-call]
            adam.step()
    return model


def with_adapters(model: nn.Module) -> nn.Module:
    """The same, frozen, with adapters that do nothing yet beside its linear layers."""
    linear = [name for name, part in model.named_modules() if isinstance(part, nn.Linear)]
    how = peft.LoraConfig(r=RANK, lora_alpha=RANK, target_modules=linear)
    return peft.get_peft_model(model, how)  # type: ignore[no-any-return]


def of_dynacomm(model: nn.Module, data: Dataset) -> Trained[Any]:
    link = Link(20e6, 0.002)
    setup = dynacomm.Setup(
        model, data, link, workers=2, servers=2, batch_size=BATCH // 2, epochs=EPOCHS, sgd=SGD
    )
    return dynacomm.train(setup, trace=True)


def of_hiertrain(model: nn.Module, data: Dataset) -> Trained[Any]:
    problem = problem_of(
        profile_model(model, data.inputs),
        flops_per_s={"device": 1e9, "edge": 4e9, "cloud": 16e9},
        device_edge_bps=50e6,
        edge_cloud_bps=10e6,
        batch=BATCH,
        backward_over_forward=2.0,
    )
    setup = hiertrain.Setup(model, data, problem, epochs=EPOCHS, sgd=SGD)
    half, layers = BATCH // 2, problem.layers
    # All tiers hold all layers, so that every adapter travels.
    policy = Hybrid(("edge", "device", "cloud"), layers, layers, half, half // 2, half // 2)
    return hiertrain.train(setup, policy, trace=True)


def of_gossip(model: nn.Module, data: Dataset) -> Trained[Any]:
    shards = partition.by_size(data.y_train, [1] * NODES, seed=0)
    setup = decentralised.GossipSetup(
        *(model, data, shards, full_mesh(NODES, Link(20e6))),
        exchange=decentralised.Gossip(decentralised.ring(NODES)),
        batch_size=BATCH // 4,
        epochs=EPOCHS,
        sgd=SGD,
    )
    return decentralised.train(setup, trace=True)


def of_edgegossip(model: nn.Module, data: Dataset) -> Trained[Any]:
    platforms = [
        Platform(f"p{node}", Predictor("linear", 4, 1.0, 1.0, (1.0, 1.0, 1.0), 0.01 + 0.002 * node))
        for node in range(NODES)
    ]
    setup = edgegossip.Setup(model, data, platforms, batch_size=BATCH // 4, epochs=EPOCHS, sgd=SGD)
    return edgegossip.train(setup, edgegossip.EdgeGossip(strategy="importance"), trace=True)


def of_dlion(model: nn.Module, data: Dataset, *, system: str) -> Trained[Any]:
    setup = dlion.Setup(
        *(model, data),
        cluster=full_mesh(NODES, Link(20e6)),
        local_batch=BATCH // 4,
        epochs=EPOCHS,
        sgd=PLAIN if system in dlion.SYSTEMS else SGD,
        evaluate_every=64,
    )
    return dlion.train(setup, system, trace=True)


class Case(NamedTuple):
    """A system; which of its messages carry models or gradients, and how many whole ones.

    None for messages that carry a chosen part of a gradient each.
    """

    train: Callable[[nn.Module, Dataset], Trained[Any]]
    labels: str
    whole: Callable[[Trained[Any], int], int] | None = lambda trained, messages: messages


CASES = {
    # Two workers pull the model and push a gradient in each iteration, in segments by the plan.
    "DynaComm": Case(
        of_dynacomm, "pull|push", lambda trained, _: 4 * len(trained.run.results[0].plans)
    ),
    "HierTrain": Case(of_hiertrain, "weight gradients|averaged gradients"),
    "gossip": Case(of_gossip, "model"),
    "EdgeGossip": Case(of_edgegossip, "model"),
    "DLion's baseline": Case(partial(of_dlion, system="baseline"), "gradient"),
    "DLion, chosen gradients": Case(partial(of_dlion, system="dlion"), "gradient", None),
}


def main() -> int:
    with training.fixed_threads():
        base = pretrained()
        before = training.evaluate(base, NEW.x_test, NEW.y_test, objective=training.NEXT_TOKEN)
        whole_bytes = sum(4 * one.numel() for one in base.parameters())
        model = training.initialise(lambda: with_adapters(base), 1)
        size = sum(4 * one.numel() for one in model.parameters() if one.requires_grad)
        rows = [measured(name, case, model, size) for name, case in CASES.items()]
    assert NEW.entropy is not None
    table = Table(
        "system", "messages", "of the adapters, %", "of the model, %", "loss", "gained, %"
    )
    met = True
    for name, messages, share, loss in rows:
        gain = 100 * (before.loss - loss) / (before.loss - NEW.entropy)
        exact = CASES[name].whole is not None
        met &= gain >= LEAST_GAIN_PERCENT
        met &= abs(share - 1) <= MOST_MORE_PERCENT / 100 if exact else share <= 1
        of_model = f"{100 * share * size / whole_bytes:.1f}"
        table.add_row(
            name, f"{messages:,}", f"{100 * share:.2f}", of_model, f"{loss:.3f}", f"{gain:.1f}"
        )
    Console().print(table)
    result = "met   " if met else "MISSED"
    print(
        f"{result} adapters of {size:,} bytes in a model of {whole_bytes:,}; "
        f"loss {before.loss:.3f} before, entropy {NEW.entropy:.3f} nats; bars: messages of the "
        f"adapters' bytes within {MOST_MORE_PERCENT:g} % (of chosen gradients, no more), "
        f"{LEAST_GAIN_PERCENT:g} % of the loss gained"
    )
    return 0 if met else 1


def measured(name: str, case: Case, model: nn.Module, size: int) -> tuple[str, int, float, float]:
    """Messages, their bytes over those of as many adapters, and the last loss on test samples."""
    trained = case.train(model, NEW)
    assert trained.run.trace is not None
    labelled = pl.col("label").str.contains(case.labels)
    sent = trained.run.trace.frame.filter(pl.col("bytes") > 0, labelled)
    count = len(sent) if case.whole is None else case.whole(trained, len(sent))
    if isinstance(trained, dlion.Trained):
        losses = trained.evaluations.group_by("node").last()["loss"]
    else:
        losses = trained.epochs.filter(epoch=EPOCHS)["test_loss"]
    share = float(sent["bytes"].sum()) / (size * count)
    return name, len(sent), share, float(losses.max())  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main())
