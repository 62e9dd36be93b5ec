"""A step of training as a chain of stages, and what each needs.

A stage ends where only one buffer goes on, forward, which the backward pass reads, too: a layer, or
a block with branches. Its part of the backward pass reads nothing but what it made, what it got,
and the gradient of what it gave. So skips that reach far leave fewer stages, down to one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.memory.dataflow import Dataflow
from workbench.memory.lifetimes import lifetimes

Part = Literal["forward", "through", "again", "inner", "backward"]


@dataclass(frozen=True)
class Stage:
    """What a stage runs, by parts, and bytes, without those of its input.

    Attributes
    ----------
    steps
        ``forward``: all of the forward pass. ``through``: those that the output needs, with those
        that nothing does. ``again``: those that the backward pass needs; ``inner``: those of them
        that it needs if it has the output. ``backward``: of the backward pass, with the updates
        that follow.
    peaks
        Most bytes while a part runs, to what it leaves: ``through`` the output, ``forward`` also
        what the backward pass needs. ``passing`` is ``through``, with the input, which is let go
        of.
    output_bytes, saved_bytes, gradient_bytes
        Of what it gives; of that and what the backward pass needs; and of the gradients that its
        backward pass begins with.
    """

    steps: Mapping[Part, tuple[int, ...]]
    peaks: Mapping[str, int]
    output_bytes: int
    saved_bytes: int
    gradient_bytes: int


@dataclass(frozen=True)
class Stages:
    """Stages, and what is alive beside them all the time."""

    stages: tuple[Stage, ...]
    once: frozenset[int]  # steps that must not run again: what they make stays
    pinned_bytes: int  # of that, of what is small, and of what the forward pass returns


SMALL = 1 / 100
"""Share of the most bytes alive that the smallest buffers have together, which just stay."""


def stages_of(flow: Dataflow, order: Sequence[int]) -> Stages:
    """Stages of a dataflow whose passes each keep an order; none of one that does not train."""
    forward, backward = _passes(flow, order)
    if not backward or any(set(flow.before[at]) & {*backward} for at in forward):
        return Stages((), frozenset(), 0)
    behind = frozenset(at for at in forward if flow.steps[at].is_random or flow.steps[at].after)
    once = behind.union(*(flow.steps[at].after for at in behind))
    made = np.array([buffer for step in forward for buffer in flow.steps[step].makes], np.int64)
    made = made[np.argsort(flow.sizes[made], kind="stable")]
    together = flow.sizes[made].cumsum()
    stays = set(made[together <= SMALL * lifetimes(flow, order).bound_bytes].tolist())
    stays |= flow.kept.intersection(made.tolist())
    pinned = sorted(stays.union(*(flow.steps[at].makes for at in once)))
    sizes = flow.sizes.copy()
    sizes[pinned] = 0
    cuts = [
        _Cut(0, _NONE, len(backward)),
        *_cuts(flow, forward, backward, sizes),
        _Cut(len(forward), _NONE, 0),
    ]
    stages = []
    for before, after in pairwise(cuts):
        runs = _Runs(
            flow,
            sizes.tolist(),
            forward[before.forward : after.forward],
            backward[after.backward : before.backward],
            ({before.buffer} - {_NONE}, {after.buffer} - {_NONE}),
            (_across(flow, backward, after.backward), _across(flow, backward, before.backward)),
        )
        stages.append(runs.stage(once))
    return Stages(tuple(stages), once, int(flow.sizes[pinned].sum()))


def _passes(flow: Dataflow, order: Sequence[int]) -> tuple[list[int], list[int]]:
    """Steps of the forward and of the backward pass; updates that follow from it, in the former."""
    forward: dict[int, None] = {}
    backward: list[int] = []
    for step in order:
        is_update = flow.steps[step].phase == "update"
        if flow.steps[step].phase == "forward" or (
            is_update and all(earlier in forward for earlier in flow.before[step])
        ):
            forward[step] = None
        else:
            backward.append(step)
    return list(forward), backward


_NONE = -1  # goes on, at both ends


class _Cut(NamedTuple):
    """Steps before it in the forward pass and in the backward pass, and the buffer that goes on."""

    forward: int
    buffer: int
    backward: int


def _cuts(
    flow: Dataflow, forward: Sequence[int], backward: Sequence[int], sizes: NDArray[np.int64]
) -> list[_Cut]:
    """Where both passes can be cut, from the input on."""
    place = {step: at for at, step in enumerate(forward)}
    behind = {step: at for at, step in enumerate(backward)}
    own = [b for step in forward for b in flow.steps[step].makes if sizes[b]]
    reads = [[behind[reader] for reader in flow.readers[b] if reader in behind] for b in own]
    made = np.array([place[int(flow.maker[b])] for b in own])
    first = np.array([min(places, default=len(backward)) for places in reads])
    last = np.array([max(places, default=-1) for places in reads])
    # A step that overwrites what forward steps read, as an update does its weight, stays behind the
    # last of their stages' runs.
    after = [
        (place[earlier], behind[step])
        for step in backward
        for earlier in flow.steps[step].after
        if earlier in place
    ]
    ahead, overwriting = np.array(after, np.int64).reshape(-1, 2).T
    gradient_bytes = _crossing(flow, backward, sizes)
    found: list[_Cut] = []
    earliest = 0
    passing = [
        passed
        for passed in _passing(flow, forward, own)
        if first[own.index(passed[1])] < len(backward)
    ]
    for at, buffer in reversed(passing):
        other = np.array(own) != buffer
        begin = max(earliest, int(last[made >= at].max(initial=-1)) + 1)
        end = int(first[other & (made < at)].min(initial=len(backward)))
        end = int(overwriting[ahead < at].min(initial=end))
        if begin <= end:
            window = gradient_bytes[begin : end + 1]
            earliest = end - int(window[::-1].argmin())
            found.append(_Cut(at, buffer, earliest))
    return found[::-1]


def _passing(flow: Dataflow, forward: Sequence[int], own: Sequence[int]) -> list[tuple[int, int]]:
    """Places in the forward pass that a single buffer passes, and it; each buffer once."""
    place = {step: at for at, step in enumerate(forward)}
    ends = {
        b: max((place[reader] for reader in flow.readers[b] if reader in place), default=-1)
        for b in own
    }
    ending: dict[int, list[int]] = {}
    for buffer, end in ends.items():
        ending.setdefault(end, []).append(buffer)
    alive: set[int] = set()
    found: dict[int, int] = {}
    for at, step in enumerate(forward):
        alive.update(b for b in flow.steps[step].makes if ends.get(b, -1) > at)
        alive.difference_update(ending.get(at, ()))
        if len(alive) == 1:
            found.setdefault(next(iter(alive)), at + 1)
    return [(at, buffer) for buffer, at in found.items()]


def _crossing(
    flow: Dataflow, backward: Sequence[int], sizes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Bytes that go on at each place of the backward pass: (steps + 1,)."""
    place = {step: at for at, step in enumerate(backward)}
    change = np.zeros(len(backward) + 2, np.int64)
    for at, step in enumerate(backward):
        for buffer in flow.steps[step].makes:
            end = max((place[reader] for reader in flow.readers[buffer]), default=at)
            end = len(backward) if buffer in flow.kept else end
            change[at + 1] += sizes[buffer]
            change[end + 1] -= sizes[buffer]
    return change.cumsum()[:-1]


