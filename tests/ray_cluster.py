"""Sweeps and measured runs on a Ray cluster of one machine; nothing is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import psutil
import pytest

from tests.reproduction.helpers import write_notebook
from tests.runtime.programs import BPS, LINK, SIZE, UNIT_S, idle, pair, receives
from tests.runtime.runtimes import EARLY_S
from tests.test_parallel import squared, wait_for
from workbench.clusters import Cluster, Node
from workbench.clusters.cluster import Name
from workbench.reproduction.notebook_sweep import sweep as sweep_notebook
from workbench.reproduction.sweep import grid, sweep
from workbench.runtime import Context, Message, SimulationError
from workbench.runtime.measured import measure, session
from workbench.training.repeatable import generator
from workbench.utils.checks import UserError
from workbench.utils.files import ROOT
from workbench.utils.parallel import as_finished
from workbench.utils.ray_cluster import connected

SLOW = """\
import os, time
from pathlib import Path
from workbench.reproduction.sweep import grid, sweep

def slow(seed, folder):
    (Path(folder) / f"{seed} {os.getpid()}").touch()
    while seed and not (Path(folder) / "go").exists():
        time.sleep(0.05)
    return {"x": seed}

print(sweep(slow, grid(seed=[0, 1]), shared={"folder": RUNS}, folder="kept", address=ADDRESS)
      ["x"].to_list())
