"""A module within a budget trains as plain PyTorch does, bit for bit, and keeps the budget."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.long import usually
from tests.memory.tracing.modules import COMPLEX, Calling, complex_module
from tests.refusals import refusals
from workbench import memory
from workbench.memory.dataflow import dataflow
from workbench.memory.fitting import Fitted
from workbench.memory.fitting.loss import usual_loss
from workbench.memory.fitting.module import plain_of
from workbench.memory.fitting.planning import step_of
from workbench.memory.fitting.profile import Profile, profiled
from workbench.memory.measured import allocations
from workbench.memory.recomputation import BudgetError, least_bytes
from workbench.profiles.graph import OperatorGraph
from workbench.profiles.recorder import tensors_in
from workbench.utils.checks import UserError

Make = Callable[[], nn.Module]


def perceptron() -> nn.Module:
    layers = [layer for _ in range(4) for layer in (nn.Linear(32, 32), nn.Tanh(), nn.Dropout(0.2))]
    return nn.Sequential(*layers, nn.Linear(32, 4))


def convolutional() -> nn.Module:
    layers = [
        layer
        for _ in range(4)
        for layer in (nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
    ]
    return nn.Sequential(*layers, nn.Dropout(0.3), nn.Flatten(), nn.Linear(4 * 64, 4))


def tied() -> nn.Module:
    """A weight for two layers, one that is frozen, and one that is not reached."""

    def function(m: Any, x: Tensor) -> Any:
        x = functional.gelu(m.frozen(torch.tanh(m.first(x))))
        return m.last(torch.tanh(m.second(x)).sin().cos())

    first, second = nn.Linear(32, 32), nn.Linear(32, 32, bias=False)
    second.weight = first.weight
    others = {"unreached": nn.Linear(2, 2), "last": nn.Linear(32, 4)}
    frozen = nn.Linear(32, 32).requires_grad_(False)
    return Calling(function, first=first, second=second, frozen=frozen, **others)


class Attention(nn.Module):
    """A block of a transformer, whose outputs are a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(16, 32), nn.LayerNorm(32)
        self.mixed, self.out, self.drop = nn.Linear(32, 96), nn.Linear(32, 32), nn.Dropout(0.1)
        self.scores = nn.Linear(32, 16, bias=False)
        self.scores.weight = self.embedding.weight

    def forward(self, tokens: Tensor, *, scale: float = 1.0) -> dict[str, Any]:
        x = self.embedding(tokens)
        for _ in range(3):
            parts = self.mixed(self.norm(x)).view(*x.shape[:2], 3, 4, 8).transpose(1, 3)
            query, key, value = parts.unbind(2)
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.drop(self.out(mixed.transpose(1, 2).flatten(2))) * scale
        return {"logits": self.scores(x), "last": x, "layers": 3}


def features(count: int = 512) -> tuple[Tensor, Tensor]:
    return torch.randn(count, 32), torch.randint(0, 4, (count,))


def images(count: int = 32) -> tuple[Tensor, Tensor]:
    return torch.randn(count, 4, 8, 8), torch.randint(0, 4, (count,))


def tokens(count: int = 16) -> tuple[Tensor, Tensor]:
    found = torch.randint(0, 16, (count, 33))
    return found[:, :-1].contiguous(), found[:, 1:]


KINDS: dict[str, tuple[Make, Callable[..., tuple[Tensor, Tensor]]]] = {
    "perceptron": (perceptron, features),
    "convolutional": (convolutional, images),
    "tied": (tied, features),
    "attention": (Attention, tokens),
}


FEW_KINDS = ("convolutional", "attention")


def loss_of(returned: Any, y: Tensor) -> Tensor:
    scores = returned["logits"] if isinstance(returned, dict) else returned
    return functional.cross_entropy(scores.flatten(0, -2), y.flatten())


def made(kind: str) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    make, draw = KINDS[kind]
    return make(), *draw()


@cache
def plain_bytes(kind: str) -> int:
    """What a step of plain PyTorch takes."""
    module, x, y = made(kind)
    loss = partial(loss_of, y=y)
    return step_of(module, (x,), {}, loss, "adamw", timed=False).plain_bytes


