"""What ways of training take, by hand: loops and sums straight from their definitions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from workbench import training
from workbench.comparison import Question
from workbench.training.repeatable import SHUFFLE

if TYPE_CHECKING:
    import torch

    from workbench.datasets import Dataset


def sequential_s(question: Question, worker: int, server: int) -> float:
    """An iteration of one worker that pulls all, computes, and pushes all."""
    link = question.cluster.link(worker, server)
    times = question.layer_times(worker)
    transfer_s = link.overhead_s + 8 * question.model_bytes / float(link.bandwidth)  # type: ignore[arg-type]
    return 2 * transfer_s + times.forward_s + times.backward_s


def federated_s(question: Question, server: int, samples: dict[int, int]) -> float:
    """A round in which nothing is shared: the slowest client's way there, epoch and way back."""
    seconds = []
    for client, count in samples.items():
        link = question.cluster.link(client, server)
        way_s = link.overhead_s + 8 * question.model_bytes / float(link.bandwidth)  # type: ignore[arg-type]
        steps = -(-count // question.batch_size)
        update_s = question.layer_times(client).update_s
        seconds.append(2 * way_s + count * question.sample_s[client] + steps * update_s)
    return max(seconds)


def federated_losses(
    dataset: Dataset,
    shards: Sequence[NDArray[np.int64]],
    *,
    rounds: int,
    batch: int,
    rate: float,
    seed: int,
) -> list[float]:
    """Test loss of LeNet-5 after each round of federated averaging, straight from the paper.

    McMahan et al. 2017, Alg. 1, of all clients; batches are dealt as gossip deals them.
    """
    import torch
    from torch.nn import functional

    model = training.initialise("lenet5", seed)
    x, y = torch.tensor(dataset.x_train), torch.tensor(dataset.y_train)
    losses = []
    with training.fixed_threads():
        for number in range(1, rounds + 1):
            sums: list[torch.Tensor] = []
            for node, shard in enumerate(shards):
                own = copy.deepcopy(model)
                optimiser = torch.optim.SGD(own.parameters(), lr=rate)
                stream = np.random.SeedSequence(seed, spawn_key=(SHUFFLE, number, node))
                order = np.random.default_rng(stream).permutation(shard)
                for start in range(0, len(order), batch):
                    chosen = torch.tensor(order[start : start + batch])
                    optimiser.zero_grad()
                    functional.cross_entropy(own(x[chosen]), y[chosen]).backward()  # type: ignore[no-untyped-call]
                    optimiser.step()
                share = len(shard) / sum(map(len, shards))
                parts = [share * weight.detach() for weight in own.parameters()]
                sums = [a + b for a, b in zip(sums, parts, strict=True)] if sums else parts
            with torch.no_grad():
                for weight, total in zip(model.parameters(), sums, strict=True):
                    weight.copy_(total)
                scores = model(torch.tensor(dataset.x_test))
                losses.append(float(functional.cross_entropy(scores, torch.tensor(dataset.y_test))))
    return losses
