"""Results of a run, whole or in part, and what an error says about one that could not go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import polars as pl

    from workbench.runtime.host import Host
    from workbench.runtime.messages import Message
    from workbench.runtime.pipe import State
    from workbench.runtime.trace import Trace

Ended = Literal["done", "stopped", "interrupted", "failed", "deadlock"]

_MOST_UNREAD = 8
_FOREIGN = "in a program, await only what the context's methods return"


class LinkUse(NamedTuple):
    """What one link, in one direction, carried.

    `messages` and `bytes` are what it carried to its end, delivered or not; `lost` counts messages
    that nobody received, those cut off or dropped included; `busy_s` includes what was cut off.
    `source` and `target` are names of nodes.
    """

    source: str
    target: str
    messages: int
    bytes: float
    lost: int
    busy_s: float


@dataclass(frozen=True)
class Run:
    """Results of a run.

    Attributes
    ----------
    end_s
        Virtual seconds until the last program and the last message ended, or the run was stopped.
    ended
        ``"done"``; ``"stopped"`` at `until_s`; ``"interrupted"`` by Ctrl-C; ``"failed"`` by an
        exception, ``"deadlock"``: then the error carries this run.
    results
        What each program returned that got so far, by node.
    learnt
        What each program's ``learnt()`` returned as the run ended, or as its node crashed for good,
        by node: of programs that have this method, and whose process did not end by itself.
    trace
        What ran when; None unless asked for.
    events
        Events that the kernel processed.
    links
        What each link of the cluster carried.
    """

    end_s: float
    ended: Ended
    results: Mapping[int, Any]
    learnt: Mapping[int, Any]
    trace: Trace | None
    events: int
    links: tuple[LinkUse, ...]

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.ended == "interrupted"

    @property
    def bytes(self) -> float:
        """Bytes that all links carried."""
        return sum(use.bytes for use in self.links)

    def link_table(self) -> pl.DataFrame:
        """One row per link: ``source, target, messages, bytes, lost, busy_s``."""
        import polars as pl

        kinds = (pl.String, pl.String, pl.Int64, pl.Float64, pl.Int64, pl.Float64)
        schema = dict(zip(LinkUse._fields, kinds, strict=True))
        return pl.DataFrame(self.links, schema=schema, orient="row")

    def __str__(self) -> str:
        return (
            f"{self.ended} after {self.end_s:g} virtual seconds: {len(self.results)} results, "
            f"{self.events:,} events, {self.bytes:,.0f} bytes over {len(self.links)} links"
        )


class SimulationError(RuntimeError):
    """A run that could not go on; `run` holds what it had until then."""

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message, run)
        self.run = run

    def __str__(self) -> str:
        return str(self.args[0])


class ProgramError(SimulationError):
    """A program raised an exception, which is this error's cause."""


class DeadlockError(SimulationError):
    """Programs wait for messages that nobody will send any more."""


def deadlock_report(names: Sequence[str], waits: Iterable[Sequence[str]]) -> str:
    """Who waits for what since when, what is unread, and which nodes are down: `states` of each."""
    lines = ["deadlock: nothing is on its way any more, and programs still wait for messages"]
    for node, (name, own) in enumerate(zip(names, waits, strict=True)):
        lines += [f"  {name} (node {node}) {wait}" for wait in own]
    return "\n".join(lines)


def states(host: Host, names: Sequence[str]) -> list[str]:
    """What a node waits for, and what is unread, a line for each wait."""
    unread = f"unread: {_listed(host.mailbox.unread, names)}"
    if not host.up:
        return ["is down after a crash"]
    if host.program is None:
        return [f"has no program; {unread}"] if host.mailbox.unread else []
    if host.ended_s is not None:
        error, said = host.failed, "ended"
        if isinstance(error, KeyboardInterrupt):
            said = "was interrupted"
        elif error is not None:
            said = f"failed ({type(error).__name__}: {error})"
        return [f"{said} at {host.ended_s:g} s; {unread}"]
    waits = [
        f"waits for a message{wait.wanted(names)} since {wait.since_s:g} s; {unread}"
        for wait in host.mailbox.waits
    ]
    return waits or ["waits for a task of its own"]


def _listed(messages: list[Message], names: Sequence[str]) -> str:
    first = messages[:_MOST_UNREAD]
    shown = [f"{message.topic!r} from {names[message.sender]}" for message in first]
    if len(messages) > _MOST_UNREAD:
        shown.append(f"{len(messages) - _MOST_UNREAD} more")
    return ", ".join(shown) or "none"


def failure_report(state: State, hosts: Sequence[Host], cause: BaseException) -> str:
    """Whose program failed, when and why."""
    now_s = state.env.now
    if state.failure is not None:
        return failed(hosts[state.failure[0]], now_s, cause)
    process = state.env.active_process
    for host in hosts:
        if process in host.running:
            return (
                f"program of {host.name} (node {host.index}) awaited, at {now_s:g} s, something "
                f"that its context did not make (asyncio's, perhaps); {_FOREIGN}"
            )
    return f"the run failed at {now_s:g} s: {type(cause).__name__}: {cause}"


def failed(host: Host, now_s: float, cause: BaseException) -> str:
    """That a node's program failed, when and why."""
    said, hint = f"{type(cause).__name__}: {cause}", ""
    if str(cause) == "no running event loop":
        hint = f" ({_FOREIGN})"
    elif isinstance(cause, TypeError) and "NoneType can't be used in 'await'" in said:
        hint = " (send returns at once, with nothing to await)"
    return f"program of {host.name} (node {host.index}) failed at {now_s:g} s: {said}{hint}"
