"""Modules that order, views and writes matter to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Calling(nn.Module):
    """Calls a function with itself, whose parts have names, and with what it is given."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *given: Any) -> Any:
        return self.function(self, *given)


class Linear(Calling):
    """Calls a function with a layer, a buffer and its input."""

    layer: nn.Linear
    norm: nn.BatchNorm1d
    offset: Tensor
    seen: Tensor

    def __init__(self, function: Callable[[Linear, Tensor], Tensor]) -> None:
        super().__init__(function, layer=nn.Linear(4, 4), norm=nn.BatchNorm1d(4))
        self.register_buffer("seen", torch.ones(4))
        self.offset = torch.ones(4)


def twice_transposed(one: Linear, x: Tensor) -> Tensor:
    """Common subexpressions, then read in two ways."""
    x = one.layer(x)
    return torch.sin(x.relu() + x.relu().t())


def twice_broadcast(one: Linear, x: Tensor) -> Tensor:
    x = one.layer(x)
    return torch.sin((x * torch.ones_like(x)) + (x + 0)[:1])


def reads_before_it_writes(one: Linear, x: Tensor) -> Tensor:
    found: Tensor = (one.layer(x) + one.seen).exp()
    one.seen.copy_(x.mean(0) * 3)
    return found


def statistics(one: Linear, x: Tensor) -> Tensor:
    """Those of one normalisation that is used three times, and read in between."""
    x = one.layer(x)
    last = one.norm(one.layer(x * 3))
    first = one.norm(x) * one.norm.running_mean
    found: Tensor = last + first + one.norm(last * 5) * one.norm.running_var
    return found


def starts_with_a_normalisation(one: Linear, x: Tensor) -> Tensor:
    found: Tensor = one.layer(one.norm(x))
    return found


def normalises_a_slice(one: Linear, x: Tensor) -> Tensor:
    x = one.layer(x)
    channels = torch.stack([x, x * 2, x.sin()], 1)
    return functional.batch_norm(channels[:, 1:], None, None, training=True).flatten(1)


def normalises_transposed(one: Linear, x: Tensor) -> Tensor:
    image = one.layer(x).reshape(-1, 1, 2, 2).expand(-1, 3, 2, 2).cumsum(1).transpose(2, 3)
    return functional.batch_norm(image, None, None, training=True).exp().flatten(1)


def writes_into_what_follows_from_constants(one: Linear, x: Tensor) -> Tensor:
    offset = one.offset * 2
    offset.add_(1)
    weight = one.layer.weight * 2
    return torch.relu(x @ weight.abs_()) + offset


def averages_channels_last(one: Linear, x: Tensor) -> Tensor:
    image = one.layer(x).reshape(-1, 4, 1, 1).expand(-1, 4, 2, 3)
    image = image.contiguous(memory_format=torch.channels_last)
    return functional.adaptive_avg_pool2d(image.sin(), 1).flatten(1)


def drops(one: Linear, x: Tensor) -> Tensor:
    """Backward reads masks long after they were drawn."""
    for _ in range(3):
        x = functional.dropout(one.layer(x).tanh(), 0.5, one.training)
    return x


def forgets(one: Linear, x: Tensor) -> Tensor:
    """Computes what nobody reads."""
    for _ in range(4):
        x = one.layer(x).tanh()
        (x + one.seen).exp()
    one.seen.mul_(2)
    return x


FUNCTIONS = (
    twice_transposed,
    twice_broadcast,
    reads_before_it_writes,
    statistics,
    starts_with_a_normalisation,
    normalises_a_slice,
    normalises_transposed,
    writes_into_what_follows_from_constants,
    averages_channels_last,
    drops,
    forgets,
)


def gated() -> nn.Module:
    """Its cell writes in place into what it computed."""
    return nn.GRUCell(4, 4)


def frozen() -> nn.Module:
    """A convolution of which the bias alone learns."""
    convolution = nn.Conv2d(1, 2, 2, padding=1)
    convolution.weight.requires_grad_(False)
    parts = (nn.Linear(4, 4), nn.Unflatten(1, (1, 2, 2)), convolution, nn.ReLU(), nn.Flatten())
    return nn.Sequential(*parts, nn.Linear(18, 4))


MODULES = {"gated": gated, "frozen": frozen}


def made(name: str) -> nn.Module:
    """A module by name, of `MODULES` or of its function; the same weights at every call."""
    torch.manual_seed(0)
    functions = {one.__name__: one for one in FUNCTIONS}
    return MODULES[name]() if name in MODULES else Linear(functions[name])


NAMES = (*(one.__name__ for one in FUNCTIONS), *MODULES)
