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


class Complex(Calling):
    """Calls a function with complex numbers made of its input; scores of what it returns."""

    first: nn.Linear
    a: Tensor
    w: Tensor
    rotation: Tensor

    def __init__(self, function: Callable[[Complex, Tensor], Tensor]) -> None:
        parts = {"first": nn.Linear(8, 8), "last": nn.Linear(8, 3)}
        super().__init__(function, **parts)
        self.a = nn.Parameter(torch.randn(8, dtype=torch.cfloat))
        self.w = nn.Parameter(torch.randn(8, 8, dtype=torch.cfloat) / 3)
        self.register_buffer("rotation", torch.polar(torch.ones(8), torch.arange(8.0)).conj())

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x.real) * x if x.is_complex() else torch.complex(self.first(x), x.sin())
        scores: Tensor = self.last(self.function(self, x).tanh())  # type: ignore[operator]
        return scores


def fourier(m: Complex, z: Tensor) -> Tensor:
    """Lowest frequencies alone, each with a weight of its own, as Fourier neural operators do."""
    frequencies = torch.fft.rfft(z.real)
    kept = torch.zeros(len(z), 5, dtype=torch.cfloat)
    kept[:, :3] = frequencies[:, :3] @ m.w[:3, :3]
    filtered: Tensor = torch.fft.irfft(kept, n=8)
    return filtered


def written_conjugated(m: Complex, z: Tensor) -> Tensor:
    z = z.clone()
    z.conj().mul_(m.a)
    return z.imag


COMPLEX: dict[str, Callable[[Complex, Tensor], Tensor]] = {
    "products": lambda m, z: (z * m.a * m.a.conj() @ m.w).real,
    "a negated view": lambda m, z: (z * m.a).conj().imag,
    "adjoints": lambda m, z: (z @ (m.w @ m.w.mH) @ m.w.conj()).real,
    "rotated": lambda m, z: torch.view_as_real(z * m.rotation).flatten(1)[:, 4:12],
    "filtered": lambda m, z: torch.fft.irfft(torch.fft.rfft(z.real) * m.a[:5].conj(), n=8),
    "fourier": fourier,
    "eigenvalues": lambda m, z: z.real * torch.linalg.eigvals(m.w.real).abs().sum(),
    "chosen": lambda m, z: torch.where(z.real > 0, z * m.a, z.conj()).abs(),
    "joined": lambda m, z: torch.cat([z[:, :3].conj(), (z * m.a)[:, 3:]], 1).imag,
    "written conjugated": written_conjugated,
    "solved": lambda m, z: torch.linalg.solve(m.w.mH + 3 * torch.eye(8), z.mT).mT.imag,
    "orthogonal": lambda m, z: (z @ torch.linalg.qr(m.w)[0]).abs(),
    "determinant": lambda m, z: z.imag * torch.linalg.det(m.w).abs(),
    "stacked": lambda m, z: torch.stack([z.conj(), (z * m.a).conj()]).imag.sum(0),
    "summed by indices": lambda m, z: torch.einsum("bi,ij,bj->bj", z.conj(), m.w.mH, z).real,
    "in two dimensions": lambda m, z: torch.fft.ifft2((z * m.a).conj()).imag,
}
"""Where PyTorch conjugates or negates lazily."""


def complex_module(name: str) -> tuple[nn.Module, Tensor]:
    """A module with complex weights, and a batch of four."""
    torch.manual_seed(0)
    return Complex(COMPLEX[name]), torch.randn(4, 8)
