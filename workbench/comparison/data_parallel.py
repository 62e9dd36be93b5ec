"""An epoch of data-parallel training on one large batch, as Hivemind does it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from workbench.clusters import Cluster
from workbench.runtime import Context, Program, simulate
from workbench.sharding.collectives import all_reduce, assemble
from workbench.utils.checks import UserError, check_number


@dataclass(frozen=True)
class Averaging:
    """Seconds of a round of averaging beside those of the network.

    Parameters
    ----------
    round_s
        Seconds a round, whatever its size: forming the group, and the step that follows.
    handled_bps
        Rate at which a machine's averaging process encodes, adds up and decodes, in bits that the
        machine sends. The process does one thing at a time, so this adds to transport.
    """

    round_s: float = 0.0
    handled_bps: float = math.inf

    def __post_init__(self) -> None:
        if not 0 <= check_number("round_s", self.round_s) < math.inf:
            raise UserError(f"round_s is {self.round_s}; it must be finite and at least 0")
        if not check_number("handled_bps", self.handled_bps) > 0:
            raise UserError(f"handled_bps is {self.handled_bps}; it must be above 0")


def data_parallel(
    parameters_bytes: float,
    compute_s: float,
    averaging: Averaging,
) -> Program:
    """Return the program of every machine; its result is the time at which the epoch ended.

    All machines compute for `compute_s`, after which their samples make up the batch; then they
    form a group and average gradients of `parameters_bytes`.

    Deviation: Hivemind cuts a share into parts of half a megabyte and averages one while the next
    arrive. With parts that small, transport would hide handling, but runs of a large model with
    several machines in a region are slower than that; with whole shares the two add up.
    """

    async def program(context: Context) -> float:
        group, byte_s = sorted((context.node, *context.peers)), 8 / averaging.handled_bps
        await context.compute(lambda: None, cost_s=compute_s, label="samples")
        await assemble(context, group)
        await context.sleep(averaging.round_s)
        await all_reduce(context, group, None, parameters_bytes, byte_s=byte_s)
        return context.now_s()

    return program


def predict_epoch_s(
    cluster: Cluster,
    parameters_bytes: float,
    compute_s: float,
    averaging: Averaging,
) -> float:
    """Seconds of an epoch, simulated on a cluster in which all machines are linked."""
    program = data_parallel(parameters_bytes, compute_s, averaging)
    last_s: float = max(simulate(cluster, [program] * len(cluster)).results.values())
    return last_s
