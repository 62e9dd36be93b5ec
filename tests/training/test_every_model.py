"""Models of others and of the zoo work in every room: plans, predictions, memory, trainings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor, nn

from tests.long import usually
from tests.memory.tracing import test_transformers as others
from tests.memory.tracing.test_functional import same
from tests.training.systems import (
    ALONE,
    BATCH,
    PART,
    SEVERAL,
    check_plain_loop,
    combined,
    each,
    plain_loop,
    pool,
    servers,
    tensors_of,
    tiers,
    train_several,
)
from workbench import datasets, dynacomm, hiertrain, memory, olpb
from workbench.clusters import Link, Node, full_mesh
from workbench.comparison import compare
from workbench.comparison.learning import train_methods
from workbench.datasets import IGNORED, Dataset, NamedArrays, markov
from workbench.memory import Arena, plan_memory
from workbench.memory.executor import run
from workbench.profiles import profile_model
from workbench.training import initialise
from workbench.training.models import make_model
from workbench.utils.checks import UserError

SAMPLES, TESTED = 32, 8
CLUSTER = full_mesh(
    [Node(f"n{at}", flops_per_s=(1 + at) * 1e9, samples=8) for at in range(3)], Link(50e6)
)


def without_dropout(module: nn.Module) -> nn.Module:
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
        for name in ("dropout", "drop"):
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, 0.0)
    return module


def of_others(name: str) -> tuple[Any, Dataset]:
    """A module of the package transformers without dropout, and tokens for each of its inputs."""
    module, _ = others.made(name)
    without_dropout(module)
    draw = np.random.default_rng(0)
    count, length = SAMPLES + TESTED, others.LENGTH
    names = [part.partition("=int64")[0] for part in others.MODELS[name].inputs.split(",")]
    x = {key: draw.integers(others.VOCABULARY, size=(count, length)) for key in names}
    if "attention_mask" in x:
        x["attention_mask"] = (np.arange(length) < draw.integers(4, 9, (count, 1))).astype(np.int64)
    if name == "classes":
        y, labels = draw.integers(2, size=count), 2
    else:
        y, labels = draw.integers(others.VOCABULARY, size=(count, length)), others.VOCABULARY
        if name.startswith("bert"):  # learns what is behind a mask, and nothing of the rest
            y[draw.random(y.shape) < 0.5] = IGNORED
    arrays: Any = NamedArrays(x) if "=" in others.MODELS[name].inputs else next(iter(x.values()))
    learnt, tested, classes = slice(SAMPLES), slice(SAMPLES, None), tuple(map(str, range(labels)))
    return module, Dataset(name, arrays[learnt], y[learnt], arrays[tested], y[tested], classes)


class Causal(nn.Module):
    """PyTorch's encoder with a mask of which nobody says that it is causal."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(8, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        out: Tensor = self.head(self.encoder(self.tokens(x), mask=mask))
        return out


class Translator(nn.Module):
    """PyTorch's encoder and decoder, of which one weight projects what comes from both."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Transformer(8, 2, 1, 1, 16, 0.0, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        out: Tensor = self.head(self.both(source, target))
        return out


def causal() -> tuple[Any, Dataset]:
    return initialise(Causal, 0), tokens("gpt_tiny", 6)[1]


def translator() -> tuple[Any, Dataset]:
    draw = np.random.default_rng(0)
    x = NamedArrays(
        {name: draw.normal(size=(SAMPLES, 5, 8)).astype(np.float32) for name in SEQUENCES}
    )
    y = draw.integers(3, size=(SAMPLES, 5))
    return initialise(Translator, 0), Dataset("pairs", x, y, x[:8], y[:8], tuple("abc"))


SEQUENCES = ("source", "target")


def tokens(name: str, length: int) -> tuple[Any, Dataset]:
    return name, markov.load(tokens=8, length=length, train=SAMPLES, test=TESTED)


def sentences(name: str, length: int) -> tuple[Any, Dataset]:
    """A class for each text: its first token."""
    _, data = tokens(name, length)
    x, tested = data.x_train, data.x_test
    module = without_dropout(initialise(name, 0, classes=8))
    return module, Dataset("sentences", x, x[:, 0], tested, tested[:, 0], data.classes)


def images(name: str) -> tuple[Any, Dataset]:
    return name, datasets.load("digits").limit(SAMPLES, TESTED).fitted((3, 32, 32))


MODELS: dict[str, Callable[[], tuple[Any, Dataset]]] = {
    **{name: partial(of_others, name) for name in others.MODELS},
    "nn.TransformerEncoder": causal,
    "nn.Transformer": translator,
    "gpt_tiny": partial(tokens, "gpt_tiny", 32),
    "bert_tiny": partial(sentences, "bert_tiny", 128),
    "vit_tiny_cifar": partial(images, "vit_tiny_cifar"),
}
TIED = ("gpt2", "bert", "bert, masked", "t5", "gpt_tiny")
"""Models of which the first layers and the last use the same weight."""

USUAL = ("llama, masked", "bert, masked", "t5", "gpt_tiny")
PASSING_ON = ("dynacomm", "hiertrain, three tiers")


def is_usual(system: str, name: str) -> bool:
    """Whether it is one of the models with which `make test` tries a system of one machine."""
    return name == "bert, masked" or (system in PASSING_ON and name in USUAL)


def models(*usual: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", usually(usual, MODELS))


@pytest.mark.parametrize(("system", "name"), combined(ALONE, MODELS, is_usual))
def test_one_machine_has_the_weights_of_a_plain_loop(
    system: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so have tiers that pass a batch on to each other."""
    model, data = MODELS[name]()
    if system == "hiertrain, three tiers" and name in (*TIED, "nn.Transformer"):
        with pytest.raises(UserError, match=r"uses '.*' in layer .* and in an earlier one"):
            ALONE[system](model, data)
        return
    check_plain_loop(system, model, data, monkeypatch)


