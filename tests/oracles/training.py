"""One machine's stochastic gradient descent, with PyTorch's own optimiser."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn


def train_alone(
    module: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    *,
    learning_rate: float,
    momentum: float,
    weight_decay: float = 0.0,
) -> Sequence[float]:
    """Train in place on batches of samples and labels; return the loss before each step."""
    optimiser = torch.optim.SGD(
        module.parameters(), lr=learning_rate, momentum=momentum, weight_decay=weight_decay
    )
    losses = []
    for samples, labels in batches:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(module(samples), labels)
        torch.autograd.backward([loss])
        optimiser.step()
        losses.append(loss.item())
    return losses