def fitted(module: nn.Module, x: Tensor, y: Tensor, budget: float) -> Fitted:
    """Within a budget, or else the least."""
    loss = partial(loss_of, y=y)
    try:
        return memory.fit(module, x, max(1, int(budget)), loss=loss)
    except BudgetError as error:
        least = error.found_bytes
    assert least is not None
    return memory.fit(module, x, least, loss=loss)


def step(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    torch.manual_seed(7)
    loss = loss_of(module(x), y)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach()


def trained(
    module: nn.Module, x: Tensor, y: Tensor, optimizer: torch.optim.Optimizer, losses: list[Tensor]
) -> None:
    losses.append(step(module, x, y))
    optimizer.step()


def same(one: nn.Module, other: nn.Module) -> None:
    """Gradients, or that there is none, parameters and statistics, bit for bit."""
    pairs = zip(one.named_parameters(), other.named_parameters(), strict=True)
    for (name, first), (other_name, second) in pairs:
        assert name == other_name
        assert (first.grad is None) == (second.grad is None), name
        assert first.grad is None or second.grad is None or torch.equal(first.grad, second.grad)
        assert torch.equal(first, second), name
    states = (one.state_dict(), other.state_dict())
    assert [*states[0]] == [*states[1]]
    for key, tensor in states[0].items():
        assert torch.equal(tensor, states[1][key]), key


def both(kind: str, share: float = 0.6) -> tuple[nn.Module, Fitted, Tensor, Tensor]:
    """A plain module, and a copy of it within a share of what plain PyTorch takes."""
    module, x, y = made(kind)
    return module, fitted(copy.deepcopy(module), x, y, share * plain_bytes(kind)), x, y


@pytest.mark.parametrize("share", usually([0.5], [1.2, 0.5, 0.0]))
@pytest.mark.parametrize("kind", KINDS)
def test_training_is_plain_pytorchs_and_within_the_budget(kind: str, share: float) -> None:
    plain, ours, x, y = both(kind, share)
    seen = []
    for module in (plain, ours):
        optimizer = torch.optim.AdamW(module.parameters(), 0.01)
        losses: list[Tensor] = []
        peaks = list[int]()

        for _ in range(3):
            optimizer.zero_grad()
            state = [one for state in optimizer.state.values() for one in state.values()]
            held = {
                one.untyped_storage().data_ptr(): one.untyped_storage().nbytes()
                for one in (*module.parameters(), *module.buffers(), *state, x)
            }
            run = partial(trained, module, x, y, optimizer, losses)
            peaks.append(sum(held.values()) + allocations([run])[0])
            seen.append((losses, torch.get_rng_state()))
        if module is ours:
            assert max(peaks) <= ours.fit.budget_bytes
            assert max(peaks) >= 0.95 * ours.fit.peak_bytes
    assert seen[2][0] == seen[5][0]
    assert torch.equal(seen[2][1], seen[5][1])
    same(plain, ours)


@pytest.mark.parametrize("kind", usually(FEW_KINDS, KINDS))
def test_less_memory_is_computed_again(kind: str) -> None:
    _, ours, _, _ = both(kind, 0.0)
    fit = ours.fit
    assert 0 < fit.again_s < fit.step_s
    assert re.search(
        r"used of a .* budget \(plain: .*\), recomputing about .* timed alone", repr(fit)
    )
    with pytest.raises(BudgetError, match="does not train within") as refused:
        fit.step.plan(fit.step.least_bytes // 2)
    assert refused.value.found_bytes == fit.step.least_bytes
    assert "parameters and buffers" in str(refused.value)


@pytest.mark.parametrize("kind", usually(FEW_KINDS, KINDS))
def test_evaluation_and_no_gradients_are_the_plain_modules(kind: str) -> None:
    plain, ours, x, y = both(kind)
    for module in (plain, ours):
        step(module, x, y)
        module.eval()
    same(plain, ours)
    with torch.no_grad():
        wanted, found = plain(x), ours(x)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    for module in (plain, ours):
        step(module, x, y)
        module.train()
        step(module, x, y)
    same(plain, ours)


def test_other_batches_are_planned_again() -> None:
    plain, ours, _, _ = both("convolutional")
    for count in (32, 5, 32):
        x, y = images(count)
        for module in (plain, ours):
            step(module, x, y)
    same(plain, ours)


@pytest.mark.parametrize("kind", usually(FEW_KINDS, KINDS))
def test_gradients_add_up_within_the_budget(kind: str) -> None:
    plain, ours, x, y = both(kind, 1.0)
    for module in (plain, ours):
        step(module, x, y)
        step(module, x, y)
    same(plain, ours)


def test_two_forward_passes_before_the_backward_passes() -> None:
    plain, ours, x, y = both("convolutional", 2.5)
    for module in (plain, ours):
        torch.manual_seed(3)
        both_losses = loss_of(module(x), y) + 2 * loss_of(module(x * 2), y)
        both_losses.backward()  # type: ignore[no-untyped-call]
    same(plain, ours)


def test_a_pass_that_waits_counts() -> None:
    _, ours, x, y = both("perceptron", 0.7)
    waiting = ours(x)
    with pytest.raises(BudgetError, match="does not train within"):
        ours(x)
    del waiting
    step(ours, x, y)


@pytest.mark.parametrize(
    ("look", "error", "where"),
    [
        (lambda model: model[0], TypeError, r"model\.plain\[…\]"),
        (lambda model: model[:2], TypeError, r"model\.plain\[…\]"),
        (list, TypeError, r"model\.plain"),
        (len, TypeError, r"len\(model\.plain\)"),
        (lambda model: model.append(nn.Tanh()), AttributeError, r"model\.plain\.append"),
    ],
)
def test_what_only_the_plain_module_has_is_refused_with_its_place(
    look: Callable[[Any], object], error: type[Exception], where: str
) -> None:
    model = memory.fit(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), torch.randn(8, 4), "1MB")
    with pytest.raises(error, match=where):
        look(model)
    assert model
    assert not hasattr(model, "append")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        model.nothing  # noqa: B018


def test_inputs_that_need_gradients() -> None:
    module, x, y = made("perceptron")
    x.requires_grad_()
    ours = fitted(copy.deepcopy(module), x, y, 0.6 * plain_bytes("perceptron"))
    own = x.detach().clone().requires_grad_()
    step(module, x, y)
    step(ours, own, y)
    assert x.grad is not None
    assert own.grad is not None
    assert torch.equal(x.grad, own.grad)
    step(ours, own.detach(), y)


def test_parameters_that_are_frozen_later() -> None:
    plain, ours, x, y = both("convolutional")
    for module in (plain, ours):
        next(module.parameters()).requires_grad_(False)
        step(module, x, y)
    same(plain, ours)
    assert next(ours.parameters()).grad is None


def test_outputs_that_nothing_leads_to_any_more() -> None:
    plain = calling(lambda one, x: (one.second(one.first(x)), one.first(x)))
    ours: Any = memory.fit(copy.deepcopy(plain), torch.randn(64, 32), "1MB", loss=squares)
    x = torch.randn(64, 32)
    for module in (plain, ours):
        for parameter in module.first.parameters():
            parameter.requires_grad_(False)
        squares(module(x)).backward()  # type: ignore[no-untyped-call]
    same(plain, ours)


def scaled(one: Any, x: Tensor) -> Tensor:
    x = one.first(x) * one.scale * one.options["scale"] * one.config.scale * float(one.weights[0])
    found: Tensor = one.activation(functional.dropout(one.rest[0](one.second(x)), one.drop.p))
    return found


def scaling() -> Any:
    module: Any = calling(scaled)
    module.scale, module.options, module.weights = 1, {"scale": 1.0}, np.ones(2000)
    module.config, module.rest = SimpleNamespace(scale=1.0), [nn.Dropout(0.1)]
    module.drop, module.activation = nn.Dropout(0.1), nn.Tanh()
    return module


CHANGES: dict[str, Callable[[Any], None]] = {
    "probability": lambda one: setattr(one.drop, "p", 0.9),
    "layer": lambda one: setattr(one, "activation", nn.Sigmoid()),
    "attribute": lambda one: setattr(one, "scale", 3),
    "its type": lambda one: setattr(one, "scale", True),
    "dictionary": lambda one: one.options.update(scale=2.0),
    "object": lambda one: setattr(one.config, "scale", 2.0),
    "array": lambda one: one.weights.__setitem__(0, 3.0),
    "function": lambda one: setattr(one, "function", lambda one, x: one.second(x)),
    "part in a list": lambda one: setattr(one.rest[0], "p", 0.9),
    "tie": lambda one: setattr(one.second, "weight", one.first.weight),
}


@pytest.mark.parametrize(
    "change", usually(("probability", "layer", "its type", "object", "tie"), CHANGES)
)
def test_changed_attributes_are_planned_again(change: str) -> None:
    torch.manual_seed(0)
    plain, x = scaling(), torch.randn(64, 32)
    ours = memory.fit(copy.deepcopy(plain), x, "1MB", loss=squares)
    before = ours.fit
    squares(ours(x)).backward()  # type: ignore[no-untyped-call]
    ours.zero_grad()
    assert ours.fit is before
    for module in (plain, ours):
        CHANGES[change](plain_of(module))
        torch.manual_seed(1)
        squares(module(x)).backward()  # type: ignore[no-untyped-call]
    assert ours.fit.step is not before.step
    same(plain, ours)


@pytest.mark.parametrize("count", [1, 3])
def test_a_changed_count_of_outputs_is_planned_again(count: int) -> None:
    plain = calling(lambda one, x: [one.first(x).tanh() * k for k in range(1, one.count + 1)])
    plain.count, x = 2, torch.randn(64, 32)
    ours = memory.fit(copy.deepcopy(plain), x, "1MB", loss=squares)
    for module in (plain, ours):
        part: Any = plain_of(module)
        part.count = count
        squares(module(x)[:2]).backward()  # type: ignore[no-untyped-call]
    same(plain, ours)


PARTS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "attribute": lambda part: calling(lambda one, x: one.part(one.first(x)), part=part),
    "sequence": lambda part: nn.Sequential(nn.Linear(32, 32), nn.ReLU(), part),
    "list": lambda part: calling(
        lambda one, x: one.parts[0](one.first(x)), parts=nn.ModuleList([part])
    ),
}


