"""Frozen parameters are held, and nothing else: no update, no message, no gradient below."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F  # noqa: N812

from tests.long import usually
from tests.short_trainings import DIGITS
from workbench import decentralised, dlion, dynacomm, edgegossip, hiertrain, olpb
from workbench.clusters import Link, full_mesh
from workbench.datasets import partition
from workbench.decentralised import learner
from workbench.decentralised.model_exchange.diloco import DiLoCo
from workbench.decentralised.model_exchange.moshpit_sgd import MoshpitSgd
from workbench.decentralised.model_exchange.noloco import NoLoCo
from workbench.edgegossip import Platform, Predictor
from workbench.hiertrain import Chain, Hybrid, problem_of
from workbench.profiles import profile_model
from workbench.training import (
    FlatModel,
    Sgd,
    Trained,
    batches,
    gradient_step,
    initialise,
    model_layout,
)
from workbench.utils.checks import UserError

DATA = DIGITS.limit(train=48, test=16)
SHAPE = (1, 8, 8)
BATCH = 16
PLAIN, SGD = Sgd(0.05), Sgd(0.05, momentum=0.9, weight_decay=1e-3)
RING = decentralised.metropolis_hastings(decentralised.ring(3))


class Residual(nn.Module):
    """Six layers with a shortcut and normalisation; adapters of low rank beside some."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.one, self.one_norm = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.two = nn.Conv2d(4, 4, 3, padding=1)
        self.hidden = nn.Linear(64, 12)
        self.down, self.up = nn.Linear(64, 2, bias=False), nn.Linear(2, 12, bias=False)
        self.fc = nn.Linear(12, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.stem_norm(self.stem(x)))
        x = torch.relu(x + self.two(torch.relu(self.one_norm(self.one(x)))))
        x = F.max_pool2d(x, 2).flatten(1)
        out: Tensor = self.fc(torch.relu(self.hidden(x) + self.up(self.down(x))))
        return out


PATTERNS: dict[str, Callable[[str], bool]] = {  # what of it is trained
    "all": lambda name: True,
    "not the first": lambda name: not name.startswith("stem"),
    "not the middle": lambda name: not name.startswith(("one", "two", "hidden")),
    "not the last": lambda name: not name.startswith("fc"),
    "the last": lambda name: name.startswith("fc"),
    "the first": lambda name: name.startswith("stem"),
    "biases": lambda name: name.endswith("bias"),
    "norms": lambda name: "norm" in name,
    "adapters": lambda name: name.startswith(("down", "up")),
}


def frozen(pattern: str) -> Residual:
    module = initialise(Residual, 5)
    assert isinstance(module, Residual)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(PATTERNS[pattern](name))
    return module


def servers(module: nn.Module, **options: Any) -> dynacomm.Setup:
    link = Link(20e6, 0.02)
    return dynacomm.Setup(module, DATA, link, batch_size=BATCH, epochs=2, sgd=SGD, **options)


def tiers(module: nn.Module, sgd: Sgd = SGD) -> hiertrain.Setup:
    problem = problem_of(
        profile_model(module, SHAPE),
        flops_per_s={"device": 1e8, "edge": 1e9, "cloud": 1e10},
        device_edge_bps=8e6,
        edge_cloud_bps=4e6,
        batch=BATCH,
        backward_over_forward=2.0,
        overhead_s=0.01,
    )
    return hiertrain.Setup(module, DATA, problem, epochs=2, sgd=sgd)