@pytest.mark.parametrize("cut", usually([2, 3, 4, 7], range(1, 8)))
def test_a_cut_through_a_shared_weight_is_refused_and_any_other_learns(cut: int) -> None:
    """A decoder projects queries in the layer before that of keys and values."""
    model, data = translator()
    setup = tiers(model, data)
    policy = hiertrain.Chain(("edge",) * cut + ("cloud",) * (8 - cut), BATCH)
    if cut == 3:
        with pytest.raises(UserError, match=r"uses '.*in_proj_bias' in layer 4 on the cloud"):
            hiertrain.train(setup, policy)
    else:
        weights = hiertrain.train(setup, policy).weights
        assert torch.equal(weights, plain_loop(translator()[0], data))


@models("llama, masked", "t5")
def test_plans_take_in_simulation_what_is_predicted(name: str) -> None:
    model, data = MODELS[name]()
    iterations = SAMPLES // BATCH
    setup = servers(model, data)
    predicted_s = {
        planner: iterations * dynacomm.iteration(setup.costs, plan(setup.costs)).total_s
        for planner, plan in dynacomm.PLANNERS.items()
    }
    assert min(predicted_s.values()) == predicted_s["dynacomm"]
    run = dynacomm.train(setup, "dynacomm", replan_every=None).run
    assert run.end_s == pytest.approx(predicted_s["dynacomm"], rel=1e-12)
    on_tiers = tiers(model, data)
    predicted_s = {
        planner: iterations * hiertrain.iteration(on_tiers.problem, plan(on_tiers.problem)).total_s
        for planner, plan in hiertrain.PLANNERS.items()
    }
    exact_s = {name: seconds for name, seconds in predicted_s.items() if name != "jalad"}
    assert min(exact_s.values()) == predicted_s["hiertrain"]
    run = hiertrain.train(on_tiers).run
    assert run.end_s == pytest.approx(predicted_s["hiertrain"], rel=1e-12)


@models("llama, masked", "gpt_tiny")
def test_all_methods_are_compared_and_simulated(name: str) -> None:
    """What a scan of Jacobians takes is known of the zoo's models alone.

    PipeDream cannot update a weight that several stages share.
    """
    model, data = MODELS[name]()
    inputs = None if isinstance(model, str) else data.inputs
    table = compare(model, CLUSTER, BATCH, input_shape=inputs).frame
    left = set(table.filter(pl.col("reason").is_not_null())["method"])
    expected = set[str]() if isinstance(model, str) else {"olpb", "bppsa"}
    if profile_model(model, inputs).tied:
        expected.add("pipeline, pipedream")
    assert left == expected
    of_cost_models = table.filter(pl.col("system").is_in(["DynaComm", "HierTrain", "OLPB"]))
    ratio = of_cost_models["samples_per_s"] / of_cost_models["predicted_samples_per_s"]
    assert ratio.drop_nulls().is_between(0.9, 1.1).all()


@models(*USUAL)
def test_a_step_by_a_memory_plan_is_the_models_own(name: str) -> None:
    model, data = MODELS[name]()
    module = make_model(model, data, 0)
    graph = memory.trace(module, data.inputs, 2, training=True)
    args, named = tensors_of(data.x_train[:2])
    given = (*args, *named.values(), torch.zeros(graph.inputs[-1].shape, dtype=torch.int64))
    plan = plan_memory(graph, rounds=0)
    assert plan.total_bytes < sum(plan.flow.sizes)
    same(tuple(Arena(plan, module).run(given)), list(run(graph, given)))


@models("bert, masked", "t5")
@pytest.mark.parametrize(
    "system",
    usually(
        ("dynacomm", "hiertrain", "edgegossip", "dlion"), [one for one in SEVERAL if one != "dpb"]
    ),
)
def test_several_machines_learn_finite_weights(system: str, name: str) -> None:
    model, data = MODELS[name]()
    found = train_several(system, model, data)
    for weights in each(found.weights):
        assert weights.isfinite().all()
    assert found.epochs["loss"].is_finite().all()


@models("llama, masked", "gpt_tiny")
def test_late_gradients_take_what_no_two_modules_share(name: str) -> None:
    model, data = MODELS[name]()
    setup = pool(model, data, modules=3)
    if name in TIED:
        with pytest.raises(UserError, match=r"' is used in module \d and in module"):
            olpb.train(setup, "dpb")
    else:
        assert olpb.train(setup, "dpb").epochs["loss"].is_finite().all()


FEW = ("parameter server, dynacomm", "hiertrain", "dlion", "gossip", "edgegossip", "fedavg")


@models("t5", "gpt_tiny")
def test_methods_are_trained_and_ranked(name: str) -> None:
    model, data = MODELS[name]()
    found = train_methods(model, CLUSTER, data, PART, epochs=1, seeds=1, methods=FEW, processes=1)
    assert found.summary["reason"].null_count() == len(FEW)
    assert found.summary["end_loss"].is_finite().all()