def _across(flow: Dataflow, backward: Sequence[int], at: int) -> set[int]:
    """Buffers that go on at a place of the backward pass."""
    read = {buffer for step in backward[at:] for buffer in flow.steps[step].reads} | flow.kept
    return {b for step in backward[:at] for b in flow.steps[step].makes if b in read}


class _Runs(NamedTuple):
    """Runs the parts of a stage, to see what they need; buffers before and after it, both ways."""

    flow: Dataflow
    sizes: Sequence[int]
    forward: Sequence[int]
    backward: Sequence[int]
    ends: tuple[set[int], set[int]]
    gradients: tuple[set[int], set[int]]

    def stage(self, once: Collection[int]) -> Stage:
        given, output = self.ends
        entering, leaving = self.gradients
        made = {b for step in self.forward for b in self.flow.steps[step].makes}
        read = {b for step in self.backward for b in self.flow.steps[step].reads}
        staying = {buffer for buffer in made if not self.sizes[buffer]}
        saved = (made & read) - staying
        unread = set(self.forward).difference(self._needed(output | staying | saved, once))
        through = self._needed(output | staying, unread.union(once))
        # Steps of each part, what is there before they run, and what stays.
        parts: dict[Part, tuple[tuple[int, ...], set[int], set[int]]] = {
            "forward": (tuple(self.forward), given, given | output | saved),
            "through": (through, given, given | output),
            "again": (self._needed(saved, ()), given, given | saved),
            "inner": (self._needed(saved - output, ()), given | output, given | output | saved),
            "backward": (tuple(self.backward), given | saved | entering, given | leaving),
        }
        peaks = {"passing": self._peak(through, given, output)}
        peaks |= {part: self._peak(*run) - self._bytes(given) for part, run in parts.items()}
        sizes = map(self._bytes, (output, saved | output, entering))
        return Stage({part: run[0] for part, run in parts.items()}, peaks, *sizes)

    def _needed(self, buffers: set[int], once: Collection[int]) -> tuple[int, ...]:
        """Steps that buffers, or a step that runs once, need."""
        wanted, needed = set(buffers), list[int]()
        for step in reversed(self.forward):
            current = self.flow.steps[step]
            if step in once or wanted.intersection(current.makes):
                wanted.update(current.reads)
                needed.append(step)
        return tuple(needed[::-1])

    def _bytes(self, buffers: Iterable[int]) -> int:
        return sum(self.sizes[buffer] for buffer in buffers)

    def _peak(self, steps: Sequence[int], there: set[int], stays: set[int]) -> int:
        """Most bytes alive while steps run, from what is there to what stays."""
        last = {b: at for at, step in enumerate(steps) for b in self.flow.steps[step].reads}
        live = peak = self._bytes(there)
        for at, step in enumerate(steps):
            current = self.flow.steps[step]
            ended = [b for b in current.reads if last[b] == at and b not in stays]
            ended += [b for b in current.makes if b not in last and b not in stays]
            made = self._bytes(current.makes)
            slides = len(current.makes) == 1 and any(
                b in current.overwrites and self.sizes[b] == made for b in ended
            )
            peak = max(peak, live + (0 if slides else made))
            live += made - self._bytes(ended)
        return peak
