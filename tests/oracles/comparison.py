"""What ways of training take, by hand: loops and sums straight from their definitions."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.comparison import Question


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


def sent_once_s(first: list[tuple[float, float]], compute_s: float, iterations: int) -> float:
    """A training that keeps what is sent to it, by loops over batches and senders.

    `first` has, of each sender, its seconds for its part of a batch and how many batches it sends
    (those of the first epoch); of the following iterations none waits. Nothing is shared.
    """
    ahead, read_s, now_s = 2, list[float](), 0.0
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
