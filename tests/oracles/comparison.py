"""What methods of training take, by hand: loops and sums straight from their definitions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from workbench import training
from workbench.comparison import Problem
from workbench.hiertrain import TIERS, Chain, Hybrid, Policy
from workbench.training.repeatable import SHUFFLE

if TYPE_CHECKING:
    import torch

    from workbench.datasets import Dataset


def federated_s(problem: Problem, server: int, samples: dict[int, int]) -> float:
    """A round in which nothing is shared: the slowest client's way there, epoch and way back.

    A client on the server's node has no way.
    """
    seconds = []
    for client, count in samples.items():
        way_s = 0.0
        if client != server:
            link = problem.cluster.link(client, server)
            way_s = link.overhead_s + 8 * problem.model_bytes / float(link.bandwidth)  # type: ignore[arg-type]
        steps = -(-count // problem.batch_size)
        update_s = problem.layer_times(client).update_s
        seconds.append(2 * way_s + count * problem.sample_s[client] + steps * update_s)
    return max(seconds)


def sent_once_s(first: list[tuple[float, float]], compute_s: float, iterations: int) -> float:
    """A training that keeps what is sent to it, by loops over batches and senders.

    `first` has, of each sender, its seconds for its part of a batch and how many batches it sends
    (those of the first epoch); of the following iterations none waits. Nothing is shared.
    """
    ahead, read_s, now_s = 1, list[float](), 0.0
    arrived = [0.0] * len(first)
    for number in range(iterations):
        for sender, (part_s, count) in enumerate(first):
            if number < count:
                asked_s = read_s[number - ahead] if number >= ahead else 0.0
                arrived[sender] = max(arrived[sender], asked_s) + part_s
                now_s = max(now_s, arrived[sender])
        read_s.append(now_s)
        now_s += compute_s
    return now_s


def ends_s(
    links: Sequence[Sequence[tuple[float, float, float]]],
    most_bps: Sequence[float],
    interface_bps: float,
    steps: int,
) -> tuple[list[list[float]], float]:
    """When transfers over a shared interface end, and the step: rates are found by bisection.

    Each transfer begins and ends up to a step late.
    """
    longest_s = sum(ready + overhead for one in links for ready, overhead, _ in one)
    longest_s += sum(bits for one in links for _, _, bits in one) / min(*most_bps, interface_bps)
    step_s = longest_s / steps
    queues = [[list(transfer) for transfer in one] for one in links]
    free_s = [0.0] * len(links)
    ends: list[list[float]] = [[] for _ in links]
    now_s = 0.0
    while any(queues):
        flowing = [
            at
            for at, queue in enumerate(queues)
            if queue and max(queue[0][0], free_s[at]) + queue[0][1] <= now_s
        ]
        low, high = 0.0, max(most_bps)
        for _ in range(40):
            level = (low + high) / 2
            over = sum(min(level, most_bps[at]) for at in flowing) > interface_bps
            low, high = (low, level) if over else (level, high)
        for at in flowing:
            queues[at][0][2] -= min(high, most_bps[at]) * step_s
            if queues[at][0][2] <= 1e-9:
                queues[at].pop(0)
                free_s[at] = now_s + step_s
                ends[at].append(now_s + step_s)
        now_s += step_s
    return ends, step_s


def tier_bytes(
    policy: Policy,
    param_bytes: Sequence[float],
    output_bytes: Sequence[float],
    of_step: tuple[float, float],
    sample_bytes: float,
) -> dict[str, float]:
    """Memory of each tier, layer by layer, from the fixed bytes of a step and all of them."""
    layers, (fixed, whole) = len(param_bytes), of_step
    input_bytes = [sample_bytes, *output_bytes]
    samples = {tier: [0] * layers for tier in TIERS}
    for layer in range(layers):
        for tier, count in _samples_of(policy, layer + 1).items():
            samples[tier][layer] = count

    def sizes(held: Sequence[int], counts: Sequence[int]) -> tuple[float, float]:
        parameters, outputs, gradient, working = 0.0, 0.0, 0.0, 0.0
        for layer in held:
            parameters += 2 * param_bytes[layer]
            gradient = max(gradient, param_bytes[layer])
            outputs += counts[layer] * output_bytes[layer]
            both = counts[layer] * (input_bytes[layer] + output_bytes[layer])
            working = max(working, both)
        return parameters + gradient, outputs + working

    of_all = sizes(range(layers), [policy.batch_size] * layers)
    found: dict[str, float] = {}
    for tier in TIERS:
        held = [n for first, last in policy.held(tier, layers) for n in range(first - 1, last)]
        if held:
            parameters, outputs = sizes(held, samples[tier])
            found[tier] = fixed * parameters / of_all[0] + (whole - fixed) * outputs / of_all[1]
    if isinstance(policy, Chain):
        for layer in range(1, layers):
            before, after = policy.tiers[layer - 1 : layer + 1]
            if before != after:
                found[after] += 2 * policy.batch * output_bytes[layer - 1]
    else:
        assert isinstance(policy, Hybrid)
        o = policy.order[0]
        found[o] += 2 * policy.b_s * output_bytes[policy.m_s - 1] if policy.b_s else 0
        found[o] += 2 * policy.b_l * output_bytes[policy.m_l - 1] if policy.b_l else 0
    return found


def _samples_of(policy: Policy, layer: int) -> dict[str, int]:
    """Tier -> samples that it takes through a layer."""
    if isinstance(policy, Chain):
        return {policy.tiers[layer - 1]: policy.batch}
    assert isinstance(policy, Hybrid)
    o, s, l = policy.order  # noqa: E741
    found = {o: policy.b_o}
    for tier, last, samples in ((s, policy.m_s, policy.b_s), (l, policy.m_l, policy.b_l)):
        if layer <= last:
            found[tier] = samples
        else:
            found[o] += samples
    return {tier: samples for tier, samples in found.items() if samples}


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
