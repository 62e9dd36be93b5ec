"""Counters of this machine, and what a training task adds to them."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import edgegossip_prediction as oracle
from workbench.edgegossip.prediction.host_counters import Counters, between, host_counters
from workbench.edgegossip.prediction.predictor import Contention

BUSY = "import time\nwhile time.process_time() < {}: pass\n"


class TestBetween:
    @pytest.mark.parametrize(
        ("later", "contention"),
        [
            # Two cores for a second: others use a core, the task half of one.
            (Counters(1.0, 2.0, 1.5, 1000.0, 300.0, 0.5, 100.0), Contention(0.5, 1000.0, 200.0)),
            # What the task used before it was counted for all.
            (Counters(1.0, 2.0, 0.5, 0.0, 10.0, 0.6, 20.0), Contention()),
            # A process that left the task takes nothing off.
            (Counters(1.0, 2.0, 1.0, own_busy_s=-4.0), Contention(0.5)),
        ],
    )
    def test_by_hand(self, later: Counters, contention: Contention) -> None:
        assert between(Counters(0.0, 0.0, 0.0), later) == contention

    @given(spent=st.lists(st.tuples(*[st.floats(0, 1)] * 5), min_size=1, max_size=20))
    def test_a_window_is_the_mean_of_its_seconds(self, spent: list[tuple[float, ...]]) -> None:
        everybody, own = [[0.0] * 5], [[0.0] * 3]
        for time_s, others_s, own_s, sent, written in spent:
            seconds, before, mine = 0.5 + time_s, everybody[-1], own[-1]
            used = (seconds, 4 * seconds, (others_s + own_s) * seconds, 1e6 * sent, 1e6 * written)
            everybody.append([a + b for a, b in zip(before, used, strict=True)])
            task = (own_s * seconds, 0.0, 1e5 * written)
            own.append([a + b for a, b in zip(mine, task, strict=True)])
        later = Counters(*everybody[-1], *own[-1][::2])
        mean = between(Counters(*[0.0] * 7), later)
        core, network, disk = oracle.mean_contention(everybody, own)
        assert mean.core == pytest.approx(core, abs=1e-9)
        assert mean.network_bytes_per_s == pytest.approx(network, rel=1e-9, abs=1e-6)
        assert mean.disk_bytes_per_s == pytest.approx(disk, rel=1e-9, abs=1e-6)

    def test_readings_at_once_are_refused(self) -> None:
        with pytest.raises(ValueError, match="read less often"):
            between(Counters(1.0, 2.0, 0.0), Counters(1.0, 2.0, 0.0))


Cpu = namedtuple("Cpu", "user nice system idle iowait steal guest")


class TestHostCounters:
    def test_by_hand(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(psutil, "cpu_times", lambda: Cpu(100, 10, 20, 500, 5, 3, 50))
        links = SimpleNamespace(bytes_sent=1000, bytes_recv=7)
        disks = SimpleNamespace(read_bytes=5, write_bytes=6)
        monkeypatch.setattr(psutil, "net_io_counters", lambda: links)
        monkeypatch.setattr(psutil, "disk_io_counters", lambda: disks)
        found = host_counters(())()
        assert found.cores_s == 638  # guests' 50 s are within the user's 100 s
        assert found.busy_s == 133
        assert (found.network_bytes, found.disk_bytes) == (1007, 11)
        assert (found.own_busy_s, found.own_disk_bytes) == (0, 0)

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

    def test_a_busy_child_counts_unless_it_is_excluded(self) -> None:
        child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            reads = [
                host_counters(()),
                host_counters([child.pid]),
                host_counters(),
                host_counters(descendants=False),
            ]
            before = [read() for read in reads]
            spent_s = psutil.Process(child.pid).cpu_times().user
            # Until it has had enough of a core to tell, however busy the machine is.
            end_s = time.monotonic() + 60
            while psutil.Process(child.pid).cpu_times().user < spent_s + 1:
                assert time.monotonic() < end_s, "the child got no processor"
                time.sleep(0.05)
            after = [read() for read in reads]
            everything, no_child, no_tree, no_parent = map(between, before, after)
        finally:
            child.kill()
            child.wait()
        # A second of the child's, each reading good to a few ticks.
        seconds = after[0].cores_s - before[0].cores_s
        assert (everything.core - no_child.core) * seconds == pytest.approx(1, abs=0.3)
        assert (everything.core - no_tree.core) * seconds == pytest.approx(1, abs=0.4)
        assert (everything.core - no_parent.core) * seconds == pytest.approx(0, abs=0.4)

    def test_children_that_ended_still_count(self) -> None:
        read, alone = host_counters(), host_counters(descendants=False)
        before, before_alone = read(), alone()
        subprocess.run([sys.executable, "-c", BUSY.format(0.5)], check=True)
        assert read().own_busy_s - before.own_busy_s >= 0.45
        assert alone().own_busy_s - before_alone.own_busy_s < 0.4

    def test_a_task_that_has_ended_keeps_its_last_sum(self) -> None:
        code = BUSY.format(0.3) + "print(flush=True); input()"
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:
            assert process.stdout is not None
            process.stdout.readline()
            read = host_counters([process.pid])
            busy_s = read().own_busy_s
            process.kill()
        assert busy_s >= 0.25
        assert read().own_busy_s == busy_s