"""


class Started:
    """A node of Ray's, as processes that end with it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *arguments),
                *(f"--temp-dir={folder}", "--node-ip-address=127.0.0.1"),
                "--object-store-memory=100000000",
            ],
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self.raylets)

    def raylets(self) -> list[psutil.Process]:
        children = psutil.Process(self.process.pid).children()
        return [child for child in children if child.name() == "raylet"]

    def end(self) -> None:
        left = psutil.Process(self.process.pid).children(recursive=True)
        self.process.terminate()
        self.process.wait()
        for process in psutil.wait_procs(left, timeout=10)[1]:
            process.kill()


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="ray-"))  # its sockets' paths may not be long
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """A cluster of one machine with two cores."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    head = Started(
        folder,
        "--head",
        '--resources={"desk": 1}',
        f"--port={port}",
        "--num-cpus=2",
        "--include-dashboard=false",
    )
    yield f"127.0.0.1:{port}"
    head.end()


@pytest.fixture
def phone(address: str, folder: Path) -> Iterator[Started]:
    """A second machine of the cluster, by its resources."""
    added = Started(folder, f"--address={address}", "--num-cpus=3", '--resources={"phone": 2}')
    try:
        with connected(address) as ray:
            wait_for(lambda: "phone" in ray.cluster_resources())
        yield added
    finally:
        added.end()


def uneven(number: int) -> int:
    if number == 1:
        raise KeyError("one is refused")
    if number == 2:
        os._exit(3)
    return number


def learnt(seed: int) -> dict[str, object]:
    """Bits of a little learning, and what the process may take."""
    import torch

    draws = torch.rand(64, 64, generator=generator(seed, 1))
    found = torch.linalg.svd(draws @ draws.T).S.sum() + torch.nn.functional.softmax(draws, 1).std()
    return {"sum": found.item().hex(), "threads": os.environ["WORKBENCH_THREADS"]}


def test_results_and_errors_are_those_of_processes_here(address: str) -> None:
    calls = [(float(at),) for at in range(5)]
    found = dict(as_finished(squared, calls, address=address))
    assert {at: value for at, (value, _) in found.items()} == {at: at**2.0 for at in range(5)}
    assert os.getpid() not in {process for _, process in found.values()}
    with pytest.raises(KeyError, match="one is refused"):
        list(as_finished(uneven, [(0,), (1,)], address=address))
    with pytest.raises(UserError, match="a process on the Ray cluster ended"):
        list(as_finished(uneven, [(2,)], address=address))


def test_rows_are_the_same_bit_for_bit(address: str, tmp_path: Path) -> None:
    points = grid(seed=range(4))
    here = sweep(learnt, points, processes=2)
    assert sweep(learnt, points, address=address, folder=tmp_path).equals(here)
    assert sweep(learnt, points, folder=tmp_path).equals(here)
    failed = sweep(uneven_row, grid(number=[0, 1]), address=address)
    assert failed.rows() == [(0, 0, None), (1, None, "KeyError: 'one is refused'")]


def uneven_row(number: int) -> dict[str, int]:
    return {"x": uneven(number)}


def test_a_notebook_at_every_point(address: str, tmp_path: Path) -> None:
    cell = "import polars as pl\nfrom workbench.reproduction.notebook import Results\n"
    cell += "assert seed != 2, 'two'\n"
    cell += "Results('x', output).keep('rows', pl.DataFrame({'x': [seed]}))"
    path = write_notebook(
        tmp_path / "notebooks" / "01_x.ipynb", cell, parameters="seed: int = 1\noutput: str = ''"
    )
    given, out = {"seed": "1..3"}, tmp_path / "out"
    found = sweep_notebook(str(path), given, address=address, output=out)
    assert found.points["status"].to_list() == ["finished", "failed", "finished"]
    assert found.points["reason"][1] == "cell 2 of 2 (import polars as pl): AssertionError: two"
    assert found.frames["rows"].rows() == [(1, 1), (3, 3)]
    again = sweep_notebook(str(path), {"seed": "1,3"}, output=out)
    assert again.points["seconds"].to_list() == found.points["seconds"].to_list()[::2]


def test_after_kill_9_of_the_driver_nothing_computes_and_it_goes_on(
    address: str, tmp_path: Path
) -> None:
    (runs := tmp_path / "runs").mkdir()
    text = SLOW.replace("ADDRESS", repr(address)).replace("RUNS", repr(str(runs)))
    (tmp_path / "mine.py").write_text(text)
    command, environment = [sys.executable, "mine.py"], {**os.environ, "PYTHONPATH": str(ROOT)}
    driver = subprocess.Popen(command, cwd=tmp_path, env=environment)
    try:
        wait_for(lambda: len(list(runs.iterdir())) == 2 and list(tmp_path.glob("kept/*.json")))
    finally:
        driver.kill()
        driver.wait()
    processes = [int(path.name.split()[1]) for path in runs.iterdir()]
    wait_for(lambda: not any(map(psutil.pid_exists, processes)))
    (runs / "go").touch()
    again = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert again.stdout == "[0, 1]\n", again.stderr
    assert sorted(path.name.split()[0] for path in runs.iterdir()) == ["0", "1", "1", "go"]


@pytest.mark.parametrize("where", ["127.0.0.1:1", "ray://127.0.0.1:1", "nowhere.invalid:6379"])
def test_a_cluster_that_does_not_answer_is_told_at_once(where: str) -> None:
    with pytest.raises(
        UserError, match=rf"no Ray cluster can be reached at '{where}': .*ray start"
    ):
        list(as_finished(squared, [(1.0,)], address=where))
    with pytest.raises(UserError, match=rf"no Ray cluster can be reached at '{where}'"):
        measure(pair(), [idle] * 2, address=where)


def test_measured_runs_before_and_after_a_cluster_is_used(address: str) -> None:
    """Ray on this machine wants a token, the cluster none: neither is taken for the other."""
    for _ in range(2):
        assert measure(pair(), [idle] * 2).ended == "done"
        assert len(list(as_finished(squared, [(1.0,), (2.0,)], address=address))) == 2
        assert measure(pair(), [idle] * 2, address=address).ended == "done"


async def raylet_and_exchange(context: Context) -> tuple[int, list[float]]:
    """The process that started this one, and when each message of the peers came."""
    for peer in context.peers:
        context.send(peer, Message(context.node, "x", None, SIZE))
    return os.getppid(), await receives(len(context.peers))(context)


def test_nodes_are_placed_by_resources_and_exchange_messages(address: str, phone: Started) -> None:
    nodes = [Node(name, downlink_bps=BPS) for name in ("one", "two", "three")]
    cluster = Cluster(nodes, dict.fromkeys(permutations(range(3), 2), LINK))
    phones: dict[Name, dict[str, float]] = {"one": {"phone": 1}, 1: {"desk": 1}, 2: {"phone": 1}}
    pid = phone.raylets()[0].pid
    with session(address=address):
        for _ in range(2):  # those who hold the resources are used again
            run = measure(cluster, [raylet_and_exchange] * 3, address=address, resources=phones)
            raylets, times_s = zip(*run.results.values(), strict=True)
            assert [raylet == pid for raylet in raylets] == [True, False, True]
            assert min(map(max, times_s)) >= 2 * UNIT_S - EARLY_S
            assert run.clock_error_s > 0
            assert set(run.late["kind"]) == {"start", "transfer", "announcement"}


def test_a_session_whose_runs_want_other_resources(address: str, phone: Started) -> None:
    with session(address=address) as kept:
        for wanted in ({"phone": 1.0}, {"phone": 1.0, "CPU": 1.5}, {"desk": 0.5}):
            nodes = [Node(f"n{index}") for index in range(2)]
            resources: dict[Name, dict[str, float]] = dict.fromkeys(range(2), wanted)
            run = measure(Cluster(nodes), [idle] * 2, address=address, resources=resources)
            assert run.ended == "done"
            assert len(kept.free) == 2
        with pytest.raises(UserError, match=r"needs 99 of the resource 'phone', and the Ray clus"):
            measure(pair(), [idle] * 2, address=address, resources={0: {"phone": 99}})
        with pytest.raises(UserError, match=r"needs 1 of the resource 'gpu', .* has 0; start Ray"):
            measure(pair(), [idle] * 2, address=address, resources={0: {"gpu": 1}})


def test_a_machine_that_dies_in_the_middle_is_named(address: str, phone: Started) -> None:
    async def waits(context: Context) -> None:
        if context.node == 1:
            os.kill(os.getppid(), signal.SIGKILL)
        await context.sleep(1e9)

    with pytest.raises(
        SimulationError, match=r"process of two \(node 1, process \d+ on "
    ) as caught:
        measure(pair(), [waits] * 2, address=address, resources={"two": {"phone": 1}})
    assert "of one" not in str(caught.value)


def test_another_ray_of_this_process_is_not_taken_for_the_cluster(address: str) -> None:
    import ray

    with connected(address) as ours:
        assert ours is ray
        assert list(as_finished(squared, [(3.0,)], address=address))
        with pytest.raises(UserError, match="this process uses another Ray already, at "):
            list(as_finished(squared, [(3.0,)], address="127.0.0.1:1"))
