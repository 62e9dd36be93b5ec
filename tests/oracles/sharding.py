"""Sharded training by naive loops: seconds of iterations, and memory, straight from ZeRO's text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from workbench.sharding import Plan, Problem
from workbench.sharding.schedules import Collective, operations


def all_reduce_end_s(problem: Problem, iterations: int) -> float:
    """End of iterations with one bucket in stage 0, message by message."""
    nodes, now_s = range(problem.nodes), [0.0] * problem.nodes
    free_s = dict.fromkeys(problem.links, 0.0)
    for _ in range(iterations):
        compute_s = problem.forward_s + problem.backward_s
        begun_s = [now_s[node] + sum(compute_s[node]) for node in nodes]
        for _ in range(2):
            arrived_s = list(begun_s)
            for (a, b), link in problem.links.items():
                bits = 8 * sum(problem.param_bytes) / problem.nodes
                start_s = max(free_s[a, b], begun_s[a])
                free_s[a, b] = start_s + link.overhead_s + bits / float(link.bandwidth)  # type: ignore[arg-type]
                arrived_s[b] = max(arrived_s[b], free_s[a, b] + link.latency_s)
            begun_s = arrived_s
        now_s = [begun_s[node] + sum(problem.update_s[node]) for node in nodes]
    return max(now_s)


def buckets(layers: int, cuts: Sequence[int]) -> list[list[int]]:
    """Layers, from 0, of each bucket."""
    found: list[list[int]] = [[]]
    for layer in range(layers):
        found[-1].append(layer)
        if layer + 1 in cuts:
            found.append([])
    return found


def peak_bytes(problem: Problem, plan: Plan) -> float:
    """Parameters, gradients and optimiser's state of a node, pass by pass, without ties."""
    sizes = [
        sum(problem.param_bytes[layer] for layer in bucket)
        for bucket in buckets(problem.layers, plan.cuts)
    ]
    whole = sum(sizes)
    share = whole / problem.nodes
    state = problem.optimiser_vectors * (whole if plan.stage == 0 else share)
    most = 0.0
    for at in reversed(range(len(sizes))):
        gradients = whole if plan.stage < 2 else share + sum(sizes[at : at + 2])
        before = sizes[at - 1] if at else 0.0
        parameters = whole if plan.stage < 3 else share + sizes[at] + before
        most = max(most, parameters + gradients + state)
    return most


def held_bytes(problem: Problem, plan: Plan) -> float:
    """Peak of a node whose collectives end as late as its computations allow.

    Fails where a computation lacks parameters, or overwrites a gradient that is being reduced.
    """
    parts = problem.buckets(plan)
    sizes, every = [part.size_bytes for part in parts], range(len(parts))
    tied = {at for at in every if parts[at].is_tied}
    homes = [
        next(at for at in every if parts[at].first <= min(weight.layers) <= parts[at].last)
        for weight in problem.tied
    ]
    parameters = {at for at in every if plan.stage < 3 or not sizes[at]}
    gradients, begun, ended = set[int](), list[Collective](), 0
    most = 0.0
    for work in operations(plan.stage, parts, problem.accumulate):
        if isinstance(work, Collective):
            begun.append(work)
            continue
        for collective in begun[ended : work.after]:
            if collective.kind == "all-gather":
                parameters.add(collective.bucket)
            else:
                gradients.discard(collective.bucket)
        ended = max(ended, work.after)
        at, part = work.bucket, parts[work.bucket]
        if work.lane == "update":
            assert ended == len(begun)
            break
        used = {
            home
            for home, weight in zip(homes, problem.tied, strict=True)
            if any(part.first <= layer <= part.last for layer in weight.layers)
        }
        assert {at, *used} <= parameters
        if work.lane == "backward":
            assert plan.stage < 2 or at in tied or at not in gradients
            gradients |= {each for each in {at, *used} if sizes[each]}
        arriving = {each.bucket for each in begun[ended:] if each.kind == "all-gather"}
        gathered = sum(sizes[each] for each in parameters | arriving) if plan.stage == 3 else 0.0
        reduced = sum(sizes[each] for each in gradients) if plan.stage >= 2 else 0.0
        most = max(most, gathered + reduced)
        if plan.stage == 3 and sizes[at]:
            if at not in tied and (work.lane == "backward" or at < len(parts) - 1):
                parameters.discard(at)
            if work.lane == "backward" and at == 0:
                parameters -= tied
    whole, share = sum(sizes), sum(sizes) / problem.nodes
    kept = (share if plan.stage == 3 else whole) + (share if plan.stage >= 2 else whole)
    return kept + problem.optimiser_vectors * (share if plan.stage else whole) + most


def accumulated(
    model: nn.Module,
    steps: Sequence[Sequence[tuple[Tensor, Tensor]]],
    loss_of: Callable[[Tensor, Tensor], Tensor],
    *,
    learning_rate: float,
    momentum: float,
) -> list[Tensor]:
    """Weights after steps of PyTorch's SGD on one machine, on the mean of all parts' gradients."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimiser = torch.optim.SGD(trained, lr=learning_rate, momentum=momentum)
    for parts in steps:
        gradients = []
        for samples, labels in parts:
            optimiser.zero_grad()
            loss_of(model(samples), labels).backward()  # type: ignore[no-untyped-call]
            gradients.append([weight.grad for weight in trained])
        counts = [len(labels) for _, labels in parts]
        for weight, *each in zip(trained, *gradients, strict=True):
            total = sum(
                gradient * (count / max(counts))
                for gradient, count in zip(each, counts, strict=True)
            )
            weight.grad = total / (sum(counts) / max(counts))
        optimiser.step()
    return [weight.detach() for weight in trained]
