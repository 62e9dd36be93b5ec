"""Why a run could not go on, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.runtime.host import Host
    from workbench.runtime.messages import Message
    from workbench.runtime.simulation import Simulation

_MOST = 8


def deadlock_report(simulation: Simulation) -> str:
    """Who waits for what since when, what lies unread, and who is gone."""
    lines = ["deadlock: nothing is on its way any more, and programs still wait for messages"]
    for host in simulation.hosts:
        lines += [f"  {host.name} (node {host.index}) {state}" for state in _states(host)]
    return "\n".join(lines)


def _states(host: Host) -> list[str]:
    unread = _unread(list(host.mailbox.unread))
    if not host.up:
        return ["is down after a crash"]
    if host.program is None:
        return [f"has no program; unread: {unread}"] if host.mailbox.unread else []
    if host.failed is not None:
        return [f"{_said(host.failed)} at {host.ended_s:g} s; unread: {unread}"]
    if host.ended_s is not None:
        return [f"ended at {host.ended_s:g} s; unread: {unread}"]
    waits = [
        f"waits for a message{wait.wanted()} since {wait.since_s:g} s; unread: {unread}"
        for wait in host.mailbox.waits
    ]
    return waits or ["waits for a task of its own"]


def _said(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "was interrupted"
    return f"failed ({type(error).__name__}: {error})"


def _unread(messages: list[Message]) -> str:
    shown = [f"{message.topic!r} from node {message.sender}" for message in messages[:_MOST]]
    more = [f"{len(messages) - _MOST} more"] if len(messages) > _MOST else []
    return ", ".join(shown + more) or "none"


def failure_report(simulation: Simulation, cause: BaseException) -> str:
    """Whose program failed, when and why."""
    now_s = simulation.env.now
    said = f"{type(cause).__name__}: {cause}"
    if simulation.failure is not None:
        host = simulation.failure[0]
        return f"program of {host.name} (node {host.index}) failed at {now_s:g} s: {said}"
    process = simulation.env.active_process
    for host in simulation.hosts:
        if process in host.running:
            return (
                f"program of {host.name} (node {host.index}) awaited, at {now_s:g} s, something "
                "that its context did not make (asyncio's, perhaps); in a program, await only "
                "what the context's methods return"
            )
    return f"the run failed at {now_s:g} s: {said}"
