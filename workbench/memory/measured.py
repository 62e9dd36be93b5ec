"""Memory measured: of a graph in its arena, and of the module itself by PyTorch's allocator."""

from __future__ import annotations

import copy
import gc
import os
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from workbench.memory.arena import Arena
from workbench.memory.executor import check_inputs
from workbench.memory.plan import MemoryPlan
from workbench.memory.planning import plan_memory
from workbench.memory.tracing.functional import LEARNING_RATE, Loss, default_loss
from workbench.profiles.graph import OperatorGraph
from workbench.profiles.private import memory_events
from workbench.utils.checks import UserError, check_whole


@dataclass(frozen=True)
class MemoryMeasurement:
    """Bytes and seconds of a graph in an arena, and of the module as PyTorch runs it.

    Neither counts weights and inputs. A step of training counts the gradients of both.
    """

    plan: MemoryPlan
    arena_bytes: int  # of the arena's block: the plan's, and what aligns its beginning
    beside_bytes: int  # most that operators allocate beside it, until results are copied
    plain_bytes: int  # most that PyTorch's allocator holds while the module runs
    build_s: float  # to plan the memory and to make the arena
    arena_s: tuple[float, ...]  # of each run, by turns
    plain_s: tuple[float, ...]


def measure_memory(
    graph: OperatorGraph,
    inputs: Sequence[Tensor] | Tensor,
    *,
    planner: str = "workbench",
    budget: str | int | None = None,
    repeats: int = 5,
    loss: Loss | None = None,
) -> MemoryMeasurement:
    """Run a graph in an arena and its module without one, in this process, by turns.

    Parameters
    ----------
    graph, loss
        Of `workbench.memory.trace`, optimised or not, and the loss that it was traced with. Its
        module is not changed.
    inputs
        As `Arena.run` takes them: for a step of training, classes come last.
    planner, budget
        As for `plan_memory`.
    repeats
        Runs that are timed, of each; one before them is not.
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    check_inputs(graph, given)
    check_whole("repeats", repeats, 1)
    began_s = time.perf_counter()
    plan = plan_memory(graph, planner, budget)
    arena = Arena(plan)
    build_s = time.perf_counter() - began_s
    plain = _plain(graph, given, loss)
    runs: tuple[Callable[[], object], Callable[[], object]] = (lambda: arena.run(given), plain)
    for run in runs:
        run()
    beside_bytes, plain_bytes = allocations(runs)
    arena_s, plain_s = zip(*(map(_seconds, runs) for _ in range(repeats)), strict=True)
    return MemoryMeasurement(
        plan, arena.block.nbytes, beside_bytes, plain_bytes, build_s, arena_s, plain_s
    )


_MARK = "workbench: a call"
ONE_AT_A_TIME = threading.RLock()
"""Held by the thread that profiles or plans: PyTorch's profiler and tracer are the process's."""


def allocations(runs: Iterable[Callable[[], object]]) -> list[int]:
    """Most bytes that PyTorch's allocator holds during each call, beyond those before it."""
    return [max(accumulate(changes, initial=0)) for changes in allocation_changes(runs)]


def allocation_changes(runs: Iterable[Callable[[], object]]) -> list[list[int]]:
    """Bytes of each allocation, and negative ones of each release, during each call."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or it writes to standard error
    cpu, count = [torch.profiler.ProfilerActivity.CPU], 0
    with ONE_AT_A_TIME:
        was_enabled = gc.isenabled()
        gc.collect()  # so that what is unreachable before does not count as freed meanwhile
        gc.disable()
        try:
            with torch.profiler.profile(activities=cpu, profile_memory=True) as profiled:
                for run in runs:
                    with torch.profiler.record_function(_MARK):
                        run()
                    del run  # with the numbers that it holds, before the next is made
                    count += 1
        finally:
            if was_enabled:
                gc.enable()
    marks, changes = memory_events(profiled, _MARK)
    times = [at_ns for at_ns, _ in changes]
    found = list[list[int]]()
    for first_ns, last_ns in marks:
        during = changes[bisect_left(times, first_ns) : bisect_right(times, last_ns)]
        found.append([size for _, size in during])
    assert len(found) == count
    return found


def _seconds(run: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    run()
    return time.perf_counter() - began_s


def _plain(
    graph: OperatorGraph, given: Sequence[Tensor], loss: Loss | None
) -> Callable[[], object]:
    """The module's own inference, or a step of training with PyTorch's SGD."""
    if graph.module is None:
        raise UserError(f"{graph.name} has no weights to run with: trace a module")
    module = copy.deepcopy(graph.module())
    if all(operator.phase == "forward" for operator in graph.operators):
        module.eval()

        def infer() -> object:
            with torch.no_grad():
                return module(*given)

        return infer
    module.train()
    sgd = torch.optim.SGD(module.parameters(), LEARNING_RATE)
    count = len(graph.inputs) - graph.targets
    samples, targets = given[:count], given[count:]

    def step() -> object:
        output = module(*samples)
        value = (loss or default_loss)(output, *targets)
        value.backward()  # type: ignore[no-untyped-call]
        sgd.step()
        sgd.zero_grad(set_to_none=True)
        return value.detach()

    return step
