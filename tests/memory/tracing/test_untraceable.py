"""What cannot be traced is said with its reason and line, without blame for the input."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.long import usually
from tests.memory.tracing.modules import Calling
from workbench import memory
from workbench.memory import trace
from workbench.profiles import UntraceableError
from workbench.utils.checks import UserError

GENERATOR = torch.Generator()
X = torch.randn(16, 8)
TOKENS = torch.randint(0, 9, (4, 6))


class Reversing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return -gradient


def forces(m: Any, x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    found: Tensor = torch.autograd.grad(m.a(x).tanh().sum(), x, create_graph=True)[0]
    return found


def packed(m: Any, x: Tensor) -> Tensor:
    rows = nn.utils.rnn.pack_padded_sequence(x[None], torch.tensor([16]), batch_first=True)
    found: Tensor = m.a(rows.data)
    return found


def ctc(m: Any, x: Tensor) -> Tensor:
    scores = m.a(x)[:, None].log_softmax(-1)
    lengths = torch.tensor([16]), torch.tensor([2])
    return functional.ctc_loss(scores, torch.ones(1, 2, dtype=torch.long), *lengths)


def scaled(number: Callable[[Tensor], Any]) -> Callable[[Any, Tensor], Tensor]:
    return lambda m, x: m.a(x) * number(x)


def kept(m: Any, x: Tensor) -> Any:
    h = m.a(x)
    if h.requires_grad:
        h.retain_grad()
    return h.tanh()


SHAPE, DATA = "the shape of a result depends on the numbers", "control flow depends on data"
ASKING = "asks for gradients itself"
UNTRACEABLE: dict[str, tuple[Callable[[Any, Tensor], Any], str]] = {
    "boolean mask": (lambda m, x: m.a(x) + x[x > 0].sum(), SHAPE),
    "masked_select": (lambda m, x: m.a(x).masked_select(x > 0), SHAPE),
    "unique": (scaled(lambda x: torch.unique(x).numel()), SHAPE),
    "repeat_interleave": (
        lambda m, x: torch.repeat_interleave(m.a(x), torch.ones(16, dtype=torch.long), 0),
        SHAPE,
    ),
    "packed sequence": (packed, SHAPE),
    "ctc_loss": (ctc, SHAPE),
    "numpy": (scaled(lambda x: float(x.numpy().mean())), DATA),
    "tolist": (scaled(lambda x: sum(x[0].tolist())), DATA),
    "data_ptr": (scaled(lambda x: x.data_ptr() % 2), DATA),
    "checked distribution": (
        lambda m, x: torch.distributions.Normal(m.a(x), 1.0, validate_args=True).rsample(),
        DATA,
    ),
    "function without setup_context": (
        lambda m, x: m.a(Reversing.apply(x)),  # type: ignore[no-untyped-call]
        "has no setup_context",
    ),
    "forces": (forces, ASKING),
    "nonzero": (lambda m, x: m.a(x)[torch.nonzero(x[:, 0] > 0)[:, 0]], SHAPE),
    "bool of a tensor": (lambda m, x: m.a(x) if x.any() else x, DATA),
    "range of a number": (scaled(lambda x: sum(range(int(x[0, 0].abs()) + 1))), DATA),
    "retain_grad": (kept, ASKING),
    "backward within": (lambda m, x: (m.a(x).sum().backward(), m.a(x))[1], ASKING),
    "generator": (
        lambda m, x: m.a(x) + torch.rand(16, 8, generator=GENERATOR),
        "a torch.Generator of its own",
    ),
    "checkpoint": (
        lambda m, x: checkpoint(m.a, x, use_reentrant=False),
        "computes parts again itself",
    ),
    "checkpoints of a sequence": (
        lambda m, x: checkpoint_sequential([m.a, m.a], 2, x, use_reentrant=False),  # type: ignore[no-untyped-call]
        "computes parts again itself",
    ),
    "checkpoint in a checkpoint": (
        lambda m, x: checkpoint(
            lambda y: checkpoint(m.a, y, use_reentrant=False), x, use_reentrant=False
        ),
        "computes parts again itself",
    ),
    "re-entrant checkpoint": (
        lambda m, x: m.a(checkpoint(m.a, x, use_reentrant=True)),
        "has no setup_context",
    ),
    "rows of a parameter": (lambda m, x: m.a(x) + m.a.weight[m.a.bias > 0].sum(), SHAPE),
    "global tensor": (lambda m, x: m.a(x) + 3 * X[0], "neither given nor the module's"),
    "global weights": (lambda m, x: X.T @ m.a(x), "neither given nor the module's"),
    "global rows": (lambda m, x: torch.cat([X, m.a(x)]), "neither given nor the module's"),
    "nested": (
        lambda m, x: torch.nested.nested_tensor([m.a(x)[0]]).to_padded_tensor(0.0),
        "UnsupportedOperator",
    ),
}


USUAL = (
    *("boolean mask", "packed sequence", "numpy", "checked distribution", "forces", "generator"),
    *("function without setup_context", "checkpoint", "re-entrant checkpoint", "global tensor"),
    "nested",
)
"""One or two for each reason."""


@pytest.mark.parametrize("kind", usually(USUAL, UNTRACEABLE))
def test_what_cannot_be_traced_is_said_with_its_reason_and_line(kind: str) -> None:
    function, reason = UNTRACEABLE[kind]
    module = Calling(function, a=nn.Linear(8, 8))
    module(X)  # plain PyTorch runs it
    state = torch.get_rng_state()
    with pytest.raises(UntraceableError) as refused:
        memory.fit(module, X, "1GB", loss=lambda returned: returned.sum())
    said = str(refused.value)
    where = r"(in its forward|at layer 'a' \(.*\))"
    line = rf"cannot be traced: {where} \(test_untraceable\.py, line \d+\), "
    assert re.search(rf"{line}.*{reason}", said)
    assert "does not fit" not in said
    assert torch.equal(state, torch.get_rng_state())


def test_embeddings_that_cannot_be_traced_say_why() -> None:
    module = nn.Sequential(nn.Embedding(9, 8, sparse=True), nn.Linear(8, 3))
    with pytest.raises(UntraceableError, match=r"Sequential cannot be traced: .*sparse=True"):
        memory.fit(module, TOKENS, "1GB")


def test_a_reentrant_checkpoint_of_what_is_learnt_is_the_reason() -> None:
    module = Calling(lambda m, x: checkpoint(m.a, m.a(x), use_reentrant=True), a=nn.Linear(8, 8))
    with pytest.raises(UntraceableError, match="it computes parts again itself"):
        memory.fit(module, X, "1GB", loss=torch.sum)


def test_writes_into_an_imaginary_part_are_refused() -> None:
    module = Calling(lambda m, x: torch.complex(m.a(x), x).conj().imag.relu_(), a=nn.Linear(8, 8))
    with pytest.raises(UntraceableError, match="it writes in place into a part of complex numbers"):
        memory.fit(module, X, "1GB")


def test_sparse_tensors_and_modules_spread_over_devices_are_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"give that module, model\.module"):
        memory.fit(nn.DataParallel(nn.Linear(8, 3)), X, "1GB")
    module = Calling(lambda m, x: torch.sparse.mm(m.near, m.a(x)), a=nn.Linear(8, 8))
    module.register_buffer("near", torch.eye(16).to_sparse())
    with pytest.raises(UserError, match=r"shape \(16, 16\) is sparse.*to_dense"):
        memory.fit(module, X, "1GB")


def test_a_trace_says_what_a_plan_within_a_budget_says() -> None:
    for function in (forces, UNTRACEABLE["checkpoint"][0]):
        with pytest.raises(UntraceableError, match="cannot be traced: in its forward"):
            trace(Calling(function, a=nn.Linear(8, 8)), (8,), training=True)


@pytest.mark.parametrize("held", [[torch.zeros(8)], {"loss": torch.zeros(8)}, (1, torch.zeros(8))])
def test_tensors_in_a_collection_are_refused_by_name(held: Any) -> None:
    module = nn.Sequential(Calling(lambda m, x: m.a(x), a=nn.Linear(8, 8), kept=held))
    with pytest.raises(UserError, match=r"'0\.kept' has a tensor: keep it in a buffer"):
        memory.fit(module, X, "1GB")


@pytest.mark.parametrize("inputs", [X[:, :3], X.long(), {"y": X}])
def test_an_input_is_blamed_where_the_module_does_not_take_it(inputs: Any) -> None:
    with pytest.raises(UserError, match="the input does not fit Linear: in its forward"):
        memory.fit(nn.Linear(8, 3), inputs, "1GB")


@dataclass
class Out:
    scores: Tensor


@pytest.mark.parametrize("budget", ["90%", "1GB"])
def test_a_dataclass_that_pytorch_does_not_know_is_refused_with_any_budget(budget: str) -> None:
    module = Calling(lambda m, x: Out(m.a(x)), a=nn.Linear(8, 3))
    with pytest.raises(UserError, match=r"an object of Out, .*torch\.export\.register_dataclass"):
        memory.fit(module, X, budget, loss=lambda out: out.scores.sum())
