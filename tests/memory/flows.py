"""Random dataflows: few sizes, so that many are equal, and some of nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from workbench.memory.dataflow import Dataflow, Step


@st.composite
def flows(draw: st.DrawFn, most: int = 12) -> Dataflow:
    """Steps that read some of what is there, make up to two buffers, and may overwrite."""
    steps: list[Step] = []
    sizes: list[int] = []
    for number in range(draw(st.integers(1, most))):
        there = list(range(len(sizes)))
        reads = draw(st.lists(st.sampled_from(there), max_size=3, unique=True)) if there else []
        made = draw(st.integers(0 if reads else 1, 2))
        makes = tuple(range(len(sizes), len(sizes) + made))
        sizes += [draw(st.sampled_from((0, 1, 2, 2, 4, 10))) for _ in makes]
        over = draw(st.sets(st.sampled_from(reads))) if reads and made == 1 else set()
        after = draw(st.sets(st.integers(0, number - 1), max_size=1)) if number else set()
        steps.append(
            Step(
                f"step {number}",
                "forward",
                tuple(reads),
                makes,
                tuple(sorted(over)),
                tuple(sorted(after)) if not draw(st.booleans()) else (),
                draw(st.integers(0, 3)),
                number,
            )
        )
    kept = draw(st.sets(st.sampled_from(range(len(sizes))), max_size=3))
    return Dataflow(tuple(steps), np.array(sizes, np.int64), frozenset(kept))


def chain(*sizes: int) -> Dataflow:
    steps = [Step("0", "forward", (), (0,))]
    steps += [Step(str(n), "forward", (n - 1,), (n,), (n - 1,)) for n in range(1, len(sizes))]
    return Dataflow(tuple(steps), np.array(sizes, np.int64), frozenset({len(sizes) - 1}))


@st.composite
def training_chains(draw: st.DrawFn, most: int = 5, *, alike: bool = False) -> Dataflow:
    """A layer a step forward and a step back, which reads its input, perhaps its output and more.

    Alike: all layers have the same size and work, and only their inputs are read.
    """
    count = draw(st.integers(2, most))
    sizes: list[int] = []

    def made(size: int) -> int:
        sizes.append(size)
        return len(sizes) - 1

    same = draw(st.integers(1, 3))
    drawn = st.just(same) if alike else st.integers(1, 4)
    steps: list[Step] = []
    reads: list[tuple[int, ...]] = []
    value: tuple[int, ...] = ()
    for number in range(count):
        output = made(draw(drawn))
        saved = () if alike or draw(st.booleans()) else (made(draw(drawn)),)
        flops = 5 if alike else draw(st.integers(0, 20))
        steps.append(Step(f"f{number}", "forward", value, (output, *saved), flops=flops))
        is_read = number == count - 1 or (not alike and draw(st.booleans()))
        reads.append((*value, *saved, *((output,) if is_read else ())))
        value = (output,)
    gradient: tuple[int, ...] = ()
    for number in reversed(range(count)):
        result = made(draw(drawn))
        steps.append(Step(f"b{number}", "backward", (*gradient, *reads[number]), (result,)))
        gradient = (result,)
    numbered = tuple(replace(one, operator=at) for at, one in enumerate(steps))
    return Dataflow(numbered, np.array(sizes, np.int64), frozenset(gradient))
