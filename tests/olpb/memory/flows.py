"""Random dataflows: few sizes, so that many are equal, and some of nothing."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from workbench.olpb.memory.dataflow import Dataflow, Step


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
