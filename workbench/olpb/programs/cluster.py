"""Nodes of a pool and the edge server on the simulated network, and the delays between nodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.clusters import Cluster, Link, full_mesh
from workbench.clusters import Node as Machine
from workbench.olpb.costs.subtasks import Pool
from workbench.runtime import Message

if TYPE_CHECKING:
    from workbench.runtime import Context

SERVER = "server"


def cluster_of(pool: Pool) -> Cluster:
    """The pool's nodes as ``node0, node1, …``, and the server behind them; all are linked.

    Links carry everything at once: a message's delay is part of what it says (`Delayed`), since it
    is drawn for each.
    """
    names = [*(f"node{number}" for number in range(len(pool.nodes))), SERVER]
    return full_mesh([Machine(name) for name in names], Link(math.inf))


class Delayed(NamedTuple):
    """A value on its way: the receiver has it from `arrives_s` on."""

    value: Any
    arrives_s: float


Send = Callable[["Context", int, str, Any, float], None]
"""Sends a value, given its target, topic and bytes: `Delays.send`, or `send_by_link`."""


def send_by_link(context: Context, target: int, topic: str, value: Any, size_bytes: float) -> None:
    """Send a value over a link of the cluster, which takes all of its time."""
    context.send(target, Message(context.node, topic, Delayed(value, 0.0), size_bytes))


@dataclass(frozen=True)
class Delays:
    """Delays of messages from one node of a pool to another.

    `delay_s` of the pool, times a draw of Exp(1) where they are `random` (Sec. VII), and its bytes
    over the sender's bandwidth. Messages do not wait for each other. Those from and to the server
    take no time: the paper measures the backward pass alone.
    """

    pool: Pool
    random: bool = False

    def send(
        self, context: Context, target: int, topic: str, value: Any, size_bytes: float
    ) -> None:
        """Send a value to another node of the pool; drawn from the sender's own generator."""
        delay_s = self.pool.delay_s
        if self.random:
            delay_s *= float(context.random.exponential())
        delay_s += self.pool.nodes[context.node].sending_s(size_bytes)
        arriving = Delayed(value, context.now_s() + delay_s)
        context.send(target, Message(context.node, topic, arriving, size_bytes))


async def arrived(context: Context, delayed: Delayed) -> Any:
    """Wait for a value to arrive."""
    left_s = delayed.arrives_s - context.now_s()
    if left_s > 0:
        await context.sleep(left_s)
    return delayed.value


def seconds(pool: Pool, node: int, flops: float, dispatches: int = 1) -> float:
    """Seconds of a node for some arithmetic, each dispatch of it included."""
    return dispatches * pool.dispatch_s + flops / pool.nodes[node].flops_per_s