@pytest.mark.parametrize("place", PARTS)
def test_a_part_within_a_budget_trains_as_plain_pytorchs_and_its_whole_is_refused(
    place: str,
) -> None:
    part = nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.2), nn.Linear(32, 32), nn.Tanh())
    plain, x = PARTS[place](part), torch.randn(64, 32)
    ours = PARTS[place](memory.fit(copy.deepcopy(part), x, "1MB", loss=squares))
    ours.load_state_dict(plain.state_dict())
    for module in (plain, ours):
        optimizer = torch.optim.AdamW(module.parameters(), 0.01)
        for _ in range(2):
            torch.manual_seed(1)
            squares(module(x)).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    same(plain, ours)
    for budget in ("100%", "1MB"):
        with pytest.raises(UserError, match=r"has a part '.*' that is within a budget already"):
            memory.fit(ours, x, budget, loss=squares)


def test_weights_of_a_functional_call_get_the_gradients() -> None:
    plain, ours, x, y = both("perceptron")
    for module in (plain, ours):
        torch.manual_seed(1)
        doubled = {name: 2 * one for name, one in module.named_parameters()}
        loss_of(torch.func.functional_call(module, doubled, (x,)), y).backward()  # type: ignore[no-untyped-call]
    same(plain, ours)


@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
def test_copies_train_alone(way: str) -> None:
    plain, ours, x, y = both("convolutional")

    other = copy.deepcopy(ours) if way == "deepcopy" else pickle.loads(pickle.dumps(ours))
    step(plain, x, y)
    step(other, x, y)
    same(plain, other)
    assert all(parameter.grad is None for parameter in ours.parameters())
    other.load_state_dict(plain.state_dict())


