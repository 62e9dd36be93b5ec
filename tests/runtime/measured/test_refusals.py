"""What cannot be measured is refused before anything starts, saying what to do."""

from __future__ import annotations

import builtins
import os
import socket
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.other_process import printed
from tests.runtime.programs import idle, pair, receives
from workbench.clusters import Cluster, Link, Node
from workbench.runtime import Context, Crash, Message, ProgramError, SimulationError
from workbench.runtime.measured import check, guard, measure, session, sessions
from workbench.runtime.measured.sessions import Session
from workbench.utils.checks import UserError


def with_lock() -> Any:
    lock = threading.Lock()

    async def program(context: Context) -> bool:
        return lock.locked()

    return program


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"programs": [idle]}, "1 programs for 2 nodes"),
        ({"programs": [with_lock(), idle]}, "program of one cannot be sent"),
        ({"seed": -1}, "seed"),
        ({"until_s": -1}, "until_s is -1"),
        ({"as_measured": 3}, "as_measured"),
        ({"faults": [Crash("three", 1)]}, "three"),
        ({"faults": [Crash(0, 1), Crash(0, 2)]}, "one is down already"),
        ({"resources": {0: {"arm": 1}}}, "give its address"),
        ({"resources": 3}, "resources is 3"),
        ({"resources": {0: 3}}, "such as {'phone': {'arm': 1}}"),
        ({"resources": {0: {"arm": -1}}}, "0 wants -1 of"),
        ({"resources": {"x": {"arm": 1}}}, "unknown node 'x'"),
        ({"address": ""}, "address is ''; give that of a Ray"),
        ({"address": "local"}, "address is 'local'"),
        ({"cluster": pair(Link(1e15))}, r"has 1,000,000,000 Mbit/s; this machine"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        measure(**{"cluster": pair(), "programs": [idle] * 2, **options})


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
    code = "import sys, workbench.runtime.measured as m; sys.exit('ray' in sys.modules)"
    assert printed(code) == ""  # no error


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
    class Records:
        async def __call__(self, context: Context) -> None:
            context.record("begun")
            context.send(1, Message(0, "go on"))
            await context.receive()

        def learnt(self) -> str:
            return "a little"

    async def dies(context: Context) -> None:
        await context.receive()
        print("what I still had to say", flush=True)
        os._exit(7)

    observed: list[tuple[int, str]] = []
    with pytest.raises(SimulationError) as caught:
        measure(
            pair(),
            [Records(), dies],
            observer=lambda at_s, node, value: observed.append((node, value)),
        )
    assert (observed, caught.value.run.learnt) == ([(0, "begun")], {0: "a little"})
    said = str(caught.value)
    assert said.startswith("the process of two (node 1), process ") or "(node 1, process" in said
    assert "what I still had to say" in said
    assert caught.value.run.ended == "failed"
    assert measure(pair(), [idle] * 2).ended == "done"  # the session goes on


def test_work_that_takes_longer_than_it_may_is_counted(ray_session: Session) -> None:
    async def program(context: Context) -> None:
        for cost_s in (0.01, 0.5):
            await context.compute(partial(time.sleep, 0.05), cost_s=cost_s)

    late = measure(Cluster([Node("a")]), [program]).late.filter(kind="work")
    assert late["count"].to_list() == [2]
    assert late["late"][0] >= 1
    assert late["worst_s"][0] >= 0.04
    run = measure(Cluster([Node("a")]), [program], as_measured=True)
    assert run.late.filter(kind="work")["late"].to_list() == [0]
    assert run.end_s >= 0.1


def test_a_file_named_like_a_package_is_not_imported_by_nodes(tmp_path: Path) -> None:
    """The current folder counts only where it is on the driver's path, and comes last there."""
    for name in ("simpy", "own_module"):
        (tmp_path / f"{name}.py").write_text(f"FILE = {name!r}")
    code = """
import sys
import simpy
from workbench.clusters import Cluster, Node
from workbench.runtime.measured import measure
sys.path.insert(0, "")
async def program(context):
    import own_module, simpy
    return own_module.FILE, hasattr(simpy, "FILE")
print(measure(Cluster([Node("a")]), [program]).results[0])
sys.path.remove("")
async def program(context):
    import own_module
try:
    measure(Cluster([Node("a")]), [program])
except Exception as error:
    print(repr(error.__cause__))
"""
    said = printed(code, cwd=tmp_path, PYTHONSAFEPATH="1")
    assert "('own_module', False)" in said
    assert "No module named 'own_module'" in said


def test_only_its_user_may_enter_the_folder_of_a_session(ray_session: Session) -> None:
    assert ray_session.folder is not None
    assert ray_session.folder.stat().st_mode & 0o777 == 0o700


def test_a_long_path_for_temporary_files_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 60)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert sessions._short_folder() == Path("/tmp")
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != "/tmp")
    with pytest.raises(UserError, match=r"at most \d\d characters.*set TMPDIR to a shorter one"):
        sessions._short_folder()


def test_the_longest_path_that_is_used_suits_ray(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = sessions._LONGEST_PATH - len(f"/{guard.PREFIX}12345678/{guard.INSIDE}")
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="t" * (longest - len("/tmp/") - 8)) as own:
        assert len(own) == longest
        said = printed(
            "from workbench.runtime.measured import session\n"
            "with session(places=1) as kept: print(kept.folder.parent)",
            TMPDIR=own,
        )
    assert said.strip() == own


def test_check_says_what_is_carried(ray_session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "RATES_MBPS", (100,))
    monkeypatch.setattr(check, "_MESH_S", 0.1)
    lines: list[str] = []
    check.check(lines.append, nodes=2)
    assert lines[0].startswith("Ray ")
    assert sum("workbench 0." in line for line in lines) == 2
    assert any(line.startswith("2 links of 100 Mbit/s, 0.2 Gbit/s in all") for line in lines)
    assert "on one machine" in lines[-1]
