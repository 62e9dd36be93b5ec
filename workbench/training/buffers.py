"""Buffers of a module: running statistics of batch normalisation.

They are no part of the flat vector: profiles do not count them and plans do not send them, as
in DynaComm and most parameter servers. Each worker's replica gathers its own in training mode; to
evaluate the common model, take one worker's or the workers' average.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from workbench.errors import UserError

if TYPE_CHECKING:
    import torch


def get_buffers(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return copies of a module's buffers by name."""
    return {name: buffer.detach().clone() for name, buffer in module.named_buffers()}


def set_buffers(module: torch.nn.Module, values: Mapping[str, torch.Tensor]) -> None:
    """Write buffers into a module that has the same ones.

    Raises ValueError: names or shapes differ.
    """
    own = dict(module.named_buffers())
    shapes = [{name: tuple(b.shape) for name, b in one.items()} for one in (own, values)]
    if shapes[0] != shapes[1]:
        wrong = sorted(name for name, _ in set(shapes[0].items()) ^ set(shapes[1].items()))
        raise UserError(f"buffers of another module: {', '.join(wrong)} are not in both alike")
    for name, buffer in own.items():
        buffer.detach().copy_(values[name])


def average_buffers(sets: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Average the buffers of several replicas, in their order; of whole numbers take the largest.

    Raises ValueError: no replica, or ones of different modules.
    """
    import torch

    if not sets or any(one.keys() != sets[0].keys() for one in sets):
        raise UserError("buffers of at least one replica, all of the same module, are averaged")
    averaged: dict[str, torch.Tensor] = {}
    for name, first in sets[0].items():
        stacked = torch.stack([one[name] for one in sets])
        averaged[name] = stacked.mean(0) if first.is_floating_point() else stacked.amax(0)
    return averaged
