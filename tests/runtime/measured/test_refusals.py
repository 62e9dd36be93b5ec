"""What cannot be measured is refused before anything starts, saying what to do."""

from __future__ import annotations

import builtins
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.runtime.programs import idle, pair, receives
from workbench.clusters import Cluster, Link, Node
from workbench.runtime import Context, Crash, Message, ProgramError, SimulationError
from workbench.runtime.measured import check, measure, session, sessions
from workbench.runtime.measured.sessions import Session
from workbench.utils.checks import UserError

LOCK = threading.Lock()


async def holds_a_lock(context: Context) -> bool:
    return LOCK.locked()


def with_lock() -> Any:
    lock = threading.Lock()

    async def program(context: Context) -> bool:
        return lock.locked()

    return program


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: measure(pair(), [idle]), "1 programs for 2 nodes"),
        (lambda: measure(pair(), [with_lock(), idle]), "program of one cannot be sent"),
        (lambda: measure(pair(), [idle] * 2, seed=-1), "seed"),
        (lambda: measure(pair(), [idle] * 2, until_s=-1), "until_s is -1"),
        (lambda: measure(pair(), [idle] * 2, as_measured=3), "as_measured"),  # type: ignore[arg-type]
        (lambda: measure(pair(), [idle] * 2, faults=[Crash("three", 1)]), "three"),
        (
            lambda: measure(pair(), [idle] * 2, faults=[Crash(0, 1), Crash(0, 2)]),
            "one is down already",
        ),
        (lambda: measure(pair(), [idle] * 2, resources={0: {"arm": 1}}), "give its address"),
        (lambda: measure(pair(), [idle] * 2, resources=3), "resources is 3"),  # type: ignore[arg-type]
        (
            lambda: measure(pair(), [idle] * 2, resources={0: 3}),  # type: ignore[dict-item]
            "such as {'phone': {'arm': 1}}",
        ),
        (lambda: measure(pair(), [idle] * 2, resources={0: {"arm": -1}}), "0 wants -1 of"),
        (lambda: measure(pair(), [idle] * 2, resources={"x": {"arm": 1}}), "unknown node 'x'"),
        (lambda: measure(pair(), [idle] * 2, address=""), "address is ''; give that of a Ray"),
        (lambda: measure(pair(), [idle] * 2, address="local"), "address is 'local'"),
        (lambda: measure(pair(Link(1e15)), [idle] * 2), r"has 1,000,000,000 Mbit/s; this machine"),
    ],
)
def test_wrong_arguments(call: Callable[[], object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        call()


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    own = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "ray":
            raise ImportError(name)
        return own(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr(sessions, "_current", None)
    with pytest.raises(UserError, match=r"pip install 'edge-training-workbench\[measured\]'"):
        measure(pair(), [idle] * 2)


def test_ray_is_imported_for_measured_runs_alone() -> None:
    import subprocess

    code = "import sys, workbench.runtime.measured as m; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_more_processes_than_places(ray_session: Session) -> None:
    nodes = [Node(f"n{index}") for index in range(ray_session.places + 1)]
    with pytest.raises(UserError, match=r"the run has 9 processes.*places for 8; open it with"):
        measure(Cluster(nodes), [idle] * len(nodes))


def test_a_session_within_a_session(ray_session: Session) -> None:
    with pytest.raises(UserError, match="a session is open already"), session():
        pass
    with pytest.raises(UserError, match="a session of another Ray is open"):
        measure(pair(), [idle] * 2, address="auto")


def test_runs_in_two_threads_wait_for_each_other(ray_session: Session) -> None:
    nodes = [Node(f"n{index}") for index in range(ray_session.places // 2 + 1)]
    with ThreadPoolExecutor(2) as threads:
        runs = [threads.submit(measure, Cluster(nodes), [idle] * len(nodes)) for _ in range(2)]
        assert [run.result().ended for run in runs] == ["done"] * 2


def test_a_payload_that_cannot_be_pickled(ray_session: Session) -> None:
    async def sends(context: Context) -> None:
        context.send(1, Message(0, "open file", sys.stdout, 1.0))

    with pytest.raises(ProgramError, match=r"one.*message 'open file' has a payload that cannot"):
        measure(pair(), [sends, receives(1)])


def test_a_result_that_cannot_be_pickled(ray_session: Session) -> None:
    async def returns(context: Context) -> Any:
        return socket.socket()

    with pytest.raises(ProgramError, match=r"program of one \(node 0\) returned what cannot"):
        measure(pair(), [returns, idle])


def test_a_process_that_ends_by_itself(ray_session: Session) -> None:
    async def dies(context: Context) -> None:
        import os

        print("what I still had to say", flush=True)
        os._exit(7)

    with pytest.raises(SimulationError) as caught:
        measure(pair(), [receives(1), dies])
    said = str(caught.value)
    assert said.startswith("the process of two (node 1), process ") or "(node 1, process" in said
    assert "what I still had to say" in said
    assert caught.value.run.ended == "failed"
    assert measure(pair(), [idle] * 2).ended == "done"  # the session goes on


def test_work_that_takes_longer_than_it_may_is_counted(ray_session: Session) -> None:
    def works() -> None:
        import time

        time.sleep(0.05)

    async def program(context: Context) -> None:
        await context.compute(works, cost_s=0.01)
        await context.compute(works, cost_s=0.5)

    late = measure(Cluster([Node("a")]), [program]).late
    assert late.filter(kind="work")["count"].to_list() == [2]
    assert late.filter(kind="work")["late"][0] >= 1
    assert late.filter(kind="work")["worst_s"][0] >= 0.04
    run = measure(Cluster([Node("a")]), [program], as_measured=True)
    assert run.late.filter(kind="work")["late"].to_list() == [0]
    assert run.end_s >= 0.1


def test_check_says_what_is_carried(ray_session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "RATES_MBPS", (100,))
    monkeypatch.setattr(check, "_MESH_S", 0.1)
    lines: list[str] = []
    check.check(lines.append, nodes=2)
    assert lines[0].startswith("Ray ")
    assert sum("workbench 0." in line for line in lines) == 2
    assert any(line.startswith("2 links of 100 Mbit/s, 0.2 Gbit/s in all") for line in lines)
    assert "on one machine" in lines[-1]
