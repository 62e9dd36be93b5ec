"""A scan in batches as an event loop: nodes, tasks, messages (OLPB, Sec. IV and Alg. 2)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

Value = tuple[int, int]
"""Subtask k, and h: what s[k] is after the h-th iteration; -1: as the node made it."""


class Task(NamedTuple):
    """What a node does next: it needs values, takes a while, and has another one."""

    needs: tuple[Value, ...]
    took_s: float
    has: Value


class Ended(NamedTuple):
    """When the last node was done, and what each s[k] has combined, in order."""

    at_s: float
    combined: dict[int, tuple[int, ...]]


def hillis_steele(makes_s: Sequence[float], nodes: int, dispatch_s: float, delay_s: float) -> Ended:
    """Alg. 2 on batches of as many subtasks as nodes; the first takes in all before its batch."""
    tasks: list[list[Task]] = [[] for _ in range(nodes)]
    last: Value | None = None
    finals: list[Value] = []
    for start in range(0, len(makes_s), nodes):
        batch = range(start, min(start + nodes, len(makes_s)))
        latest = {k: (k, -1) for k in batch}
        for k in batch:
            tasks[k - start].append(Task((), makes_s[k], latest[k]))
        if last is not None:
            tasks[0].append(Task((last, latest[start]), dispatch_s, (start, 0)))
            latest[start] = (start, 0)
        h = 1
        while 2 ** (h - 1) < len(batch):
            before = dict(latest)
            for place, k in enumerate(batch):
                if place >= 2 ** (h - 1):
                    needs = (before[k - 2 ** (h - 1)], before[k])
                    tasks[place].append(Task(needs, dispatch_s, (k, h)))
                    latest[k] = (k, h)
            h += 1
        last = latest[batch[-1]]
        finals += [latest[k] for k in batch]
    at_s, combined = _run(tasks, delay_s)
    return Ended(at_s, {value[0]: combined[value] for value in finals})


def _run(tasks: list[list[Task]], delay_s: float) -> tuple[float, dict[Value, tuple[int, ...]]]:
    """Every node does its tasks in a row, each once it has the values; the rest is messages."""
    nodes = range(len(tasks))
    wanted = {(need, node) for node in nodes for task in tasks[node] for need in task.needs}
    held: list[set[Value]] = [set() for _ in nodes]
    combined: dict[Value, tuple[int, ...]] = {}
    busy = [False] * len(tasks)
    events: list[tuple[float, int, str, int, Task | Value]] = []
    count, now_s = 0, 0.0

    def push(at_s: float, kind: str, node: int, what: Task | Value) -> None:
        nonlocal count
        heapq.heappush(events, (at_s, count, kind, node, what))
        count += 1

    def start(node: int) -> None:
        if not busy[node] and tasks[node] and set(tasks[node][0].needs) <= held[node]:
            busy[node] = True
            task = tasks[node].pop(0)
            push(now_s + task.took_s, "done", node, task)

    for node in nodes:
        start(node)
    while events:
        now_s, _, kind, node, what = heapq.heappop(events)
        if kind == "done":
            assert isinstance(what, Task)
            busy[node] = False
            parts = [combined[need] for need in what.needs]
            combined[what.has] = sum(parts, ()) if parts else (what.has[0],)
            held[node].add(what.has)
            for other in nodes:
                if other != node and (what.has, other) in wanted:
                    push(now_s + delay_s, "message", other, what.has)
        else:
            assert not isinstance(what, Task)
            held[node].add(what)
        start(node)
    assert not any(tasks), "a node waits for a value that nobody sends"
    return now_s, combined
