"""What a process and its children use: as psutil says, without asking all others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import NoReturn

import psutil
import pytest

from workbench.edgegossip.prediction import process_tree as module
from workbench.edgegossip.prediction.host_counters import host_counters
from workbench.edgegossip.prediction.process_tree import process_tree

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
    not module._tells_children(os.getpid()), reason="no children in /proc here"
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
    own, child = module._alive_by_kernel(pid)()
    for one, told in zip((own, child), module._alive_by_psutil(pid)(), strict=True):
        assert one == pytest.approx(told)
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
    monkeypatch.setattr(module, "_tells_children", lambda pid: False)
    monkeypatch.setattr(module, "_alive_by_kernel", None)
    assert process_tree(idle[0])() == pytest.approx(known)
