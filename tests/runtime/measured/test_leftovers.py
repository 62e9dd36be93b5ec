"""However a driver ends, nothing of its measured run stays: no process, no port, no folder."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.long import usually
from workbench.runtime.measured import guard

MARK = "WORKBENCH_TEST_OF_LEFTOVERS"
PATIENCE_S = 120.0
DRIVER = """
import sys
if sys.argv[1] == "knew Ray":
    import ray
    from ray._raylet import get_authentication_mode
    get_authentication_mode()  # read once in a process
from workbench.clusters import Link, full_mesh
from workbench.runtime import Message
from workbench.runtime.measured import measure, session


async def program(context):
    print("runs", flush=True)
    if HOW == "fails":
        raise KeyError("broken")
    if HOW == "dies" and context.node == 0:
        import os
        print("my last words", flush=True)
        os._exit(3)
    while HOW not in ("ends", "knew Ray"):
        await context.sleep(0.01)


HOW = sys.argv[1]
with session(places=2) as kept:
    print(kept.folder, flush=True)
    try:
        run = measure(full_mesh(2, Link(1e8)), [program] * 2)
        print(run.ended, flush=True)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
        raise
"""


def wait_for(what: Callable[[], Any]) -> Any:
    """What is there in the end."""
    ends_s = time.monotonic() + PATIENCE_S
    while not (found := what()) and time.monotonic() < ends_s:
        time.sleep(0.1)
    return found


class Driver:
    """A driver as a process, whose children bear a mark, as long as no title overwrites it."""

    def __init__(self, how: str, folder: Path) -> None:
        script = folder / "driver.py"
        script.write_text(DRIVER, encoding="utf-8")
        self.mark = f"{how}-{os.getpid()}"
        self.process = subprocess.Popen(
            [sys.executable, script, how],
            env={**os.environ, MARK: self.mark, "TMPDIR": tempfile.gettempdir()},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.folder = Path(self.process.stdout.readline().strip())
        self.descendants = psutil.Process(self.process.pid).children(recursive=True)

    def left(self) -> set[psutil.Process]:
        """What it had started when its session was open and what has inherited the mark, if up."""
        found = set()
        for process in {*self.descendants, *psutil.process_iter()}:
            try:
                own = process in self.descendants or process.environ().get(MARK) == self.mark
                if own and process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    found.add(process)
            except (psutil.Error, OSError):
                continue
        return found

    def runs(self) -> bool:
        """Whether both programs have begun."""
        logs = self.folder.glob("ray/session_latest/logs/worker-*.out")
        return sum("runs" in log.read_text(errors="replace") for log in logs) == 2

    def ports(self) -> list[tuple[str, int]]:
        """Where its processes listen."""
        return [
            (connection.laddr.ip, connection.laddr.port)
            for process in self.left()
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]


def is_open(address: tuple[str, int]) -> bool:
    host, port = address
    try:
        with socket.create_connection((host.removeprefix("::ffff:"), port), timeout=5):
            return True
    except OSError:
        return False


def assert_nothing_left(driver: Driver, ports: list[tuple[str, int]]) -> None:
    wait_for(lambda: not driver.left())
    assert driver.left() == set()
    assert wait_for(lambda: not driver.folder.exists())
    assert not any(map(is_open, ports))


@pytest.mark.parametrize(
    "by", usually([signal.SIGKILL], [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
)
def test_after_a_signal_to_the_driver(by: signal.Signals, tmp_path: Path) -> None:
    driver = Driver("endless", tmp_path)
    assert wait_for(driver.runs)
    ports = driver.ports()
    assert len(ports) > 2
    os.kill(driver.process.pid, by)
    output, errors = driver.process.communicate()
    assert_nothing_left(driver, ports)
    if by == signal.SIGINT:
        assert (driver.process.returncode, output) == (0, "interrupted\n"), errors


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("dies", r"the process of node0 (node 0, process"),
        pytest.param("fails", "ProgramError program of node", marks=pytest.mark.long),
        pytest.param("ends", "done", marks=pytest.mark.long),
        ("knew Ray", "done"),
    ],
)
def test_after_a_run_that_ends(how: str, said: str, tmp_path: Path) -> None:
    driver = Driver(how, tmp_path)
    ports = driver.ports()
    output, errors = driver.process.communicate()
    assert said in output, errors
    if how == "dies":
        assert "my last words" in output
    assert driver.process.returncode == (0 if said == "done" else 1)
    assert_nothing_left(driver, ports)


def test_guard_ends_agents_whose_title_overwrote_their_environment(tmp_path: Path) -> None:
    code = "import sys; log = open(sys.argv[1], 'w'); print(flush=True); sys.stdin.read()"
    folders = tmp_path / "its", tmp_path / "another's"
    agents = []
    for folder in folders:
        folder.mkdir()
        agents.append(
            subprocess.Popen(
                ["ray::DashboardAgent", "-c", code, folder / "agent.log"],
                executable=sys.executable,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        )
    for agent in agents:
        assert agent.stdout is not None
        agent.stdout.readline()
    guard.end_all(str(folders[0]))
    assert not folders[0].exists()
    assert [psutil.pid_exists(agent.pid) for agent in agents] == [False, True]
    for agent in agents:
        agent.communicate()


def test_one_ctrl_c_ends_a_run_with_a_stopped_node(tmp_path: Path) -> None:
    driver = Driver("endless", tmp_path)
    assert wait_for(driver.runs)
    ports = driver.ports()
    started = psutil.Process(driver.process.pid).children(recursive=True)
    node = next(each for each in started if "".join(each.cmdline()).startswith("ray::Worker"))
    node.suspend()
    os.killpg(driver.process.pid, signal.SIGINT)  # a terminal sends Ctrl-C to all
    output, errors = driver.process.communicate()
    assert output.splitlines()[-1] == "interrupted", errors
    assert_nothing_left(driver, ports)
    assert not node.is_running()


def test_after_driver_and_guard_are_killed_at_once(tmp_path: Path) -> None:
    driver = Driver("endless", tmp_path)
    assert wait_for(driver.runs)
    (watching,) = (each for each in driver.descendants if guard.__file__ in each.cmdline())
    for process in (driver.process, watching):
        process.kill()
    driver.process.communicate()
    assert driver.folder.exists()
    guard.clean_up(driver.folder.parent)  # as the next session does
    assert_nothing_left(driver, [])


def test_clean_up_ends_and_removes_what_nobody_locks(tmp_path: Path) -> None:
    dead, alive, new, other = (
        tmp_path / f"{prefix}{name}"
        for prefix, name in zip([guard.PREFIX] * 3 + [""], "abcd", strict=True)
    )
    for folder in (dead, alive, new, other):
        folder.mkdir()
    guard.lock(dead).close()
    with guard.lock(alive):
        left = [
            subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(600)"],
                env={**os.environ, guard.FOLDER: str(folder)},
            )
            for folder in (dead, alive)
        ]
        guard.clean_up(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([alive, new, other])
    assert [process.poll() is None for process in left] == [False, True]
    left[1].kill()
    left[1].wait()