def placed(module: nn.Module, *names: str) -> Trained[Any]:
    setup = tiers(module)
    layers = setup.problem.layers
    each = (names[layer * len(names) // layers] for layer in range(layers))
    return hiertrain.train(setup, Chain(tuple(each), BATCH))


def pool(module: nn.Module, sgd: Sgd = SGD, **options: Any) -> olpb.Setup:
    nodes = olpb.Pool((olpb.Node(1e9),) * 3)
    return olpb.Setup(module, DATA, nodes, batch_size=BATCH, epochs=2, sgd=sgd, **options)


def gossip(module: nn.Module, nodes: int, sgd: Sgd = SGD, **options: Any) -> Trained[Any]:
    shards = partition.by_size(DATA.y_train, [1] * nodes, seed=0)
    links = full_mesh(nodes, Link(math.inf))
    setup = decentralised.GossipSetup(module, DATA, shards, links, batch_size=8, sgd=sgd, **options)
    return decentralised.train(setup, trace=True)


def platforms(module: nn.Module, nodes: int, sgd: Sgd = SGD) -> Trained[Any]:
    each = [
        Platform(f"p{node}", Predictor("linear", 4, 1.0, 1.0, (1.0, 1.0, 1.0), 0.01 * (node + 1)))
        for node in range(nodes)
    ]
    return edgegossip.train(edgegossip.Setup(module, DATA, each, batch_size=8, sgd=sgd))


def exchange(module: nn.Module, nodes: int, system: str | dlion.System) -> dlion.Trained:
    setup = dlion.Setup(
        module,
        DATA,
        cluster=full_mesh(nodes, Link(math.inf)),
        local_batch=4,
        epochs=2,
        sgd=PLAIN,
        sample_s=0.01,
    )
    return dlion.train(setup, system)


ALONE: dict[str, Callable[[nn.Module], Trained[Any]]] = {
    "dynacomm": lambda module: dynacomm.train(servers(module, servers=2)),
    "hiertrain, one tier": lambda module: placed(module, "edge"),
    "hiertrain, three tiers": lambda module: placed(module, "device", "edge", "cloud"),
    "decentralised": lambda module: gossip(module, 1, mixing=[[1.0]]),
    "edgegossip": lambda module: platforms(module, 1),
    "dlion": lambda module: exchange(module, 1, "baseline"),
    "olpb": lambda module: olpb.train(pool(module)),
    "sequential": lambda module: olpb.train(pool(module), "sequential"),
}


def each(weights: Any) -> list[Tensor]:
    """Flat vectors of all nodes."""
    several = isinstance(weights, tuple) or weights.ndim == 2
    return [torch.as_tensor(one) for one in (weights if several else [weights])]


@pytest.mark.parametrize("pattern", usually(("not the middle", "adapters"), PATTERNS))
@pytest.mark.parametrize("system", ALONE)
def test_one_machine_has_the_weights_of_a_plain_loop(
    system: str, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit; so have tiers that pass a batch on to each other."""
    learnt: list[tuple[Any, Any]] = []

    def noted(flat: FlatModel, x: Any, y: Any, **options: Any) -> float:
        learnt.append((x, y))
        return gradient_step(flat, x, y, **options)

    monkeypatch.setattr(learner, "gradient_step", noted)
    plain = frozen(pattern)
    (found,) = each(ALONE[system](plain).weights)
    if not learnt:
        drawn = (one for epoch in range(2) for one in batches(DATA, BATCH, 0, epoch))
        learnt = [(DATA.x_train[one], DATA.y_train[one]) for one in drawn]
    trained = {name: one for name, one in plain.named_parameters() if one.requires_grad}
    sgd = PLAIN if system == "dlion" else SGD
    theirs = torch.optim.SGD(
        trained.values(),
        lr=sgd.learning_rate,
        momentum=sgd.momentum,
        weight_decay=sgd.weight_decay,
        foreach=False,
    )
    for x, y in learnt:
        theirs.zero_grad()
        F.cross_entropy(plain(torch.tensor(x)), torch.tensor(y)).backward()  # type: ignore[no-untyped-call]
        theirs.step()
    slices = model_layout(plain, SHAPE).tensor_slices
    assert slices.keys() == trained.keys()
    for name, one in trained.items():
        assert torch.equal(found[slices[name]], one.detach().reshape(-1)), name


class Detached(nn.Module):
    """The same without a frozen parameter: gradients are zero where they would be frozen."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.stops = {name for name, one in module.named_parameters() if not one.requires_grad}
        self.module = copy.deepcopy(module).requires_grad_(True)

    def forward(self, x: Tensor) -> Tensor:
        named = self.module.named_parameters()
        held = {name: one.detach() + 0 * one if name in self.stops else one for name, one in named}
        out: Tensor = functional_call(self.module, held, (x,))
        return out


SELECTING = ("ako", "choco_sgd")  # whose choice depends on how many values there are
EXCHANGES = {name: one for name, one in dlion.SYSTEMS.items() if name not in SELECTING} | {
    "diloco": dlion.System("DiLoCo", exchange_models=DiLoCo(every=2)),
    "local_sgd": dlion.System("Local SGD", exchange_models=DiLoCo(every=2, outer=Sgd(1.0))),
    "noloco": dlion.System("NoLoCo", exchange_models=NoLoCo(every=2)),
    "moshpit_sgd": dlion.System("Moshpit SGD", exchange_models=MoshpitSgd(every=2)),
}
MOMENTUM = Sgd(0.05, momentum=0.9)
SEVERAL: dict[str, Callable[[nn.Module], Trained[Any]]] = {
    "dynacomm": lambda module: dynacomm.train(
        replace(servers(module, workers=2, servers=2, speeds=(1, 0.5)), sgd=MOMENTUM)
    ),
    "hiertrain": lambda module: hiertrain.train(
        tiers(module, MOMENTUM), Hybrid(("edge", "device", "cloud"), 2, 4, 6, 4, 6)
    ),
    "mixing": lambda module: gossip(module, 3, MOMENTUM, mixing=RING, epochs=2, sample_s=0.01),
    "gosgd": lambda module: gossip(
        module, 3, MOMENTUM, probability=0.5, epochs=2, sample_s=[0.01, 0.02, 0.03]
    ),
    "edgegossip": lambda module: platforms(module, 3, MOMENTUM),
    "dpb": lambda module: olpb.train(pool(module, MOMENTUM, modules=3), "dpb"),
} | {
    name: lambda module, system=system: exchange(module, 3, system)
    for name, system in EXCHANGES.items()
}


@pytest.mark.parametrize("system", SEVERAL)
def test_several_learn_as_if_what_is_frozen_had_no_gradient(system: str) -> None:
    module = frozen("not the middle")
    other = Detached(module)
    found, expected = (each(SEVERAL[system](one).weights) for one in (module, other))
    slices, theirs = (model_layout(one, SHAPE).tensor_slices for one in (module, other))
    for weights, others in zip(found, expected, strict=True):
        for name, where in slices.items():
            torch.testing.assert_close(weights[where], others[theirs[f"module.{name}"]])


class TestMessages:
    MODULE = frozen("adapters")
    BYTES = sum(4 * one.numel() for one in MODULE.parameters() if one.requires_grad)

    def sizes(self, trained: Trained[Any], *labels: str) -> set[int]:
        assert trained.run.trace is not None
        sent = trained.run.trace.frame.filter(pl.col("label").str.contains("|".join(labels)))
        return set(sent["bytes"].to_list())

    def test_pull_and_push_what_is_trained(self) -> None:
        found = dynacomm.train(servers(self.MODULE, servers=2), "sequential", trace=True)
        assert self.sizes(found, "pull", "push") == {self.BYTES // 2}

    def test_of_tiers_carry_no_gradient_where_nothing_below_is_trained(self) -> None:
        policy = Hybrid(("edge", "device", "cloud"), 2, 5, 6, 4, 6)
        setup = tiers(self.MODULE)
        trace = hiertrain.train(setup, policy, trace=True).run.trace
        assert trace is not None
        sent = trace.frame.filter(pl.col("bytes") > 0, pl.col("node") != "samples")
        output = setup.problem.output_bytes
        assert set(sent.select("node", "label", "bytes").rows()) == {
            ("device", "features", 4 * output[1]),
            ("cloud", "features", 6 * output[4]),
            ("edge", "gradient", 6 * output[4]),
            ("cloud", "weight gradients", self.BYTES),
            ("edge", "averaged gradients", self.BYTES),
        }

    def test_of_gossip_are_what_is_trained(self) -> None:
        found = gossip(self.MODULE, 3, mixing=RING, sample_s=0.01)
        assert self.sizes(found, "model") == {self.BYTES}

    @pytest.mark.parametrize("system", ["baseline", "ad_psgd"])
    def test_of_exchanges_are_what_is_trained(self, system: str) -> None:
        assert set(exchange(self.MODULE, 3, system).transfers["bytes"]) == {self.BYTES}


TIMED = ("the last", "adapters", "not the middle")


@pytest.mark.parametrize("pattern", usually(TIMED[1:], TIMED))
class TestTimes:
    """What a plan takes in simulation is what its cost model says."""

    @pytest.mark.parametrize("planner", dynacomm.PLANNERS)
    def test_of_parameter_servers(self, planner: str, pattern: str) -> None:
        setup = servers(frozen(pattern))
        run = dynacomm.train(setup, planner, replan_every=None).run
        iterations = 2 * len(DATA.y_train) // BATCH
        plan = dynacomm.PLANNERS[planner](setup.costs)
        expected_s = iterations * dynacomm.iteration(setup.costs, plan).total_s
        assert run.end_s == pytest.approx(expected_s, rel=1e-12)

    @pytest.mark.parametrize("planner", hiertrain.PLANNERS)
    def test_of_tiers(self, planner: str, pattern: str) -> None:
        setup = tiers(frozen(pattern))
        iterations = 2 * len(DATA.y_train) // BATCH
        plan = hiertrain.PLANNERS[planner](setup.problem)
        expected_s = iterations * hiertrain.iteration(setup.problem, plan).total_s
        assert hiertrain.train(setup, plan).run.end_s == pytest.approx(expected_s, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8])
def test_what_is_frozen_may_be_of_another_type(dtype: torch.dtype) -> None:
    class Narrow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            drawn = torch.randint(-8, 8, (32, 64), generator=torch.Generator().manual_seed(0))
            self.weight = nn.Parameter(drawn.to(dtype), requires_grad=False)
            self.fc = nn.Linear(32, 10)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.fc(torch.relu(x.flatten(1) @ self.weight.T.to(x.dtype)))
            return out

    module = initialise(Narrow, 0)
    weights = dynacomm.train(servers(module)).weights
    assert torch.equal(weights, placed(module, "device", "edge").weights)
    assert profile_model(module, SHAPE).frozen_bytes == (32 * 64 * dtype.itemsize, 0)


def test_workers_that_begin_apart_share_what_is_frozen() -> None:
    def made() -> nn.Module:
        module = Residual()
        module.stem.requires_grad_(False)
        return module

    links = full_mesh(2, Link(math.inf))
    built = dlion.Setup(made, DATA, cluster=links, local_batch=4).programs()
    one, other = (dict(state.value.flat.module.named_parameters()) for state in built.states)
    assert torch.equal(one["stem.weight"], other["stem.weight"])
    assert not torch.equal(one["fc.weight"], other["fc.weight"])


@pytest.mark.parametrize("system", ALONE)
def test_a_module_that_is_frozen_as_a_whole_is_refused(system: str) -> None:
    with pytest.raises(UserError, match=r"every parameter of Residual is frozen.* requires_grad_"):
        ALONE[system](Residual().requires_grad_(False))