def test_hooks_on_parameters_and_on_the_whole() -> None:
    plain, ours, x, y = both("perceptron")
    seen: list[list[Tensor]] = []
    for module in (plain, ours):
        found: list[Tensor] = []
        seen.append(found)
        module.register_forward_hook(lambda *about, found=found: found.append(about[2].detach()))
        module.register_full_backward_hook(lambda *about, found=found: found.append(about[2][0]))
        weight = next(module.parameters())
        weight.register_hook(lambda gradient: gradient * 2)  # type: ignore[no-untyped-call]
        weight.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
            lambda one, found=found: found.append(one.grad.clone())
        )
        step(module, x, y)
    same(plain, ours)
    assert len(seen[0]) == len(seen[1]) == 3
    assert all(map(torch.equal, *seen))


def test_weights_that_change_before_the_backward_pass_are_refused() -> None:
    for module in both("perceptron")[:2]:
        x, y = features()
        loss = loss_of(module(x), y)
        with torch.no_grad():
            module.get_parameter("0.weight").add_(1)
            module.get_parameter("3.weight").add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()  # type: ignore[no-untyped-call]


def test_outputs_may_be_written_where_they_are_not_needed() -> None:
    plain, ours, x, y = both("perceptron")
    for module in (plain, ours):
        torch.manual_seed(1)
        out = module(x)
        out.mul_(2)
        loss_of(out, y).backward()  # type: ignore[no-untyped-call]
    same(plain, ours)
    ending = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid())
    ours = memory.fit(ending, torch.randn(8, 4), "1MB")
    out = ours(torch.randn(8, 4))
    out.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an in-place operation"):
        out.sum().backward()


