"""Errors out of a module's forward pass, said in the user's terms: where, why, and what to do."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from typing import NamedTuple

import torch
from torch import nn

from workbench.profiles.graph import UntraceableError
from workbench.profiles.private import FAKE_LOG
from workbench.utils.checks import UserError


class Advice(NamedTuple):
    """Advice about inputs that do not fit, and about a module that cannot be traced."""

    inputs: str
    module: str


PROFILING = Advice(
    "Give input_shape without the batch dimension, and input_dtype if it is not float32",
    "Profile it by the order of its modules instead: "
    'profile_model(…, by="modules") and measure_layer_times(…, by="modules"), '
    "or `workbench profile --by modules`, run it for real",
)


@contextmanager
def explained(
    name: str,
    module: nn.Module,
    advice: Advice = PROFILING,
    untraced: Callable[[], object] | None = None,
) -> Iterator[None]:
    """Turn an error out of the module's forward into one that says where and what to do.

    `untraced` calls the module on the same inputs without a trace: where that works, the input is
    not to blame.
    """
    with quiet():
        try:
            yield
        except UserError as error:  # it says itself what is wrong
            raise UntraceableError(
                f"{name} cannot be traced: {_where(module, error)}{error}", advice.module
            ) from error
        except Exception as error:
            why = f"{type(error).__name__}: {str(error).rstrip('.')}"
            reason = next((words for pattern, words in _REASONS if pattern.search(why)), "")
            if reason or (untraced is not None and _works(untraced)):
                raise UntraceableError(
                    f"{name} cannot be traced: {_where(module, error)}{reason or why}",
                    advice.module,
                ) from error
            raise UserError(
                f"the input does not fit {name}: {_where(module, error)}{why}. {advice.inputs}"
            ) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Keep back PyTorch's own tracebacks of what is explained."""
    log = logging.getLogger(FAKE_LOG)
    was_quiet, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = was_quiet


_REASONS = [
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in {
        "DynamicOutputShape": "the shape of a result depends on the numbers in a tensor, as for "
        "x[x > 0], unique and packed sequences",
        "convert all Tensors to FakeTensors": "it reads a tensor that is neither given nor the "
        "module's, as a global one: keep it in a buffer",
        r"\bmeta\b|DataDependent|doesn't have storage|unallocated storage|_local_scalar_dense|"
        r"numpy\(\) is not supported|data pointer|data_ptr|FakeTensor": "its control flow depends "
        "on data, or it leaves PyTorch, as by if, .item() and .numpy(); choose by torch.where",
        "setup_context": "a torch.autograd.Function has no setup_context: define it beside forward",
        "saved tensor hooks|use_reentrant": "it computes parts again itself, as "
        "torch.utils.checkpoint does: switch that off, since a plan chooses what is computed again",
        "functorch transform|does not require grad": "it asks for gradients itself, as by "
        "requires_grad_, retain_grad and torch.autograd.grad",
        "Sparse": "a tensor or a gradient is sparse, as of nn.Embedding(sparse=True)",
        "as_strided.* is non-compositional": "it writes in place into a part of "
        "complex numbers, as x.imag.relu_() does: write the result elsewhere",
        "leaf Variable that requires grad": "it writes into a parameter, as "
        "nn.Embedding(max_norm=…) does",
    }.items()
]
"""Patterns of PyTorch's messages where a trace cannot follow, and reasons in the user's words."""


def _works(call: Callable[[], object]) -> bool:
    try:
        call()
    except Exception:  # whatever a user's module raises
        return False
    return True


def _where(module: nn.Module, error: Exception) -> str:
    """The part and the user's line that an error comes from, where it has any."""
    names = {part: part_name for part_name, part in module.named_modules()}
    frames = (frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__))
    parts = [part for part in frames if isinstance(part, nn.Module) and part in names]
    if not parts:
        return ""
    part = parts[-1]
    where = f"in {names[part]!r}" if names[part] else "in its forward"
    if names[part] and not list(part.children()):
        where = f"at layer {names[part]!r} ({part})"
    return f"{where}{_line(error)}, "


_OURS = (Path(torch.__file__).parent, Path(__file__).parent, Path(__file__).parents[1] / "memory")
"""Folders whose lines are not the user's."""


def _line(error: Exception) -> str:
    """File and line of the user's code that an error comes from, if there is any."""
    lines = [
        f" ({Path(frame.f_code.co_filename).name}, line {line})"
        for frame, line in walk_tb(error.__traceback__)
        if not any(Path(frame.f_code.co_filename).is_relative_to(folder) for folder in _OURS)
    ]
    return lines[-1] if lines else ""
