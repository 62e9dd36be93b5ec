"""Epochs of platforms that wait for each other, step by step, each at a constant speed."""

from __future__ import annotations

from collections.abc import Sequence


def plain_end_s(
    points: Sequence[int],
    sample_s: Sequence[float],
    epochs: int,
    exchange_s: float,
    reach: int | None = None,
) -> list[float]:
    """When each platform has finished the last epoch, learning from all its points.

    It waits for those at most `reach` steps away on a ring, or for all, whose models arrive one
    after the other.
    """
    count = len(points)
    platforms = range(count)
    ready_s, there_s = [0.0 for _ in platforms], [0.0 for _ in platforms]
    for _ in range(epochs):
        done_s = [ready_s[i] + points[i] * sample_s[i] for i in platforms]
        for i in platforms:
            there_s[i] = max(done_s[i], there_s[i]) + exchange_s
        for i in platforms:
            steps = range(-(count if reach is None else reach), (reach or count) + 1)
            peers = {(i + step) % count for step in steps} - {i}
            ready_s[i] = max([done_s[i], *(there_s[j] for j in peers)])
    return ready_s


def balanced_end_s(
    learnt: Sequence[Sequence[int]],
    sample_s: Sequence[float],
    exchange_s: float,
    reach: int | None = None,
) -> list[float]:
    """When each platform has finished the last epoch, platform 0 being the balancer's.

    `learnt` has the samples of each epoch, by platform. Before an epoch all report to the balancer,
    which answers when it has heard all. A link carries first in, first out; a report and an answer
    take no time on it, a model `exchange_s`.
    """
    count = len(sample_s)
    platforms = range(count)
    free_s = [[0.0 for _ in platforms] for _ in platforms]  # of the link from one to another
    ready_s = [0.0 for _ in platforms]
    for samples in learnt:
        decided_s = ready_s[0]
        for i in range(1, count):
            decided_s = max(decided_s, ready_s[i], free_s[i][0])
        done_s = []
        for i in platforms:
            started_s = decided_s if i == 0 else max(decided_s, free_s[0][i])
            done_s.append(started_s + samples[i] * sample_s[i])
        ready_s = list(done_s)
        for i in platforms:
            for j in platforms:
                steps = min((i - j) % count, (j - i) % count)
                if i != j and (reach is None or steps <= reach):
                    free_s[i][j] = max(free_s[i][j], done_s[i]) + exchange_s
                    ready_s[j] = max(ready_s[j], free_s[i][j])
    return ready_s


def balanced_ratios(points: Sequence[int], sample_s: Sequence[float]) -> list[float]:
    """Share of its points that each platform keeps so that all learn as long as the fastest."""
    fastest_s = None
    for count, seconds in zip(points, sample_s, strict=True):
        if fastest_s is None or count * seconds < fastest_s:
            fastest_s = count * seconds
    assert fastest_s is not None
    return [fastest_s / (count * seconds) for count, seconds in zip(points, sample_s, strict=True)]