def test_second_backward_passes_are_refused() -> None:
    _, ours, x, y = both("perceptron")
    loss = loss_of(ours(x), y)
    loss.backward(retain_graph=True)  # type: ignore[no-untyped-call]
    with pytest.raises(ValueError, match="run the forward pass again"):
        loss.backward()  # type: ignore[no-untyped-call]


def test_another_loss_than_the_planned_is_refused() -> None:
    _, ours, x, _ = both("attention")
    with pytest.raises(ValueError, match=r"give fit\(…, loss=…\)"):
        ours(x)["last"].sum().backward()


def test_attributes_and_modes_are_the_modules() -> None:
    module, x, _ = made("convolutional")
    ours = memory.fit(module, x, "1GB")
    assert ours.get_submodule("0") is module.get_submodule("0")
    assert [*ours.parameters()] == [*module.parameters()]
    assert not ours.eval().training
    assert not any(part.training for part in module.modules())
    with pytest.raises(AttributeError):
        ours.nothing  # noqa: B018
    assert ours.plain is module
    plain: Any = module
    plain.rate = 1
    with pytest.raises(UserError, match=r"set it there, as in model\.plain\.rate = …"):
        ours.rate = 2
    assert plain.rate == 1
    ours.double()
    assert module.get_parameter("0.weight").dtype == torch.float64
    step(ours, x.double(), torch.zeros(len(x), dtype=torch.int64))


WHOLE: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "linear": lambda: (nn.Linear(8, 3), torch.randn(2, 8)),
    "convolution of volumes": lambda: (
        nn.Sequential(nn.Conv3d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(864, 3)),
        torch.randn(4, 1, 8, 8, 8),
    ),
    "one sample": lambda: (
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten()),
        torch.randn(1, 3, 8, 8),
    ),
    "embedding": lambda: (nn.Embedding(50, 16), torch.randint(0, 50, (2, 3))),
    "LSTM": lambda: (nn.LSTM(8, 16), torch.randn(8, 2, 8)),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_all_of_the_memory_is_a_budget_that_is_met(kind: str) -> None:
    module, x = WHOLE[kind]()
    fit = memory.fit(module, x, "100%", loss=squares).fit
    assert fit.peak_bytes <= fit.budget_bytes
    assert not fit.again_s


def test_autocast_is_refused() -> None:
    _, ours, x, _ = both("perceptron")
    with torch.autocast("cpu"), pytest.raises(ValueError, match="autocast is on"):
        ours(x)


