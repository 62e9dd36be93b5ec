"""Ako: a block of the accumulated gradient in turn, without waiting (Watcharapichat et al. 2016).

The gradient is cut into p blocks. Iteration t sends block t mod p, with the sum of the gradients
since it was last sent. p is as small as the slowest link allows, by what it carries while an
iteration computes (here Sec. 5.1.4), and set once, when all links have been used.

Deviation: how many blocks there are before that is not stated; here six.
"""

import math

from workbench.dlion.algorithms.synchronisation import asynchronous
from workbench.dlion.algorithms.system import System
from workbench.dlion.gradient import ErrorFeedback, Gradient, Links, Parts
from workbench.dlion.part import Part, Piece

FIRST = 6
"""Blocks until bandwidth is known."""


class Blocks:
    """Send everyone the next block of what has accumulated; or of the gradient alone.

    Hong & Chandra (Sec. 5.1.4) do not say that their Ako accumulates.
    """

    def __init__(self, *, accumulate: bool = True) -> None:
        self.left = ErrorFeedback() if accumulate else None
        self.blocks = 0  # how many; 0 until bandwidth is known
        self.turn = 0

    def __call__(self, gradient: Gradient, links: Links) -> Parts:
        """Add to all blocks and send one."""
        # The sum itself, not a copy.
        total = gradient.values if self.left is None else self.left.plus(gradient.values)
        if not self.blocks:
            self.blocks = blocks(gradient.values.nbytes, links)
            self.turn = 0 if self.blocks else self.turn
        count, size = self.blocks or FIRST, len(total)
        block = slice(size * self.turn // count, size * (self.turn + 1) // count)
        values = total[block].copy()
        values.flags.writeable = False
        if self.left is not None:
            total[block] = 0
        self.turn = (self.turn + 1) % count
        return dict.fromkeys(links.peers, Part((Piece(block, values),) if len(values) else ()))


def blocks(gradient_bytes: float, links: Links) -> int:
    """Blocks so that every link carries one while an iteration computes; 0 where one is unknown."""
    budgets = [links.budget_bytes(peer) for peer in links.peers]
    if not budgets or None in budgets:
        return 0
    return max(1, math.ceil(gradient_bytes / min(filter(None, budgets))))


AKO = System("Ako", Blocks, asynchronous)
