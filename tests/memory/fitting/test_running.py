"""A fitted module's passes within autograd: other derivatives, hooks, and threads."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad, functional
from torch.utils.checkpoint import checkpoint

from tests.long import usually
from workbench import memory
from workbench.memory.fitting import Fitted
from workbench.utils.checks import UserError


def perceptron() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 3)
    )


def square(out: Tensor) -> Tensor:
    return out.square().mean()


@pytest.fixture(scope="module")
def planned() -> Fitted:
    """A module with a plan for five samples, for tests that leave nothing in it."""
    return memory.fit(perceptron(), torch.randn(5, 8), "1MB", loss=square)


def gradients(module: nn.Module, train: Callable[[nn.Module], object]) -> list[Tensor]:
    train(module)
    return [one.grad for one in module.parameters() if one.grad is not None]


def penalty(module: nn.Module, x: Tensor) -> object:
    x.requires_grad_()
    (slope,) = torch.autograd.grad(module(x).sum(), x, create_graph=True)
    return (module(x).mean() + (slope.norm(2, 1) - 1).square().mean()).backward()


def dual(module: nn.Module, x: Tensor) -> object:
    with forward_ad.dual_level():
        return module(forward_ad.make_dual(x, torch.ones_like(x)))  # type: ignore[no-untyped-call]


DERIVATIVES: dict[str, Callable[[nn.Module, Tensor], object]] = {
    "gradient penalty": penalty,
    "vectorised jacobian": lambda module, x: functional.jacobian(module, x, vectorize=True),  # type: ignore[no-untyped-call]
    "grad": lambda module, x: torch.func.grad(lambda one: square(module(one)))(x),
    "vmap": lambda module, x: torch.func.vmap(module)(x),
    "several losses": lambda module, x: torch.autograd.grad(
        module(x), [*module.parameters()], torch.ones(2, len(x), 3), is_grads_batched=True
    ),
    "dual": dual,
}


@pytest.mark.parametrize("derivative", DERIVATIVES)
def test_derivatives_that_a_plan_does_not_have_are_refused(
    derivative: str, planned: Fitted
) -> None:
    x = torch.randn(5, 8)
    DERIVATIVES[derivative](perceptron(), x.clone())
    with pytest.raises(UserError, match=r"^Sequential is within a budget and has no "):
        DERIVATIVES[derivative](planned, x.clone())


def reentrant(module: nn.Module, x: Tensor) -> None:
    square(checkpoint(module, x.requires_grad_(), use_reentrant=True)).backward()  # type: ignore[no-untyped-call]


def in_a_hook(module: nn.Module, x: Tensor) -> None:
    def hook(gradient: Tensor) -> None:
        with torch.enable_grad():
            square(module(x)).backward()  # type: ignore[no-untyped-call]

    other = torch.ones(2, requires_grad=True)
    other.register_hook(hook)  # type: ignore[no-untyped-call]
    other.sum().backward()  # type: ignore[no-untyped-call]


class _Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, other: Tensor, train: Callable[[], object]) -> Tensor:
        ctx.train = train
        return other.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        with torch.enable_grad():
            ctx.train()
        return gradients[0], None


def in_a_function(module: nn.Module, x: Tensor) -> None:
    other = torch.ones(2, requires_grad=True)
    _Outer.apply(other, lambda: square(module(x)).backward()).sum().backward()  # type: ignore[no-untyped-call]


def twice_as_deep(module: nn.Module, x: Tensor) -> None:
    other = torch.ones(2, requires_grad=True)
    _Outer.apply(other, lambda: in_a_function(module, x)).sum().backward()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("way", [reentrant, in_a_hook, in_a_function, twice_as_deep])
def test_a_form_is_planned_within_another_backward_pass(
    way: Callable[[nn.Module, Tensor], None], planned: Fitted
) -> None:
    plain, ours = perceptron(), copy.deepcopy(planned)
    x = torch.randn(7, 8)
    wanted, found = (gradients(module, lambda one: way(one, x.clone())) for module in (plain, ours))
    assert len(wanted) == len(found) == 6
    assert all(map(torch.equal, wanted, found))


@pytest.mark.parametrize("count", [5, 7])
def test_hooks_on_saved_tensors_are_refused(count: int, planned: Fitted) -> None:
    ours = copy.deepcopy(planned)
    x = torch.randn(count, 8, requires_grad=True)
    with pytest.raises(UserError, match=r"inside torch\.utils\.checkpoint.*call it outside"):
        checkpoint(ours, x, use_reentrant=False)
    with torch.autograd.graph.save_on_cpu(), pytest.raises(UserError, match="call it outside"):
        ours(x)
    square(ours(x)).backward()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("modules", [1, 2])
def test_threads_that_plan_and_train_have_plain_gradients(modules: int, planned: Fitted) -> None:
    plain = perceptron()
    shared = [copy.deepcopy(planned) for _ in range(modules)]
    begin = threading.Barrier(2)

    def work(number: int) -> list[tuple[Tensor, Tensor]]:
        found = []
        begin.wait()
        for count in (2, 3):
            x = torch.randn(count + 10 * number, 8, requires_grad=True)
            pair = [
                torch.autograd.grad(square(module(x)), x)[0]
                for module in (plain, shared[number % modules])
            ]
            found.append((pair[0], pair[1]))
        return found

    with ThreadPoolExecutor(2) as threads:
        pairs = [pair for found in threads.map(work, range(2)) for pair in found]
    assert all(torch.equal(wanted, found) for wanted, found in pairs)


class Dropping(nn.Module):
    """Homogeneous in its input: the input's gradient times the input is the sum of outputs."""

    def __init__(self, drop: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32, bias=False) for _ in range(4))
        self.drop = drop

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = self.drop(torch.relu(layer(x)))
        return x


