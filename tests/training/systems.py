"""Small trainings of every system, of any module on any data set; and a plain loop beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tests.edgegossip.strategies import platforms as platforms_of
from workbench import decentralised, dlion, dynacomm, edgegossip, hiertrain, olpb, training
from workbench.clusters import Link, full_mesh
from workbench.datasets import Dataset, NamedArrays, partition
from workbench.decentralised import learner
from workbench.edgegossip.programs.trainer import has_means
from workbench.hiertrain import Chain, Problem, problem_of
from workbench.profiles import profile_model
from workbench.training import (
    FlatModel,
    RunOptions,
    Sgd,
    Trained,
    batches,
    gradient_step,
    model_layout,
)
from workbench.training.models import make_model

BATCH, PART = 8, 4
"""Samples of an iteration of one model; of a node that has one of its own."""

SGD, PLAIN = Sgd(0.05, momentum=0.9, weight_decay=1e-3), Sgd(0.05)
LINK = Link(math.inf)
RING = decentralised.metropolis_hastings(decentralised.ring(3))


def servers(module: Any, data: Dataset, **options: Any) -> dynacomm.Setup:
    given: dict[str, Any] = {"batch_size": BATCH, "sgd": SGD, **options}
    return dynacomm.Setup(module, data, Link(20e6, 0.02), **given)


def problem(module: Any, data: Dataset, outputs: Any = None) -> Problem:
    return problem_of(
        profile_model(make_model(module, data, 0, outputs), data.inputs),
        flops_per_s={"device": 1e8, "edge": 1e9, "cloud": 1e10},
        device_edge_bps=8e6,
        edge_cloud_bps=4e6,
        batch=BATCH,
        backward_over_forward=2.0,
        overhead_s=0.01,
    )


def tiers(module: Any, data: Dataset, **options: Any) -> hiertrain.Setup:
    given: dict[str, Any] = {"sgd": SGD, **options}
    return hiertrain.Setup(module, data, problem(module, data, options.get("outputs")), **given)


def placed(setup: hiertrain.Setup, *names: str) -> Trained[Any]:
    """Train with layers on these tiers, as many on each."""
    layers = setup.problem.layers
    each = (names[layer * len(names) // layers] for layer in range(layers))
    return hiertrain.train(setup, Chain(tuple(each), setup.problem.batch))


def pool(module: Any, data: Dataset, **options: Any) -> olpb.Setup:
    given: dict[str, Any] = {"batch_size": BATCH, "sgd": SGD, **options}
    return olpb.Setup(module, data, olpb.Pool((olpb.Node(1e9),) * 3), **given)


def gossip(
    module: Any, data: Dataset, nodes: int, link: Link = LINK, **options: Any
) -> decentralised.GossipSetup:
    given: dict[str, Any] = {"batch_size": PART, "sgd": SGD, "sample_s": 0.01, **options}
    shards = partition.by_size(data.y_train, [1] * nodes, seed=0)
    return decentralised.GossipSetup(module, data, shards, full_mesh(nodes, link), **given)


def platforms(module: Any, data: Dataset, nodes: int, **options: Any) -> edgegossip.Setup:
    given: dict[str, Any] = {"batch_size": PART, "sgd": SGD, **options}
    who = platforms_of(*(0.01 * (node + 1) for node in range(nodes)))
    return edgegossip.Setup(module, data, who, **given)


def workers(
    module: Any, data: Dataset, nodes: int, link: Link = LINK, **options: Any
) -> dlion.Setup:
    given: dict[str, Any] = {"local_batch": PART, "sgd": PLAIN, "sample_s": 0.01}
    given |= {"first_weights": "shared", **options}
    return dlion.Setup(module, data, cluster=full_mesh(nodes, link), **given)


def strategy(data: Dataset) -> str:
    """Of EdgeGossip: images have means, tokens have none."""
    return "accuracy_aware" if has_means(data) else "importance"


ALONE: dict[str, Callable[..., Trained[Any]]] = {
    "dynacomm": lambda model, data, **how: dynacomm.train(servers(model, data, servers=2, **how)),
    "hiertrain, one tier": lambda model, data, **how: placed(tiers(model, data, **how), "edge"),
    "hiertrain, three tiers": lambda model, data, **how: placed(
        tiers(model, data, **how), "device", "edge", "cloud"
    ),
    "decentralised": lambda model, data, **how: decentralised.train(
        gossip(model, data, 1, exchange=decentralised.Gossip([[1.0]]), **how)
    ),
    "edgegossip": lambda model, data, **how: edgegossip.train(
        platforms(model, data, 1, **how), edgegossip.EdgeGossip(strategy=strategy(data))
    ),
    "dlion": lambda model, data, **how: dlion.train(workers(model, data, 1, **how), "baseline"),
    "olpb": lambda model, data, **how: olpb.train(pool(model, data, **how)),
    "sequential": lambda model, data, **how: olpb.train(pool(model, data, **how), "sequential"),
}
"""Of a model and a data set: by one machine, or by several that pass a batch on to each other."""


MIXED = hiertrain.Hybrid(("edge", "device", "cloud"), 2, 4, 3, 2, 3)
SEVERAL: dict[str, Callable[..., tuple[Any, Any]]] = {
    "dynacomm": lambda *of, **how: (servers(*of, workers=2, servers=2, **how), "dynacomm"),
    "hiertrain": lambda *of, **how: (tiers(*of, **how), MIXED),
    "mixing": lambda model, data, **how: (
        gossip(model, data, 3, exchange=decentralised.Gossip(RING), **how),
        None,
    ),
    "gosgd": lambda model, data, **how: (
        gossip(model, data, 3, exchange=decentralised.GoSgd(0.5), **how),
        None,
    ),
    "edgegossip": lambda model, data, **how: (
        platforms(model, data, 3, **how),
        edgegossip.EdgeGossip(strategy=strategy(data)),
    ),
    "bppsa": lambda *of, **how: (pool(*of, **how), "bppsa"),
    "dpb": lambda *of, **how: (pool(*of, modules=3, **how), "dpb"),
} | {
    name: lambda model, data, name=name, **how: (workers(model, data, 3, **how), name)
    for name in (*dlion.SYSTEMS, *decentralised.EXCHANGES)
    if name != "gosgd"
}
"""Of a model and a data set, as setup and how: by several machines."""


def train_several(
    system: str, model: Any, data: Dataset, how: Any = None, *, trace: bool = False, **options: Any
) -> Trained[Any]:
    """Train as `SEVERAL` has it, or in another way of the same setup."""
    setup, usual = SEVERAL[system](model, data, **options)
    return training.train(setup, how or usual, RunOptions(trace=trace))


def each(weights: Any) -> list[Tensor]:
    """Flat vectors of all nodes."""
    several = isinstance(weights, tuple) or weights.ndim == 2
    return [torch.as_tensor(one) for one in (weights if several else [weights])]


def combined(
    systems: Iterable[str], names: Iterable[str], usual: Callable[[str, str], bool]
) -> list[Any]:
    """Return all pairs as parameters, those that are not usual marked as long."""
    return [
        pytest.param(system, name, marks=() if usual(system, name) else pytest.mark.long)
        for system, name in product(systems, names)
    ]


def tensors_of(x: Any) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """Arguments of a module, in their order and by name."""
    if isinstance(x, NamedArrays):
        return (), {name: torch.tensor(array) for name, array in x.arrays.items()}
    return (torch.tensor(x),), {}


def entropy(returned: Any, y: Tensor) -> Tensor:
    """Cross entropy of classes, or of tokens at positions."""
    scores = getattr(returned, "logits", returned)
    return F.cross_entropy(scores.flatten(0, -2), y.flatten())


def plain_loop(
    module: nn.Module,
    data: Dataset,
    sgd: Sgd = SGD,
    loss_of: Callable[[Any, Tensor], Tensor] = entropy,
    *,
    epochs: int = 1,
    learnt: Sequence[tuple[Any, Any]] = (),
) -> Tensor:
    """The flat vector behind PyTorch's own steps on a training's batches, or on others."""
    trained = {name: one for name, one in module.named_parameters() if one.requires_grad}
    theirs = torch.optim.SGD(
        trained.values(),
        lr=sgd.learning_rate,
        momentum=sgd.momentum,
        weight_decay=sgd.weight_decay,
        foreach=False,
    )
    drawn = [one for epoch in range(epochs) for one in batches(data, BATCH, 0, epoch)]
    for x, y in learnt or [(data.x_train[one], data.y_train[one]) for one in drawn]:
        args, named = tensors_of(x)
        theirs.zero_grad()
        loss_of(module(*args, **named), torch.tensor(y)).backward()  # type: ignore[no-untyped-call]
        theirs.step()
    slices = model_layout(module, data.inputs).tensor_slices
    assert slices.keys() == trained.keys()
    return torch.cat([trained[name].detach().reshape(-1) for name in slices])


def check_plain_loop(
    system: str, model: Any, data: Dataset, monkeypatch: pytest.MonkeyPatch, *, epochs: int = 1
) -> None:
    """Weights are those of a plain loop on the same batches, bit for bit."""
    learnt: list[tuple[Any, Any]] = []

    def noted(flat: FlatModel, x: Any, y: Any, **how: Any) -> float:
        learnt.append((x, y))
        return gradient_step(flat, x, y, **how)

    monkeypatch.setattr(learner, "gradient_step", noted)
    module = make_model(model, data, 0)
    (found,) = each(ALONE[system](model, data, epochs=epochs).weights)
    sgd = PLAIN if system == "dlion" else SGD
    assert torch.equal(found, plain_loop(module, data, sgd, epochs=epochs, learnt=learnt))
