"""Error messages of runs that could not go on."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.runtime.host import Host
    from workbench.runtime.messages import Message
    from workbench.runtime.state import State

_MOST = 8
_FOREIGN = "in a program, await only what the context's methods return"


def deadlock_report(state: State, hosts: Sequence[Host]) -> str:
    """Who waits for what since when, what is unread, and which nodes are down."""
    lines = ["deadlock: nothing is on its way any more, and programs still wait for messages"]
    for host in hosts:
        found = _states(host, state.cluster.names)
        lines += [f"  {host.name} (node {host.index}) {one}" for one in found]
    return "\n".join(lines)


def _states(host: Host, names: Sequence[str]) -> list[str]:
    unread = _unread(list(host.mailbox.unread), names)
    if not host.up:
        return ["is down after a crash"]
    if host.program is None:
        return [f"has no program; unread: {unread}"] if host.mailbox.unread else []
    if host.failed is not None:
        return [f"{_said(host.failed)} at {host.ended_s:g} s; unread: {unread}"]
    if host.ended_s is not None:
        return [f"ended at {host.ended_s:g} s; unread: {unread}"]
    waits = [
        f"waits for a message{wait.wanted(names)} since {wait.since_s:g} s; unread: {unread}"
        for wait in host.mailbox.waits
    ]
    return waits or ["waits for a task of its own"]


def _said(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "was interrupted"
    return f"failed ({type(error).__name__}: {error})"


def _unread(messages: list[Message], names: Sequence[str]) -> str:
    shown = [f"{message.topic!r} from {names[message.sender]}" for message in messages[:_MOST]]
    more = [f"{len(messages) - _MOST} more"] if len(messages) > _MOST else []
    return ", ".join(shown + more) or "none"


def failure_report(state: State, hosts: Sequence[Host], cause: BaseException) -> str:
    """Whose program failed, when and why."""
    now_s = state.env.now
    said = f"{type(cause).__name__}: {cause}"
    if state.failure is not None:
        host = hosts[state.failure[0]]
        hint = f" ({_FOREIGN})" if _is_asyncios(cause) else ""
        if isinstance(cause, TypeError) and "NoneType can't be used in 'await'" in said:
            hint = " (send returns at once, with nothing to await)"
        return f"program of {host.name} (node {host.index}) failed at {now_s:g} s: {said}{hint}"
    process = state.env.active_process
    for host in hosts:
        if process in host.running:
            return (
                f"program of {host.name} (node {host.index}) awaited, at {now_s:g} s, something "
                f"that its context did not make (asyncio's, perhaps); {_FOREIGN}"
            )
    return f"the run failed at {now_s:g} s: {said}"


def _is_asyncios(error: BaseException) -> bool:
    """Whether asyncio raised it, which finds no event loop of its own outside a notebook."""
    last = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][-1:]
    module = last[0].f_globals.get("__name__", "") if last else ""
    return str(error) == "no running event loop" or str(module).split(".")[0] == "asyncio"