DRAWS: dict[str, Callable[[Tensor], Tensor]] = {
    "dropout": nn.Dropout(0.5),
    "features": nn.Dropout1d(0.3),
    "bernoulli": lambda x: x * torch.bernoulli(torch.full_like(x, 0.5)),
    "samples": lambda x: x * (torch.rand(len(x), 1) < 0.7),
    "noise": lambda x: x * torch.randn_like(x),
    "leaks": lambda x: nn.functional.rrelu(x - x.mean(), training=True),
}


@pytest.mark.parametrize("draw", usually(("dropout", "samples", "leaks"), DRAWS))
def test_masks_are_those_of_the_forward_pass_though_another_thread_draws(
    draw: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(256, 32, requires_grad=True)
    largest = memory.fit(Dropping(DRAWS[draw]), x, "1GB", loss=torch.sum)
    ours = memory.fit(largest, x, largest.fit.step.least_bytes, loss=torch.sum)
    assert ours.fit.again_s > 0
    look = torch.get_rng_state

    def interrupted() -> Tensor:
        state = look()
        torch.rand(3)
        return state

    monkeypatch.setattr(torch, "get_rng_state", interrupted)
    out = ours(x).sum()
    torch.rand(3)
    out.backward()
    assert x.grad is not None
    torch.testing.assert_close((x.grad * x).sum(), out)


CHANGES: dict[str, Callable[[Tensor, nn.Module], object]] = {
    "array": lambda x, _: x.numpy().fill(0),
    "samples in another order": lambda x, _: np.copyto(x.numpy(), x.numpy()[::-1].copy()),
    "features in another order": lambda x, _: np.copyto(x.numpy(), x.numpy()[:, ::-1].copy()),
    "one number": lambda x, _: x.numpy().put(7, 9.0),
    "weight": lambda _, module: module.get_parameter("0.weight").data.add_(0.1),
    "one number of a row": lambda x, _: x.data[3, :2].add_(1e-6),
}


@pytest.fixture(scope="module")
def plans() -> tuple[Fitted, Fitted]:
    """The same module: nothing is computed again, and as much as can be."""
    layers = [layer for _ in range(4) for layer in (nn.Linear(32, 32), nn.Tanh())]
    largest = memory.fit(nn.Sequential(*layers), torch.randn(256, 32), "1GB", loss=square)
    least = largest.fit.step.least_bytes
    return largest, memory.fit(largest, torch.randn(256, 32), least, loss=square)


@pytest.mark.parametrize("change", CHANGES)
def test_values_that_change_unnoticed_by_pytorch_are_not_computed_from(
    change: str, plans: tuple[Fitted, Fitted]
) -> None:
    largest, least = map(copy.deepcopy, plans)
    plain = copy.deepcopy(largest.plain)
    x = torch.randn(256, 32)

    def train(module: nn.Module) -> None:
        own = x.clone()
        loss = square(module(own))
        CHANGES[change](own, module)
        loss.backward()  # type: ignore[no-untyped-call]

    wanted, found = (gradients(module, train) for module in (plain, largest))
    assert all(map(torch.equal, wanted, found))
    with pytest.raises(UserError, match="change it after the backward pass"):
        train(least)
