"""Training of a pipeline's micro-batches on one machine, in plain loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

Run = Callable[[nn.Module, Sequence[Tensor], int, int], Tensor]
"""Outputs of a module for inputs; the last numbers are the step and the micro-batch."""


def plain(module: nn.Module, inputs: Sequence[Tensor], step: int, microbatch: int) -> Tensor:
    outputs: Tensor = module(*inputs)
    return outputs


def accumulated(
    module: nn.Module,
    steps: Sequence[Sequence[tuple[Sequence[Tensor], Tensor]]],
    optimiser: torch.optim.Optimizer,
    loss_of: Callable[[Tensor, Tensor], Tensor],
    *,
    run: Run = plain,
    last_first: bool = False,
) -> list[float]:
    """Accumulate gradients over the micro-batches of each step; return the mean losses.

    All micro-batches of a step have equally many labels. All pass forward before any passes
    backward, with `last_first` the last one first.
    """
    means = []
    for number, microbatches in enumerate(steps):
        optimiser.zero_grad()
        losses = [
            loss_of(run(module, inputs, number, m), labels) * (1 / len(microbatches))
            for m, (inputs, labels) in enumerate(microbatches)
        ]
        for loss in reversed(losses) if last_first else losses:
            torch.autograd.backward([loss])
        optimiser.step()
        means.append(sum(loss.item() for loss in losses))
    return means


def stashed(
    make: Callable[[], nn.Module],
    stages: Sequence[Sequence[str]],
    microbatches: Sequence[tuple[Sequence[Tensor], Tensor]],
    loss_of: Callable[[Tensor, Tensor], Tensor],
    *,
    learning_rate: float,
    momentum: float,
) -> dict[str, Tensor]:
    """Asynchronous PipeDream (Narayanan et al. 2019, Sec. 3.3): each micro-batch is a step.

    `stages` names each stage's parameters. Stage s of S computes micro-batch k, forward and
    backward, with its weights after k - (S - 1 - s) steps, or the first ones.
    """
    module = make()
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    weights = {name: [p.detach().clone()] for name, p in trained.items()}
    velocity = {name: torch.zeros_like(values[0]) for name, values in weights.items()}
    for k, (inputs, labels) in enumerate(microbatches):
        for s, names in enumerate(stages):
            version = max(0, k - (len(stages) - 1 - s))
            for name in names:
                module.get_parameter(name).data.copy_(weights[name][version])
        module.zero_grad()
        torch.autograd.backward([loss_of(module(*inputs), labels)])
        for name, parameter in trained.items():
            assert parameter.grad is not None
            velocity[name] = momentum * velocity[name] + parameter.grad
            weights[name].append(weights[name][-1] - learning_rate * velocity[name])
    return {name: values[-1] for name, values in weights.items()}
