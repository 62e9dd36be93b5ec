"""Counters of this machine, and what a process tree adds to them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import psutil
import pytest

from workbench.edgegossip.prediction import host_counters as module
from workbench.edgegossip.prediction.host_counters import between, host_counters, process_tree

BUSY = "import time\nwhile time.process_time() < 0.1: pass\n"
TREE = f"""
import subprocess, sys, threading
{BUSY}
subprocess.run([sys.executable, "-c", {BUSY!r}])  # ended, and asked how
command = [sys.executable, "-c", {BUSY!r} + "print(flush=True); input()"]
below, started, over = [], threading.Event(), threading.Event()
def start():
    below.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    below[-1].stdout.readline()
    started.set()
    over.wait()
threading.Thread(target=start, daemon=True).start()
started.wait()
print(below[0].pid, flush=True)
input()
"""
needs_children = pytest.mark.skipif(
    not module._lists_children(os.getpid()), reason="no children in /proc here"
)


@pytest.fixture
def idle() -> Iterator[tuple[int, int]]:
    """A process with one below it, started by a thread, both busy before and idle now."""
    with subprocess.Popen(
        [sys.executable, "-c", TREE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
        process.kill()


@needs_children
def test_the_kernel_and_psutil_tell_the_same(idle: tuple[int, int]) -> None:
    pid, below = idle
    by_kernel, by_psutil = module._alive_by_kernel(pid), module._alive_by_psutil(pid)
    while True:  # a process that has just begun to wait may be charged a last tick
        before, other, after = by_kernel(), by_psutil(), by_kernel()
        if before == after:
            break
    own, child = after
    for one, same in zip((own, child), other, strict=True):
        assert one == pytest.approx(same)
    assert [one.pid for one in psutil.Process(pid).children(recursive=True)] == [below]
    assert own.busy_s > 0.15  # with the one that has ended
    assert child.busy_s > 0.05
    assert process_tree(pid)().busy_s == own.busy_s + child.busy_s


@needs_children
def test_no_process_is_looked_at_but_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_them(*_: object, **__: object) -> NoReturn:
        raise AssertionError("every process of the machine is looked at")

    for name in ("process_iter", "pids", "Process"):
        monkeypatch.setattr(psutil, name, all_of_them)
    assert host_counters()().own_busy_s > 0


@needs_children
def test_another_with_its_number_is_not_its_own(
    idle: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = process_tree(idle[0])
    before = read()
    stat = module._stat(os.getpid())
    monkeypatch.setattr(module, "_stat", lambda pid: stat)
    assert read() == before


def test_one_that_has_ended_keeps_its_last_sum(idle: tuple[int, int]) -> None:
    read = process_tree(idle[0])
    before = read()
    psutil.Process(idle[0]).kill()
    psutil.Process(idle[0]).wait()
    assert read() == before
    assert before.busy_s > 0


def test_without_the_kernel_s_word_psutil_is_asked(
    idle: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = process_tree(idle[0])()
    monkeypatch.setattr(module, "_lists_children", lambda pid: False)
    monkeypatch.setattr(module, "_alive_by_kernel", None)
    assert process_tree(idle[0])() == pytest.approx(known)


Cpu = namedtuple("Cpu", "user nice system idle iowait steal guest")


def link(sent: int, received: int) -> SimpleNamespace:
    return SimpleNamespace(bytes_sent=sent, bytes_recv=received)


def transfers(read: int, written: int) -> SimpleNamespace:
    return SimpleNamespace(read_bytes=read, write_bytes=written)


def process(pid: int, times: tuple[float, ...], io: SimpleNamespace, *below: Any) -> Any:
    """As psutil's; times are user, system, both of its children, and waiting."""
    return SimpleNamespace(
        pid=pid,
        oneshot=nullcontext,
        children=lambda recursive: below,
        cpu_times=lambda: times,
        io_counters=lambda: io,
    )