def test_shares_are_of_plain_pytorchs_peak() -> None:
    module, x, _ = made("perceptron")
    whole = memory.fit(module, x, "100%").fit.budget_bytes
    held = sum(one.nbytes for one in (*module.parameters(), *module.buffers(), x))
    state = 2 * sum(one.nbytes for one in module.parameters())
    (allocated,) = allocations([lambda: usual_loss(module(x)).backward()])  # type: ignore[no-untyped-call]
    assert held + state + allocated == pytest.approx(whole, rel=0.02)
    assert memory.fit(module, x, " 75.5 % ").fit.budget_bytes == int(0.755 * whole)
    assert memory.fit(module, x, "1MB").fit.budget_bytes == 10**6


@pytest.mark.parametrize("kind", usually(["convolutional"], ["perceptron", "convolutional"]))
def test_the_largest_batch_is_within_the_budget_and_one_more_is_not(kind: str) -> None:
    module, x, _ = made(kind)
    budget = memory.fit(module, x, "75%").fit.budget_bytes
    most = memory.largest_batch(module, x, budget)
    _, draw = KINDS[kind]
    x, y = draw(most)
    ours = memory.fit(module, x, budget)
    (allocated,) = allocations([lambda: step(ours, x, y)])
    assert allocated <= budget - sum(one.nbytes for one in (*module.parameters(), x))
    more = step_of(module, (draw(most + 1)[0],), {}, usual_loss, "adamw")
    assert not more.is_within(budget)
    with pytest.raises(BudgetError, match="not one sample"):
        memory.largest_batch(module, x, 1000)


