"""Modules whose steps may run beside each other, and those that reach beyond themselves."""

from __future__ import annotations

import itertools
import math
import random
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from workbench.training.isolated import is_isolated
from workbench.zoo import MODELS

SCALE = 2.0
COUNTER = itertools.count()
GENERATOR = torch.Generator()
SEEN: list[int] = []


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * SCALE * math.sqrt(2)


def noisy(x: torch.Tensor) -> torch.Tensor:
    return torch.mul(x, random.random())


class Own(nn.Module):
    """Reaches nothing but constants, PyTorch and what it holds."""

    sizes = (3, 2)

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.numbers = nn.Linear(*self.sizes), random.Random(1)

    @property
    def doubled(self) -> float:
        return 2 * self.numbers.random()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [functional.relu(scaled(self.layer(torch.flatten(one, 1)))) for one in [x, x]]
        if len(parts) != len(self.sizes):
            raise ValueError("never")
        return torch.stack(parts).sum(0) * self.doubled


class Child(Own):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + 1


class Draws(Own):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return noisy(x)


class DrawsInNumpy(Own):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mul(x, float(np.random.rand(1)[0]))  # noqa: NPY002


class Counts(Own):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * next(COUNTER)


class Shares(Own):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(2, generator=GENERATOR)


class Notes(Own):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        SEEN.append(len(x))
        return x


class OfItsClass(Own):
    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        type(self).calls += 1
        return x


class OfItsClassToo(Own):
    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.__class__.calls += 1
        return x


class InItsClass(Own):
    calls: list[int] = []  # noqa: RUF012

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.append(len(x))
        return x


class Writes(Own):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        global SCALE  # noqa: PLW0603
        SCALE += 1
        return x


class Imports(Own):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        import random as drawn

        return x * drawn.random()


class ByDefault(Own):
    def forward(self, x: torch.Tensor, seen: list[int] = SEEN) -> torch.Tensor:
        seen.append(1)
        return x


class CopiesNothing(Own):
    def __deepcopy__(self, memo: Any) -> CopiesNothing:
        return self


class Helper:
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        SEEN.append(1)
        return x


class Quiet:
    """Reaches nothing but what it holds."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(1)
        return x


def holding(*held: Any) -> nn.Module:
    module = Own()
    module.held = held  # type: ignore[assignment]
    return module


def closing() -> nn.Module:
    seen: list[int] = []

    class Closing(Own):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(1)
            return x

    return Closing()


def hooked() -> nn.Module:
    module = Own()
    module.register_forward_hook(lambda *given: None)
    return module


def patched() -> nn.Module:
    module = nn.Linear(3, 2)
    module.forward = noisy  # type: ignore
    return module


@pytest.mark.parametrize(
    "make",
    [
        Own,
        Child,
        lambda: nn.Sequential(nn.Linear(3, 2), Own()),
        lambda: holding(Quiet(), [scaled], {"a": torch.relu}, np.ones(3), torch.float32, "x", 1.5),
    ],
)
def test_what_reaches_nothing(make: Any) -> None:
    assert is_isolated(make())


@pytest.mark.parametrize("name", ["lenet5", "alexnet_small", "resnet20_cifar", "mobilenet_v2"])
def test_the_zoo_reaches_nothing(name: str) -> None:
    assert is_isolated(MODELS[name].factory())


@pytest.mark.parametrize(
    "make",
    [
        Draws,
        DrawsInNumpy,
        Counts,
        Shares,
        Notes,
        OfItsClass,
        OfItsClassToo,
        InItsClass,
        Writes,
        Imports,
        ByDefault,
        CopiesNothing,
        closing,
        hooked,
        patched,
        lambda: holding(Helper()),
        lambda: holding(partial(noisy)),
        lambda: holding([noisy]),
        lambda: holding({"a": noisy}),
        lambda: holding(SEEN.append),
        lambda: holding(random.random),
        lambda: holding(np.random.rand),
        lambda: holding(COUNTER),
    ],
)
def test_what_reaches_beyond_itself(make: Any) -> None:
    assert not is_isolated(make())
    assert not is_isolated(nn.Sequential(nn.Linear(3, 2), make()))
