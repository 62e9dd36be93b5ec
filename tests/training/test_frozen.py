"""Frozen parameters are held, and nothing else: no update, no message, no gradient below."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F  # noqa: N812

from tests.long import usually
from tests.short_trainings import DIGITS
from tests.training.systems import (
    ALONE,
    BATCH,
    PLAIN,
    SEVERAL,
    check_plain_loop,
    each,
    placed,
    servers,
    tiers,
    train_several,
)
from workbench import dlion, dynacomm, hiertrain
from workbench.clusters import Link, full_mesh
from workbench.decentralised import DiLoCo, MakeExchange, MoshpitSgd, NoLoCo
from workbench.hiertrain import Hybrid
from workbench.profiles import profile_model
from workbench.training import (
    Sgd,
    initialise,
    model_layout,
)
from workbench.utils.checks import UserError

DATA = DIGITS.limit(train=32, test=8)
SHAPE = (1, 8, 8)


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


@pytest.mark.parametrize("pattern", usually(("not the middle", "adapters"), PATTERNS))
@pytest.mark.parametrize("system", ALONE)
def test_one_machine_has_the_weights_of_a_plain_loop(
    system: str, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so have tiers that pass a batch on to each other."""
    check_plain_loop(system, frozen(pattern), DATA, monkeypatch, epochs=2)


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
ROUNDS: dict[str, MakeExchange] = {
    "diloco": DiLoCo(period=2),
    "local_sgd": DiLoCo(period=2, outer=Sgd(1.0)),
    "noloco": NoLoCo(period=2),
    "moshpit_sgd": MoshpitSgd(period=2),
}


@pytest.mark.parametrize("system", [one for one in SEVERAL if one not in SELECTING])
def test_several_learn_as_if_what_is_frozen_had_no_gradient(system: str) -> None:
    module = frozen("not the middle")
    other = Detached(module)
    how = ROUNDS.get(system)
    found, expected = (
        each(train_several(system, one, DATA, how, epochs=2, sgd=PLAIN).weights)
        for one in (module, other)
    )
    slices, theirs = (model_layout(one, SHAPE).tensor_slices for one in (module, other))
    for weights, others in zip(found, expected, strict=True):
        for name, where in slices.items():
            torch.testing.assert_close(weights[where], others[theirs[f"module.{name}"]])


def test_tiers_send_no_gradient_where_nothing_below_is_trained() -> None:
    """What other systems send of adapters is in `test_tokens`."""
    module = frozen("adapters")
    trained_bytes = sum(4 * one.numel() for one in module.parameters() if one.requires_grad)
    policy = Hybrid(("edge", "device", "cloud"), 2, 5, 3, 2, 3)
    setup = tiers(module, DATA)
    trace = hiertrain.train(setup, policy, trace=True).run.trace
    assert trace is not None
    sent = trace.frame.filter(pl.col("bytes") > 0, pl.col("node") != "samples")
    output = setup.problem.output_bytes
    assert set(sent.select("node", "label", "bytes").rows()) == {
        ("device", "features", 2 * output[1]),
        ("cloud", "features", 3 * output[4]),
        ("edge", "gradient", 3 * output[4]),
        ("cloud", "weight gradients", trained_bytes),
        ("edge", "averaged gradients", trained_bytes),
    }


TIMED = ("the last", "adapters", "not the middle")


@pytest.mark.parametrize("pattern", usually(TIMED[1:], TIMED))
class TestTimes:
    """What a plan takes in simulation is what its cost model says."""

    ITERATIONS = len(DATA.y_train) // BATCH

    @pytest.mark.parametrize("planner", dynacomm.PLANNERS)
    def test_of_parameter_servers(self, planner: str, pattern: str) -> None:
        setup = servers(frozen(pattern), DATA)
        run = dynacomm.train(setup, planner, replan_every=None).run
        predicted = dynacomm.iteration(setup.costs, dynacomm.PLANNERS[planner](setup.costs))
        assert run.end_s == pytest.approx(self.ITERATIONS * predicted.total_s, rel=1e-12)

    @pytest.mark.parametrize("planner", hiertrain.PLANNERS)
    def test_of_tiers(self, planner: str, pattern: str) -> None:
        setup = tiers(frozen(pattern), DATA)
        plan = hiertrain.PLANNERS[planner](setup.problem)
        predicted_s = self.ITERATIONS * hiertrain.iteration(setup.problem, plan).total_s
        assert hiertrain.train(setup, plan).run.end_s == pytest.approx(predicted_s, rel=1e-12)


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
    weights = dynacomm.train(servers(module, DATA)).weights
    assert torch.equal(weights, placed(tiers(module, DATA), "device", "edge").weights)
    assert profile_model(module, SHAPE).frozen_bytes == (32 * 64 * dtype.itemsize, 0)


def test_workers_that_begin_apart_share_what_is_frozen() -> None:
    def made() -> nn.Module:
        module = Residual()
        module.stem.requires_grad_(False)
        return module

    links = full_mesh(2, Link(math.inf))
    programs: list[Any] = dlion.Setup(made, DATA, cluster=links, local_batch=4).programs().programs
    one, other = (dict(each.state.value.flat.module.named_parameters()) for each in programs)
    assert torch.equal(one["stem.weight"], other["stem.weight"])
    assert not torch.equal(one["fc.weight"], other["fc.weight"])


@pytest.mark.parametrize("system", ALONE)
def test_a_module_that_is_frozen_as_a_whole_is_refused(system: str) -> None:
    with pytest.raises(UserError, match=r"every parameter of Residual is frozen.* requires_grad_"):
        ALONE[system](Residual().requires_grad_(False), DATA)
