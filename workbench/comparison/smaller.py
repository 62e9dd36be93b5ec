"""The largest batches, accumulated to the same step, with which some method fits in memory."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from workbench.comparison.methods.all_reduce import MOST_NODES
from workbench.comparison.problem import Problem


class SmallerBatches(NamedTuple):
    """Batches smaller than the problem's, with as many samples a step, and methods that then fit.

    Attributes
    ----------
    batch_size, accumulate
        As of a `Problem`.
    methods
        Names in `METHODS`, of those whose memory is known before they are planned.
    """

    batch_size: int
    accumulate: int
    methods: tuple[str, ...]

    def __str__(self) -> str:
        first, *others = self.methods
        fit = f"these fit: {'; '.join(self.methods)}" if others else f"{first} fits"
        return f"With batches of {self.batch_size} accumulated {self.accumulate} times, {fit}."


def smaller_batches(problem: Problem, among: Collection[str]) -> SmallerBatches | None:
    """Halve the batch while it is even, then try 1, until one of these methods fits.

    Memory alone decides, and nothing is planned; so methods count that keep the whole model on each
    node: one node, an all-reduce and a parameter server. None where none fits, or the memory of a
    step is not known.
    """
    size, accumulate = problem.batch_size, problem.accumulate
    while size > 1 and problem.memory is not None:
        factor = size if size % 2 else 2
        size, accumulate = size // factor, accumulate * factor
        if methods := tuple(name for name in _fitting(problem, size) if name in among):
            return SmallerBatches(size, accumulate, methods)
    return None


def _fitting(problem: Problem, size: int) -> list[str]:
    """Methods that learn from all samples and fit with batches of this size."""
    nodes, owners = range(len(problem.cluster)), problem.owners
    fitting = [node for node in nodes if problem.fits(node, size)]
    alone = len(owners) == 1 and owners[0] in fitting
    sent = len(nodes) > 1 and problem.cluster.raw_samples_may_leave and bool(fitting)
    workers = {*owners} <= {*fitting}
    served = any(
        problem.fits(node, size if node in owners else 0, serves=True)
        for node in nodes
        if {node} != {*owners}
    )
    usable = {
        "all-reduce": workers and 2 <= len(owners) <= MOST_NODES,
        "parameter server, dynacomm": workers and served,
        "one node": alone,
        "one node, samples sent once": sent,
    }
    return [name for name, fits in usable.items() if fits]
