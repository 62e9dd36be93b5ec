"""Times a real training iteration, layer by layer, while it runs as it always does.

The forward pass is marked where an operator of another layer starts, the backward pass where
an autograd node of another layer starts. From mark to mark the clock runs for one layer, so the
layers' seconds cover the whole of both passes, without gaps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from workbench.graphs.autograd_nodes import NodeCounter, NodeOwners, next_node, nodes_behind
from workbench.graphs.recorder import tensors_in
from workbench.graphs.recording import layers_by_module


class Clock(Protocol):
    """Gives marks now, and the seconds between them once all work is done."""

    def mark(self) -> Any:
        """Note the present moment."""

    def gaps_s(self, marks: Sequence[Any]) -> list[float]:
        """Seconds from each mark to the next."""


class CpuClock:
    """Operations have finished when they return: wall time."""

    def mark(self) -> float:
        """Time now, in seconds."""
        return time.perf_counter()

    def gaps_s(self, marks: Sequence[float]) -> list[float]:
        """Seconds from each mark to the next."""
        return [later - earlier for earlier, later in pairwise(marks)]


class CudaClock:
    """Operations are queued on a stream: events queued between them, read afterwards."""

    def mark(self) -> torch.cuda.Event:
        """Queue an event on the current stream."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def gaps_s(self, marks: Sequence[torch.cuda.Event]) -> list[float]:
        """Seconds from each event to the next, when the GPU has reached them all."""
        torch.cuda.synchronize()
        pairs = pairwise(marks)
        return [earlier.elapsed_time(later) / 1000 for earlier, later in pairs]


def clock_for(device: str) -> Clock:
    """Return the clock that is right for a device."""
    return CudaClock() if device.startswith("cuda") else CpuClock()


@dataclass
class Laps:
    """Marks of one pass: from `marks[i]` to `marks[i + 1]` the clock ran for `layers[i]`.

    `first_nodes[i]` is the number of the first autograd node that lap `i` may have made.
    """

    clock: Clock
    marks: list[Any]
    layers: list[int]
    first_nodes: list[int]

    @classmethod
    def start(cls, clock: Clock, layer: int) -> Laps:
        """Start the clock for `layer`, counted from 1."""
        return cls(clock, [clock.mark()], [layer], [-1])

    def switch(self, layer: int, first_node: int = -1) -> None:
        """Let the clock run for another layer from now on."""
        if layer != self.layers[-1]:
            self.marks.append(self.clock.mark())
            self.layers.append(layer)
            self.first_nodes.append(first_node)

    def stop(self) -> None:
        """End the last lap."""
        self.marks.append(self.clock.mark())

    def seconds(self, layer_count: int) -> list[float]:
        """Seconds per layer."""
        seconds = [0.0] * layer_count
        for layer, gap_s in zip(self.layers, self.clock.gaps_s(self.marks), strict=True):
            seconds[layer - 1] += gap_s
        return seconds


class OperatorMarks(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Switches laps by the layer of each operator, as recorded."""

    def __init__(self, laps: Laps, operations: Sequence[int]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.laps = laps
        self.operations = operations
        self.nodes = NodeCounter()
        self.seen = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        first_node = self.nodes.first_node()
        if self.seen < len(self.operations):
            self.laps.switch(self.operations[self.seen], first_node)
        self.seen += 1
        return func(*args, **(kwargs or {}))


Marking = Callable[[Laps], AbstractContextManager[object]]


def by_operators(operations: Sequence[int]) -> Marking:
    """Mark laps by the recorded layers of a module's operations."""

    @contextmanager
    def marking(laps: Laps) -> Iterator[None]:
        with OperatorMarks(laps, operations) as marks:
            yield
        if marks.seen != len(operations):
            raise ValueError(
                f"the module ran {marks.seen} operations, but {len(operations)} when it was "
                'traced: it changes from run to run. Measure it by="modules"'
            )

    return marking


def by_modules(module: nn.Module, layers: Sequence[str]) -> Marking:
    """Mark laps where a module that gave a layer its name is first called."""
    numbers = {name: number for number, name in enumerate(layers, start=1)}

    def marking(laps: Laps) -> AbstractContextManager[object]:
        def enter(name: str) -> None:
            if name in numbers:  # else: a module that was not called when layers were found
                laps.switch(numbers[name], next_node())

        return layers_by_module(module, enter)

    return marking


def whole_iteration_s(module: nn.Module, inputs: tuple[Tensor, ...], clock: Clock) -> float:
    """Seconds of one forward and backward pass, undisturbed."""
    module.zero_grad(set_to_none=True)
    marks = [clock.mark()]
    learnt = [out for out in tensors_in(module(*inputs)) if out.requires_grad]
    if learnt:
        torch.autograd.backward(learnt, [torch.ones_like(out) for out in learnt])
    marks.append(clock.mark())
    return clock.gaps_s(marks)[0]


def layered_iteration_s(
    module: nn.Module, inputs: tuple[Tensor, ...], clock: Clock, marking: Marking, layer_count: int
) -> tuple[list[float], list[float]]:
    """Seconds per layer of one forward and one backward pass."""
    module.zero_grad(set_to_none=True)
    forward = Laps.start(clock, 1)
    with marking(forward):
        outputs = tensors_in(module(*inputs))
    forward.stop()

    learnt = [out for out in outputs if out.requires_grad]
    if not learnt:
        return forward.seconds(layer_count), [0.0] * layer_count
    owners = NodeOwners(forward.first_nodes)
    backward = Laps.start(clock, layer_count)
    backward.marks.clear()  # the clock starts when the hooks are in place
    handles = [
        node.register_prehook(_switcher(backward, forward.layers[owners[node._sequence_nr()]]))
        for node in nodes_behind(learnt)
    ]
    backward.marks.append(clock.mark())
    torch.autograd.backward(learnt, [torch.ones_like(out) for out in learnt])
    backward.stop()
    for handle in handles:
        handle.remove()
    return forward.seconds(layer_count), backward.seconds(layer_count)


def update_s(layers: Sequence[Sequence[Tensor]], clock: Clock) -> list[float]:
    """Seconds per layer of a plain SGD step; at rate zero, so that the weights stay."""
    marks = [clock.mark()]
    with torch.no_grad():
        for parameters in layers:
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.add_(parameter.grad, alpha=-0.0)
            marks.append(clock.mark())
    return clock.gaps_s(marks)


def _switcher(laps: Laps, layer: int) -> Callable[[object], None]:
    def before(_: object) -> None:
        laps.switch(layer)

    return before
