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
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from workbench.profiles.autograd_nodes import NodeCounter, nodes_behind, owner
from workbench.profiles.private import next_sequence_number
from workbench.profiles.recorder import tensors_in
from workbench.profiles.recording import layers_by_module, run_backward
from workbench.utils.checks import UserError


@dataclass(frozen=True)
class Clock:
    """A way of marking moments, and of the seconds from each to the next, once all work is done."""

    mark: Callable[[], Any]
    gaps_s: Callable[[Sequence[Any]], list[float]]


def clock_for(device: str) -> Clock:
    """Wall time where operators have finished when they return; else events queued between them."""
    if not device.startswith("cuda"):
        return Clock(time.perf_counter, lambda marks: [b - a for a, b in pairwise(marks)])

    def mark() -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def gaps_s(marks: Sequence[torch.cuda.Event]) -> list[float]:
        torch.cuda.synchronize()
        return [earlier.elapsed_time(later) / 1000 for earlier, later in pairwise(marks)]

    return Clock(mark, gaps_s)


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

    def __init__(self, laps: Laps, layers: Sequence[int]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.laps = laps
        self.layers = layers
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
        if self.seen < len(self.layers):
            self.laps.switch(self.layers[self.seen], first_node)
        self.seen += 1
        return func(*args, **(kwargs or {}))


Marking = Callable[[Laps], AbstractContextManager[object]]


def by_operators(layers: Sequence[int]) -> Marking:
    """Mark laps by the recorded layers of a module's operators."""

    @contextmanager
    def marking(laps: Laps) -> Iterator[None]:
        with OperatorMarks(laps, layers) as marks:
            yield
        if marks.seen != len(layers):
            raise UserError(
                f"the module ran {marks.seen} layers, but {len(layers)} when it was "
                'traced: it changes from run to run. Measure it by="modules"'
            )

    return marking


def by_modules(module: nn.Module, layers: Sequence[str]) -> Marking:
    """Mark laps where a module that gave a layer its name is first called."""
    numbers = {name: number for number, name in enumerate(layers, start=1)}

    def marking(laps: Laps) -> AbstractContextManager[object]:
        def enter(name: str) -> None:
            if name in numbers:  # else: a module that was not called when layers were found
                laps.switch(numbers[name], next_sequence_number())

        return layers_by_module(module, enter)

    return marking


def whole_iteration_s(module: nn.Module, run: Callable[[], object], clock: Clock) -> float:
    """Seconds of one forward and backward pass, undisturbed; `run` is the module's forward pass."""
    module.zero_grad(set_to_none=True)
    marks = [clock.mark()]
    run_backward(tensors_in(run()))
    marks.append(clock.mark())
    return clock.gaps_s(marks)[0]


def layered_iteration_s(
    module: nn.Module, run: Callable[[], object], clock: Clock, marking: Marking, layer_count: int
) -> tuple[list[float], list[float]]:
    """Seconds per layer of one forward and one backward pass."""
    module.zero_grad(set_to_none=True)
    forward = Laps.start(clock, 1)
    with marking(forward):
        outputs = tensors_in(run())
    forward.stop()

    if not any(output.requires_grad for output in outputs):
        return forward.seconds(layer_count), [0.0] * layer_count
    backward = Laps.start(clock, layer_count)
    handles = []
    for node in nodes_behind(outputs):
        layer = forward.layers[owner(node, forward.first_nodes)]
        handles.append(node.register_prehook(lambda _, layer=layer: backward.switch(layer)))
    backward.marks[0] = clock.mark()  # the clock starts when the hooks are in place
    run_backward(outputs)
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
