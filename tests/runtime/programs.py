"""Clusters and programs of many tests; `UNIT_S` is what times are counted in on a real clock."""

from __future__ import annotations

from workbench.clusters import Cluster, Link, Node
from workbench.runtime import Context, Message, Program

UNIT_S = 0.2
"""Seconds; long enough that a real machine keeps the order of what is a unit apart."""

SIZE = 200_000.0
"""Bytes that `LINK` carries in a unit."""

BPS = SIZE * 8 / UNIT_S
LINK = Link(BPS)


def pair(link: Link = LINK, one: Node | None = None, two: Node | None = None) -> Cluster:
    return Cluster(
        [one or Node("one"), two or Node("two")], {("one", "two"): link, ("two", "one"): link}
    )


def units(*times: float) -> list[float]:
    """Times in seconds."""
    return [time * UNIT_S for time in times]


def sends(*sizes: float, to: int | str = 1, at: float = 0) -> Program:
    """Send messages of these sizes in units, one behind the other, their number as their topic."""
    return sends_bytes(*(size * SIZE for size in sizes), to=to, at_s=at * UNIT_S)


def sends_bytes(*sizes: float, to: int | str = 1, at_s: float = 0) -> Program:
    """The same with sizes in bytes, and seconds."""

    async def program(context: Context) -> None:
        await context.sleep(at_s)
        for number, size_bytes in enumerate(sizes):
            context.send(to, Message(context.node, str(number), None, size_bytes))

    return program


def posts(*messages: Message, to: int = 1) -> Program:
    """Send these messages at once."""

    async def program(context: Context) -> None:
        for message in messages:
            context.send(to, message)

    return program


def computes(count: int, cost_s: float) -> Program:
    """Compute this many steps and return when each ended."""

    async def program(context: Context) -> list[float]:
        ends_s = []
        for _ in range(count):
            await context.compute(lambda: None, cost_s=cost_s)
            ends_s.append(context.now_s())
        return ends_s

    return program


def receives(count: int) -> Program:
    """Receive messages and return when each came."""

    async def program(context: Context) -> list[float]:
        times = []
        for _ in range(count):
            await context.receive()
            times.append(context.now_s())
        return times

    return program


def lets_start(other: int, count: int) -> Program:
    """Once the first message is there, tell another node; then receive, as `receives`."""

    async def program(context: Context) -> list[float]:
        await context.receive("0")
        context.send(other, Message(context.node, "start", control=True))
        return await receives(count)(context)  # type: ignore[no-any-return]

    return program


def when_told(program: Program) -> Program:
    """Begin when `lets_start` says so."""

    async def waits(context: Context) -> None:
        await context.receive("start")
        await program(context)

    return waits


async def idle(context: Context) -> None:
    """Do nothing."""


async def listens(context: Context) -> list[str]:
    """Topics of all messages until none comes for six units."""
    heard = []
    try:
        while True:
            heard.append((await context.receive(timeout_s=6 * UNIT_S)).topic)
    except TimeoutError:
        return heard