def test_no_operator_runs_that_needs_more_than_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The search for the largest batch doubles it; what is too large is never run."""
    seen: list[int] = []

    def noting(graph: OperatorGraph, *rest: Any, **options: Any) -> Profile:
        seen.append(least_bytes(dataflow(graph, 1)))
        return profiled(graph, *rest, **options)

    monkeypatch.setattr("workbench.memory.fitting.planning.profiled", noting)
    module, x = nn.Sequential(nn.Linear(32, 4), nn.Tanh()), torch.randn(100, 32)
    assert memory.largest_batch(module, x, "50kB", optimizer="sgd") > 100
    assert max(seen) <= 50_000
    with pytest.raises(UserError, match="of this machine"):
        memory.largest_batch(module, x, "900TB")


def calling(function: Callable[..., Any], **parts: nn.Module) -> Any:
    """Calls a function with itself, two layers, a buffer and a number among its parts."""
    layers = {"first": nn.Linear(32, 32), "second": nn.Linear(32, 32)}
    module = Calling(function, **layers, **parts, count=0)
    module.register_buffer("seen", torch.zeros(32))
    return module


def noisy(one: Any, x: Tensor) -> Tensor:
    for _ in range(4):
        x = torch.tanh(one.first(x)) + 0.1 * torch.randn_like(x) + torch.rand(32)
        x = functional.alpha_dropout(torch.selu(one.second(x)), 0.1, training=True)
    return x


def returning_all(one: Any, x: Tensor) -> tuple[Tensor, ...]:
    """Views, what it is given, and what it holds and writes into."""
    y = one.first(x)
    one.seen.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
    return y, x, y[:, 0], one.seen, one.second.weight, y.argmax(1)


def counting(one: Any, x: Tensor) -> Any:
    one.count += 1
    return one.first(x)


def assigning(one: Any, x: Tensor) -> Any:
    one.seen = 0.9 * one.seen + 0.1 * x.mean(0)
    return one.first(x)


def in_channels_last() -> tuple[nn.Module, Tensor]:
    layers = [
        layer
        for _ in range(3)
        for layer in (
            nn.Conv2d(4, 4, 3, padding=1, groups=2),
            nn.GroupNorm(2, 4),
            nn.Dropout2d(0.2),
            nn.SiLU(),
        )
    ]
    module = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    x = torch.randn(16, 4, 16, 16).to(memory_format=torch.channels_last)
    return module.to(memory_format=torch.channels_last), x  # type: ignore[call-overload]


def normalised(m: Any, x: Tensor) -> Tensor:
    """A normalisation of a view, whose kernel lays out as it likes what is drawn and added up."""
    for _ in range(2):
        x = m.norm((x * m.scale).transpose(1, 2)).transpose(1, 2)
        x = x + x.mean(1, keepdim=True).expand_as(x) + 0.1 * torch.randn_like(x)
    return x


def gradient_of(m: Any, x: Tensor) -> Tensor:
    found: Tensor = torch.func.grad(lambda one: m.second(m.first(one).tanh()).sin().sum())(x)
    return found


def normalising() -> nn.Module:
    return Calling(normalised, norm=nn.BatchNorm1d(32), scale=nn.Parameter(torch.ones(32)))


def with_a_part_twice() -> nn.Module:
    norm = nn.BatchNorm1d(32)
    return nn.Sequential(norm, nn.Linear(32, 32), norm, nn.Tanh())


def parametrized() -> nn.Module:
    first = nn.utils.parametrizations.weight_norm(nn.Linear(32, 32))
    last = nn.utils.parametrizations.spectral_norm(nn.Linear(32, 8))
    return nn.Sequential(first, nn.Tanh(), last)


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)


def complex_parts() -> nn.Module:
    """Returns conjugated numbers, and an imaginary part that shares its memory with the real."""
    weights = {name: nn.Parameter(torch.randn(8, dtype=torch.cfloat)) for name in ("a", "b")}

    def function(m: Any, z: Tensor) -> Any:
        z = z * m.a
        part = (z * m.b).imag
        return z.conj(), part, part.square().mean()

    return Calling(function, **weights)


OTHERS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "random numbers": lambda: (calling(noisy), torch.randn(128, 32)),
    "views and what is given": lambda: (calling(returning_all), torch.randn(128, 32)),
    "channels last": in_channels_last,
    "normalised": lambda: (normalising(), torch.randn(4, 9, 32)),
    "a part twice": lambda: (with_a_part_twice(), torch.randn(64, 32)),
    "parametrized": lambda: (parametrized(), torch.randn(64, 32)),
    "encoder": lambda: (transformer(), torch.randn(4, 8, 32)),
    "double": lambda: (perceptron().double(), torch.randn(64, 32, dtype=torch.float64)),
    "bfloat16": lambda: (perceptron().bfloat16(), torch.randn(64, 32, dtype=torch.bfloat16)),
    "GRU": lambda: (nn.GRU(8, 16, batch_first=True), torch.randn(8, 5, 8)),
    "LSTM": lambda: (nn.LSTM(8, 16, 2, bidirectional=True, dropout=0.2), torch.randn(8, 12, 8)),
    "LSTM with a projection": lambda: (nn.LSTM(8, 16, proj_size=4), torch.randn(4, 12, 8)),
    "its own gradient": lambda: (calling(gradient_of), torch.randn(64, 32)),
    "embedding of bounded norms": lambda: (
        nn.Sequential(nn.Embedding(9, 8, max_norm=0.5), nn.Linear(8, 8), nn.Tanh()),
        torch.randint(0, 9, (16, 6)),
    ),
    "RNN": lambda: (nn.RNN(8, 16, batch_first=True), torch.randn(8, 12, 8)),
    "complex outputs": lambda: (complex_parts(), torch.randn(16, 8, dtype=torch.cfloat)),
    "conjugated inputs": lambda: (complex_parts(), torch.randn(16, 8, dtype=torch.cfloat).conj()),
    **{f"complex: {name}": partial(complex_module, name) for name in COMPLEX},
}


USUAL = (
    "random numbers",
    "views and what is given",
    "channels last",
    "encoder",
    "bfloat16",
    "LSTM with a projection",
    "its own gradient",
    "embedding of bounded norms",
    "complex outputs",
    "complex: solved",
)


def squares(returned: Any) -> Tensor:
    outputs = tensors_in(returned)
    real = [torch.view_as_real(one.resolve_conj()) if one.is_complex() else one for one in outputs]
    learnt = [output.float().square().mean() for output in real if output.requires_grad]
    return torch.stack(learnt).sum()


@pytest.mark.parametrize("kind", usually(USUAL, OTHERS))
def test_modules_of_other_kinds(kind: str) -> None:
    torch.manual_seed(0)
    plain, x = OTHERS[kind]()
    largest = memory.fit(copy.deepcopy(plain), x, "1GB", loss=squares)
    least = memory.fit(copy.deepcopy(plain), x, largest.fit.step.least_bytes, loss=squares)
    for module in (plain, largest, least):
        for _ in range(2):
            module.zero_grad()
            torch.manual_seed(3)
            squares(module(x)).backward()  # type: ignore[no-untyped-call]
    same(plain, largest)
    same(plain, least)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: calling(counting), "changes 'count' in its forward pass"),
        (lambda: calling(assigning), "changes 'seen' in its forward pass"),
        (lambda: nn.BatchNorm1d(32, momentum=None), "depends on data"),
        (lambda: calling(lambda one, x: one.first(x).detach()), "nothing that has a gradient"),
        (lambda: calling(lambda one, x: [object(), one.first(x)]), "an object of object"),
    ],
)
def test_modules_that_a_plan_would_change_are_refused(make: Make, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        memory.fit(make(), torch.randn(4, 32), "1GB")


def with_a_hook() -> nn.Module:
    module = perceptron()
    module.get_submodule("1").register_forward_hook(lambda *_: None)
    return module


BATCH = torch.randn(512, 32)
MISFIT = "the input does not fit Sequential.*Give what the module is called with"
WRONG: dict[str, dict[str, list[Any]]] = {
    "model": {
        "every parameter of Linear is frozen": [nn.Linear(32, 4).requires_grad_(False)],
        "ReLU has no parameters": [nn.ReLU()],
        "Linear is on meta": [nn.Linear(32, 4, device="meta")],
        "has a hook on '1'": [with_a_hook()],
        r"in its forward \(test_fitting.py, line .*choose by torch.where": [
            calling(lambda one, x: one.first(x) if x.square().sum() > 0 else x)
        ],
        "returns no tensor": [calling(lambda one, x: None)],
    },
    "inputs": {
        "without a tensor; give what the module is called with": [
            BATCH.numpy(), None, 3, (64, 16), {}, "x",
        ],
        "inputs are on meta": [BATCH.to("meta")],
        "the first input has no samples": [BATCH[:0], torch.tensor(1.0)],
        MISFIT: [
            BATCH.long(), BATCH[:, :3], {"y": BATCH}, (BATCH, BATCH),
        ],
    },
    "budget": {
        "give 1% to 100%": ["0%", "101%"],
        "is no budget": ["many", ""],
        "a whole number": [-1, None],
        "a share as text, as in '50%'": [0.5],
    },
    "loss": {
        "give a function of what the module returns": ["mse"],
        "labels are its own": [lambda outputs, labels: 0, lambda outputs: outputs.nothing],
        "a tensor of one number": [lambda outputs: outputs, lambda outputs: 1.0],
        "the loss has no gradient": [lambda outputs: outputs.detach().sum()],
    },
    "optimizer": {"unknown optimizer": ["banana"]},
}  # fmt: skip
LAYERS = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4))
GOOD: dict[str, Any] = {"model": LAYERS, "inputs": BATCH, "loss": squares}
test_fit_refuses = refusals(memory.fit, GOOD | {"budget": "100%"}, WRONG)
test_largest_batch_refuses = refusals(
    memory.largest_batch,
    GOOD | {"budget": 100_000},
    {"model": {"has a hook on '1'": [with_a_hook()]}, "optimizer": WRONG["optimizer"]},
)


@pytest.mark.parametrize("argument", [np.ones(2000), object(), [nn.Tanh()]])
def test_arguments_other_than_tensors_and_numbers_are_refused(argument: Any) -> None:
    with pytest.raises(UserError, match=r"the argument \[1\]"):
        memory.fit(perceptron(), [BATCH, argument], "1MB")


def test_a_square_input_may_be_a_mask() -> None:
    module = calling(lambda one, x, mask: one.first(mask @ x))
    with pytest.raises(UserError, match="a mask for all"):
        memory.largest_batch(module, [BATCH, torch.ones(512, 512)], "1MB")


def test_a_module_within_a_budget_gets_another() -> None:
    plain, ours, x, y = both("perceptron")
    other = memory.fit(ours, x, "100%")
    step(plain, x, y)
    step(other, x, y)
    same(plain, other)
