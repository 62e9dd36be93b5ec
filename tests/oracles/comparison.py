"""What ways of training take, by hand: loops and sums straight from their definitions."""

from __future__ import annotations

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
