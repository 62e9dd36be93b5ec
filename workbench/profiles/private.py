"""The parts of PyTorch without a public name that graphs and memory plans rest on.

Look at each of them again with another version than `SEEN_IN`; their test fails with one. What
PyTorch documents for those who extend it is used where it is needed: `TorchDispatchMode`,
`torch.utils._pytree`, a tensor's `_version`, an operator's `_schema` and `_overloadpacket`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._C import _are_functorch_transforms_active as transforms_are_active
from torch._C import _current_autograd_node as current_node
from torch._C._functorch import is_legacy_batchedtensor
from torch._ops import OpOverload
from torch._prims_common import compute_elementwise_output_strides
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.autograd.graph import Node
from torch.nn import functional
from torch.nn.modules import transformer
from torch.nn.modules.batchnorm import _NormBase as NormBase
from torch.utils.checkpoint import CheckpointFunction

SEEN_IN = "2.13"
"""Version of PyTorch."""

__all__ = [
    "CHECKPOINT_NODE",
    "FAKE_LOG",
    "FOLLOWING_NUMBERS",
    "HOOKS",
    "SEEN_IN",
    "FakeTensor",
    "FakeTensorMode",
    "NormBase",
    "OpOverload",
    "canonical_mask",
    "compute_elementwise_output_strides",
    "current_node",
    "grouped_mm",
    "has_kernel",
    "is_legacy_batchedtensor",
    "memory_events",
    "neg_view",
    "next_sequence_number",
    "none_or_dtype",
    "project_packed",
    "said_to_be_compiled",
    "sequence_number",
    "share_parts",
    "storage_key",
    "transforms_are_active",
    "unset_fake_temporarily",
]

neg_view: Any = torch._neg_view
grouped_mm: Any = torch._grouped_mm
canonical_mask: Any = functional._canonical_mask
none_or_dtype: Any = functional._none_or_dtype
project_packed: Any = functional._in_projection_packed  # type: ignore[attr-defined]
CHECKPOINT_NODE: Any = CheckpointFunction._backward_cls
"""Class of a re-entrant checkpoint's node of autograd."""
FAKE_LOG = "torch._subclasses.fake_tensor"
"""Logger of fake tensors."""
FOLLOWING_NUMBERS: dict[str, Any] = {"_error_on_data_dependent_ops": False}
"""Option of `make_fx`: control flow may depend on the numbers that it traces with."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
"""Attributes of a module with its hooks on passes."""


def next_sequence_number() -> int:
    """Return the number that the next node of autograd made in this thread gets."""
    return int(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]


def sequence_number(node: Node) -> int:
    """Number of a node of autograd, which grows as nodes are made."""
    return int(node._sequence_nr())


def storage_key(tensor: Tensor) -> int:
    """A number that tensors of one storage share, unlike others alive at the same time."""
    return int(tensor.untyped_storage()._cdata)


def has_kernel(function: Any) -> bool:
    """Whether an operator has a kernel for the CPU; others call another form of it, and copy."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), "CPU"))


def share_parts(module: nn.Module, other: nn.Module) -> None:
    """Let a module have the parameters, buffers and parts of another, now and later."""
    module._parameters, module._buffers = other._parameters, other._buffers
    module._modules = other._modules
    module._non_persistent_buffers_set = other._non_persistent_buffers_set


@contextmanager
def said_to_be_compiled() -> Iterator[None]:
    """Have `torch.compiler.is_compiling` return true, and trust callers that a mask is causal.

    PyTorch's encoders and decoders look into a mask otherwise.
    """
    with (
        patch.object(torch.compiler, "_is_compiling_flag", new=True),
        patch.object(transformer, "_detect_is_causal_mask", _said_to_be_causal),
    ):
        yield


def _said_to_be_causal(mask: Tensor | None, is_causal: bool | None, size: int | None) -> bool:
    return is_causal is True


def memory_events(
    profiled: torch.profiler.profile, mark: str
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Read a profile of memory: begin and end of each `mark` in ns; time and bytes of each change.

    Both are sorted by time, and come from Kineto's own events.
    """
    profiler: Any = profiled.profiler
    marks, changes = list[tuple[int, int]](), list[tuple[int, int]]()
    for event in profiler.kineto_results.events():
        if event.name() == mark:
            marks.append((event.start_ns(), event.start_ns() + event.duration_ns()))
        elif event.name() == "[memory]":
            changes.append((event.start_ns(), event.nbytes()))
    return sorted(marks), sorted(changes, key=lambda change: change[0])
