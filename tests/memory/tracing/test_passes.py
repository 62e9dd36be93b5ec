"""What a traced pass would leave out, or do once, is refused; what is the same each time is not."""

from __future__ import annotations

import functools
import random
import secrets
from collections import Counter, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.long import usually
from tests.memory.tracing.modules import Calling
from workbench.memory.tracing.passes import Passes, trace_passes
from workbench.utils.checks import UserError

GENERATOR = np.random.default_rng(0)
KEPT: dict[str, Tensor] = {}
X = torch.randn(4, 8)


def calling(function: Callable[[Any, Tensor], Any]) -> Any:
    """Calls a function with itself and what its layers return; its attributes hold many things."""
    module: Any = Calling(function, layers=nn.Sequential(nn.Linear(8, 8), nn.Tanh()))
    module.list, module.deque, module.set = [], deque([1, 2], maxlen=2), {0}
    module.nested, module.count, module.state = {"a": [0]}, Counter(), SimpleNamespace(losses=[])
    module.cache, module.generator = {}, np.random.default_rng(0)
    return module


def traced(function: Callable[[Any, Tensor], Any]) -> Passes:
    module = calling(function)
    return trace_passes("M", module, (X,), {}, lambda _, outputs: {0: outputs[0].stride()})


def keeping(keep: Callable[[Any, Tensor], object]) -> Callable[[Any, Tensor], Tensor]:
    def forward(m: Any, x: Tensor) -> Tensor:
        x = m.layers(x)
        keep(m, x)
        return x

    return forward


@functools.lru_cache
def ramp(count: int) -> Tensor:
    return torch.arange(count).float()


def in_a_default(_: Any, x: Tensor, kept: list[Tensor] = []) -> None:  # noqa: B006
    kept.append(x.detach())


CHANGES: dict[str, tuple[Callable[[Any, Tensor], object], str]] = {
    "number in a list": (lambda m, x: m.list.append(len(x)), "changes 'list'"),
    "loss in a list": (lambda m, x: m.list.append(x.mean()), "changes 'list'"),
    "set": (lambda m, x: m.set.add(len(m.set)), "changes 'set'"),
    "nested": (lambda m, x: m.nested["a"].append(0), "changes 'nested'"),
    "count": (lambda m, x: m.count.update("a"), "changes 'count'"),
    "full deque of numbers": (lambda m, x: m.deque.append(m.deque[-1] + 1), "changes 'deque'"),
    "full deque of tensors": (lambda m, x: m.deque.extend([x, x]), "changes 'deque'"),
    "set of losses": (lambda m, x: m.set.add(x.mean()), "changes 'set'"),
    "part": (lambda m, x: setattr(m.layers[0], "loss", x.mean()), "changes 'layers.0.loss'"),
    "list in a list": (lambda m, x: m.list.append([x.mean()]), "changes 'list'"),
    "object": (lambda m, x: m.state.losses.append(0), "changes 'state'"),
    "loss by name": (lambda m, x: m.nested.update(loss=x.mean()), "changes 'nested'"),
    "global dict": (lambda m, x: KEPT.update(loss=x.mean()), "keeps a tensor"),
    "default": (in_a_default, "keeps a tensor"),
    "cache": (lambda m, x: x * ramp(8), "keeps a tensor"),
}


USUAL_CHANGES = (
    *("number in a list", "set", "nested", "full deque of tensors", "part", "object"),
    *("global dict", "cache"),
)


@pytest.mark.parametrize("change", usually(USUAL_CHANGES, CHANGES))
def test_what_a_forward_pass_leaves_behind_is_refused(change: str) -> None:
    keep, reason = CHANGES[change]
    with pytest.raises(UserError, match=f"^M {reason}.*return it, or keep it in a buffer"):
        traced(keeping(keep))
    KEPT.clear()
    ramp.cache_clear()


def closing() -> Callable[[Any, Tensor], Tensor]:
    generator = np.random.default_rng(0)
    return lambda m, x: x * float(generator.random())


HOLDING = SimpleNamespace(generators=[np.random.default_rng(0)])

DRAWS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "Python": lambda m, x: x * (random.random() < 0.5),
    "NumPy": lambda m, x: x * torch.from_numpy(np.random.rand(8)).float(),  # noqa: NPY002
    "attribute": lambda m, x: x * float(m.generator.random()),
    "choice": lambda m, x: x * random.choice([0.5, 2.0]),
    "order": lambda m, x: x[:, np.random.permutation(8)],  # noqa: NPY002
    "new generator": lambda m, x: x * float(np.random.default_rng().random()),
    "new of Python's": lambda m, x: x * random.Random().random(),
    "operating system's": lambda m, x: x * random.SystemRandom().random(),
    "secret": lambda m, x: x * secrets.randbelow(2),
    "closure": closing(),
    "object of the file": lambda m, x: x * float(HOLDING.generators[0].random()),
    "generator of the file": lambda m, x: x * float(GENERATOR.normal()),
}


USUAL_DRAWS = (
    *("Python", "NumPy", "attribute", "new generator", "new of Python's", "operating system's"),
    *("closure", "object of the file"),
)


@pytest.mark.parametrize("draw", usually(USUAL_DRAWS, DRAWS))
def test_random_numbers_of_python_and_numpy_are_refused(draw: str) -> None:
    with pytest.raises(UserError, match=r"^M draws random numbers .* in its forward"):
        traced(lambda m, x: DRAWS[draw](m, m.layers(x)))


def remembering(m: Any, x: Tensor) -> Any:
    """Writes numbers down the first time."""
    if not m.cache:
        m.cache["weights"] = [0.5] * 8
    return m.layers(x) * torch.tensor(m.cache["weights"])


SAME: list[Callable[[Any, Tensor], Tensor]] = [
    remembering,
    lambda m, x: torch.dropout(m.layers(x), 0.5, True),
    lambda m, x: m.layers(x) * float(np.random.default_rng(0).random()),
    lambda m, x: m.layers(x) * random.Random(0).random(),
]


@pytest.mark.parametrize("same", SAME)
def test_what_is_the_same_in_each_pass_is_traced(same: Callable[[Any, Tensor], Tensor]) -> None:
    assert traced(same).parameters == ("layers.0.weight", "layers.0.bias")


def test_draws_in_another_thread_are_not_the_modules() -> None:
    """Of several passes, one during which another thread draws."""
    at_call = iter([True, False, False, False, False])

    def sometimes(m: Any, x: Tensor) -> Any:
        if next(at_call):
            random.random()
        return m.layers(x)

    assert traced(sometimes).parameters
