"""A training by OLPB, BPPSA, DPB or plain back-propagation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench import training
from workbench.checks import check_kind, check_number, check_truth
from workbench.errors import UserError
from workbench.names import check_name
from workbench.olpb.algorithms.methods import LEVEL, MODULES
from workbench.olpb.algorithms.schedules import ALGORITHMS
from workbench.olpb.costs.backward import MOVES
from workbench.olpb.costs.subtasks import Pool
from workbench.olpb.programs.cluster import cluster_of

if TYPE_CHECKING:
    from workbench.clusters import Cluster

GRADIENTS = ("autograd", "scan")
COUNTINGS = ("paper", "arithmetic")


@dataclass(frozen=True)
class Setup(training.WholeBatches):
    """A training on a pool of nodes.

    Attributes
    ----------
    model, dataset, sgd, seed, epochs, iterations
        As for `workbench.training.WholeBatches`.
    pool
        The nodes. The server computes as fast as the fastest of them.
    batch_size
        Samples of an iteration.
    evaluate_every
        Iterations from one evaluation to the next; by default one at the end of each epoch.
    level, scan
        Of OLPB and BPPSA: levels in a group (OLPB alone), and a name in `schedules.ALGORITHMS`.
    modules
        Of DPB.
    random_delays
        Whether a message takes ``Exp(1) * delay_s``, or `delay_s`.
    gradients
        Of OLPB and BPPSA. ``"autograd"``: nodes take the seconds that the scan takes, and the
        gradients, which are equal to 1e-10, come from autograd. ``"scan"``: nodes multiply the
        Jacobians themselves, in double precision: a batch of 32 of LeNet-5 takes 100 to 300 times
        as long on one machine, so networks must be small.
    counting
        Of OLPB and BPPSA: what moves cost, as the ``"paper"`` counts or as their ``"arithmetic"``
        does, which the scan's own products tell.
    operator_flops
        FLOPs in the time that an operator takes whatever its size, forward and backward.
    moves
        As the paper counts: when gradients are paid, a name in `costs.backward.MOVES`.

    Raises
    ------
    ValueError
        What no training takes; numbers out of range, unknown names, a dataset smaller than a
        batch, or arithmetic that is counted but not carried out.
    TypeError
        No `Pool`.
    """

    pool: Pool
    batch_size: int = 32
    evaluate_every: int | None = None
    level: int = LEVEL
    scan: str = "hillis_steele"
    modules: int = MODULES
    random_delays: bool = False
    gradients: str = "autograd"
    counting: str = "paper"
    operator_flops: float = 0.0
    moves: str = "each"

    in_own_type = True

    def __post_init__(self) -> None:
        check_kind("pool", self.pool, Pool, "a Pool, such as Pool((Node(1e9),) * 4)")
        self._check_counts(batch_size=1, level=1, modules=1)
        super().__post_init__()
        if self.evaluate_every is not None:
            self._check_counts(evaluate_every=1)
        check_truth("random_delays", self.random_delays)
        if not 0 <= check_number("operator_flops", self.operator_flops) < math.inf:
            raise UserError(f"operator_flops is {self.operator_flops}; it must be at least 0")
        check_name("scan", self.scan, ALGORITHMS)
        check_name("way of finding gradients", self.gradients, GRADIENTS)
        check_name("counting", self.counting, COUNTINGS)
        check_name("cost of a move", self.moves, MOVES)
        if (self.gradients, self.counting) == ("autograd", "arithmetic"):
            raise UserError(
                "counting='arithmetic' needs the products of the scan; give gradients='scan', or "
                "counting='paper'"
            )

    @property
    def samples_per_batch(self) -> int:
        """As given."""
        return self.batch_size

    @property
    def evaluated(self) -> tuple[int, ...]:
        """Iterations after which the model is evaluated; the last is one of them."""
        last = self.epoch_ends[-1]
        if self.evaluate_every is None:
            return self.epoch_ends
        return tuple(sorted({*range(self.evaluate_every, last, self.evaluate_every), last}))

    @property
    def cluster(self) -> Cluster:
        """The pool's nodes, and the server."""
        return cluster_of(self.pool)
