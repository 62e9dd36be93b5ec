"""Moshpit SGD (Ryabinin et al. 2021, arXiv 2103.03239, Algs. 1 and 2): averaging in groups.

The workers stand on a grid of d dimensions with sides of M. After every `period` local steps those
on a line along an axis average their models; the axis is another in every round. On a full grid, d
rounds without learning make everyone's model the mean of all.

Deviation: a worker's place is that of its number, written in d digits to the base M, not looked up
in a distributed hash table. M is the least with room for all on M^d places, and lines may lack
workers: six workers on 3 x 3 places have lines of 3, and across of 2; seven have 3, 3, 1, and
across 3, 2, 2. Where a grid is neither full nor a rectangle, d rounds come only near the mean,
which no round moves. On a line everyone sends everyone its model, where the paper splits the sums
(butterfly all-reduce): the same mean of more bytes. Who is gone is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from workbench.decentralised.exchange import MakeExchange, Step
from workbench.decentralised.exchanges.arrays import ArrayExchange
from workbench.utils.checks import at_least

if TYPE_CHECKING:
    from workbench.decentralised.worker import Worker


@dataclass(frozen=True)
class MoshpitSgd(MakeExchange):
    """Moshpit SGD: averages in the lines of a grid of workers, along another axis in each round.

    A round follows `period` local steps; the grid has `dimensions`.
    """

    period: int = field(default=50, metadata=at_least(1))
    dimensions: int = field(default=2, metadata=at_least(1))

    def __call__(self, worker: Worker) -> GridRounds:
        """Make a worker's part."""
        return GridRounds(self, worker)


def line(node: int, nodes: int, dimensions: int, axis: int) -> list[int]:
    """All nodes on a node's line along an axis, itself included, ascending."""
    side = next(side for side in count(1) if side**dimensions >= nodes)
    step = side**axis
    first = node - node // step % side * step
    return list(range(first, min(first + side * step, nodes), step))


class GridRounds(ArrayExchange):
    """A worker's rounds of averaging along the lines of the grid."""

    def __init__(self, options: MoshpitSgd, worker: Worker) -> None:
        super().__init__(worker)
        self.options = options

    async def after_step(self, step: Step) -> None:
        """Take the local step; at the end of a round, average along its axis."""
        worker, options, iteration = self.worker, self.options, step.iteration
        worker.learner.step()
        if iteration % options.period:
            return
        axis = (iteration // options.period - 1) % options.dimensions
        group = {*line(worker.node, worker.nodes, options.dimensions, axis)}
        others = sorted(group & {*worker.alive})
        models = [own for (own,) in await self.all_gather(others, iteration, worker.weights)]
        worker.weights[:] = np.mean(models, axis=0)
