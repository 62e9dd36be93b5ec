"""The long chain of a recurrent network, priced in closed form by both countings.

A step's transposed Jacobian is a dense matrix of H x H for each sample. On b nodes with m steps
each, a scan by Hillis and Steele takes

- m - 1 moves within runs, products of two matrices on all nodes but the first;
- ceil(log2 b) moves between runs, each after a message: products of matrices, and where what
  precedes all of a run is known, of a matrix with a gradient;
- m moves that apply what precedes a run to its steps, products with a gradient.

As the paper counts, each of these costs a step's product with a gradient. By arithmetic a product
of two matrices costs H times that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.checks import check_whole
from workbench.errors import UserError
from workbench.names import check_name
from workbench.olpb.algorithms.schedules import Schedule
from workbench.olpb.costs.subtasks import Pool
from workbench.olpb.costs.timing import Work

COUNTINGS = ("paper", "arithmetic")
NUMBER_BYTES = 8


@dataclass(frozen=True)
class Chain:
    """A vanilla recurrent network: so many steps of `hidden` units, on a batch."""

    steps: int
    hidden: int
    batch_size: int = 1

    def __post_init__(self) -> None:
        for name in ("steps", "hidden", "batch_size"):
            check_whole(name, getattr(self, name), 1)

    @property
    def vector_flops(self) -> float:
        """Of a step's Jacobian times a gradient."""
        return 2.0 * self.batch_size * self.hidden**2

    @property
    def matrix_flops(self) -> float:
        """Of a product of two steps' Jacobians."""
        return self.vector_flops * self.hidden

    @property
    def gradient_bytes(self) -> int:
        """Of a message with a gradient."""
        return NUMBER_BYTES * self.batch_size * self.hidden

    @property
    def matrix_bytes(self) -> int:
        """Of a message with Jacobians."""
        return self.gradient_bytes * self.hidden

    def sequential_s(self, pool: Pool) -> float:
        """Seconds of plain back-propagation through the steps on the pool's first node."""
        return self.steps * (self.vector_flops / pool.nodes[0].flops_per_s + pool.dispatch_s)


def chain_work(planned: Schedule, chain: Chain, counting: str = "arithmetic") -> Work:
    """What a schedule of a chain's steps costs: elements are the loss's gradient, then the steps.

    Gradients of weights are left out on both sides: they are sums over all steps, which any order
    of nodes makes.
    """
    check_name("counting", counting, COUNTINGS)
    if planned.elements != chain.steps + 1:
        raise UserError(
            f"a chain of {chain.steps} steps has {chain.steps + 1} elements; the schedule is for "
            f"{planned.elements}"
        )
    product = chain.matrix_flops if counting == "arithmetic" else chain.vector_flops
    is_gradient = [False] * len(planned.homes)
    is_gradient[0] = True
    flops = []
    for move in (one for stage in planned.stages for one in stage):
        is_gradient[move.result] = is_gradient[move.left]
        flops.append(chain.vector_flops if is_gradient[move.left] else product)
    sizes = (chain.matrix_bytes, chain.gradient_bytes)
    sent = [float(sizes[one]) if counting == "arithmetic" else 0.0 for one in is_gradient]
    return Work(flops, sent, [0.0] * planned.elements)


def chain_scan_s(chain: Chain, pool: Pool, counting: str = "arithmetic") -> float:
    """Seconds of a chain's exclusive scan by Hillis and Steele on equal nodes, constant delays.

    The longest path in closed form. Node j, from 0, has the elements of run j and gets what
    precedes its run in the last of ceil(log2(j + 1)) steps; the first node has the gradient.

    Raises ValueError: an unknown counting.
    """
    check_name("counting", counting, COUNTINGS)
    elements = chain.steps + 1
    nodes = min(len(pool.nodes), elements)
    speed, bandwidth_bps = pool.nodes[0].flops_per_s, pool.nodes[0].bandwidth_bps
    vector_s = chain.vector_flops / speed + pool.dispatch_s
    arithmetic = counting == "arithmetic"
    product_s = (chain.matrix_flops / speed + pool.dispatch_s) if arithmetic else vector_s

    def sent_s(size_bytes: int) -> float:
        charged = arithmetic and bandwidth_bps is not None
        return pool.delay_s + (8 * size_bytes / bandwidth_bps if charged and bandwidth_bps else 0)

    least, longer = divmod(elements, nodes)
    runs = [least + (node < longer) for node in range(nodes)]
    # When each node's total is there. The last node's is not needed, so its run has a move less.
    within = [run - 1 for run in runs]
    within[-1] = max(within[-1] - 1, 0)
    at = [moves * (product_s if node else vector_s) for node, moves in enumerate(within)]
    free, gradient, distance = list(at), [node == 0 for node in range(nodes)], 1
    while distance < nodes:
        before, known = list(at), list(gradient)
        for node in range(distance, nodes - 1):
            source = node - distance
            arrives = before[source] + sent_s(
                chain.gradient_bytes if known[source] else chain.matrix_bytes
            )
            took = vector_s if known[source] else product_s
            at[node] = free[node] = max(free[node], arrives, before[node]) + took
            gradient[node] = known[source] or known[node]
        distance *= 2
    ends = [free[0]]
    for node in range(1, nodes):
        start = max(free[node], at[node - 1] + sent_s(chain.gradient_bytes))
        ends.append(start + (runs[node] - 1) * vector_s)
    return max(ends)


def nodes_to_pay(
    chain: Chain, pool: Pool, counting: str = "arithmetic", most: int = 1024
) -> int | None:
    """Fewest nodes, all as the pool's first, whose scan beats plain back-propagation on one.

    None if so many as `most` do not. Without delays and dispatches about H + 2 are needed by
    arithmetic: a node's run costs H + 1 products with a gradient for every step.
    """
    alone_s = chain.sequential_s(pool)
    for nodes in range(2, most + 1):
        if chain_scan_s(chain, replace(pool, nodes=pool.nodes[:1] * nodes), counting) < alone_s:
            return nodes
    return None