class TestHostCounters:
    def test_by_hand(self, monkeypatch: pytest.MonkeyPatch) -> None:
        child = process(8, (16, 32, 0, 0, 99), transfers(300, 400))
        root = process(7, (1, 2, 4, 8, 99), transfers(10, 20), child)
        monkeypatch.setattr(psutil, "Process", {7: root}.__getitem__)
        monkeypatch.setattr(module, "_lists_children", lambda pid: False)
        monkeypatch.setattr(psutil, "cpu_times", lambda: Cpu(100, 10, 20, 500, 5, 3, 50))
        links = {"lo": link(1000, 1000), "made-up": link(3, 4)}
        disks = {"loop0": transfers(999, 999), "made-up": transfers(5, 6)}
        monkeypatch.setattr(psutil, "net_io_counters", lambda pernic: links)
        monkeypatch.setattr(psutil, "disk_io_counters", lambda perdisk: disks)
        read = host_counters([7], lambda: 2.0)
        found = read()
        assert found.cores_s == 638  # guests' 50 s are within the user's 100 s
        assert found.busy_s == 133
        assert (found.network_bytes, found.disk_bytes) == (2007, 11)
        assert found.own_busy_s == 63
        assert (found.own_network_bytes, found.own_disk_bytes) == (2, 730)

        def ended(recursive: bool) -> NoReturn:
            raise psutil.NoSuchProcess(7)

        root.children = ended  # and uses nothing more
        assert read().own_busy_s == 63

    def test_virtual_devices_count_nothing_again(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        for true in ("wire", "drive"):
            (tmp_path / true / "device").mkdir(parents=True)
        monkeypatch.setattr(module, "_NETWORK", tmp_path)
        monkeypatch.setattr(module, "_DISKS", tmp_path)
        links = {"lo0": link(100, 100), "wire": link(3, 4), "bridge": link(30, 40)}
        disks = {"drive": transfers(5, 6), "mirror": transfers(50, 60)}
        monkeypatch.setattr(psutil, "net_io_counters", lambda pernic: links)
        monkeypatch.setattr(psutil, "disk_io_counters", lambda perdisk: disks)
        found = host_counters(())()
        assert (found.network_bytes, found.disk_bytes) == (207, 11)

    def test_what_this_machine_sends_to_itself_counts(self) -> None:
        read = host_counters(())
        before = read()
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname()) as sender,
            server.accept()[0] as receiver,
        ):
            sender.sendall(bytes(100_000))
            assert len(receiver.recv(100_000, socket.MSG_WAITALL)) == 100_000
        assert read().network_bytes - before.network_bytes >= 200_000

    def test_a_process_that_does_not_run_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no process 4194303"):
            host_counters([4_194_303])

    def test_on_this_machine_a_busy_child_counts_unless_it_is_excluded(self) -> None:
        child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            reads = [host_counters(()), host_counters([child.pid]), host_counters([os.getpid()])]
            before = [read() for read in reads]
            spent_s = psutil.Process(child.pid).cpu_times().user
            # Until it has had enough of a core to tell, however busy the machine is.
            end_s = time.monotonic() + 60
            while psutil.Process(child.pid).cpu_times().user < spent_s + 1:
                assert time.monotonic() < end_s, "the child got no processor"
                time.sleep(0.05)
            after = [read() for read in reads]
            all_of_it, without_child, without_us = map(between, before, after)
        finally:
            child.kill()
            child.wait()
        # A second of the child's, in the three pairs of readings, each good to a few ticks.
        seconds = after[0].cores_s - before[0].cores_s
        assert (all_of_it.core - without_child.core) * seconds == pytest.approx(1, abs=0.3)
        assert (all_of_it.core - without_us.core) * seconds == pytest.approx(1, abs=0.4)

    def test_children_that_ended_still_count(self) -> None:
        read = host_counters()
        before = read()
        code = "import time\nwhile time.process_time() < 0.5: pass"
        subprocess.run([sys.executable, "-c", code], check=True)
        assert read().own_busy_s - before.own_busy_s >= 0.45
