"""Calls in several processes: every result with its number, errors as they were raised."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from joblib.externals.loky import process_executor

from workbench.utils.files import ROOT
from workbench.utils.parallel import as_finished

LIMIT_S = 60.0
"""Calls below last ten times as long: what waits for them is found out."""

INTERRUPTED = f"""
import signal, time
from tests.test_parallel import begin, squared
from workbench.utils.parallel import as_finished

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where tests run unattended
try:
    for at, _ in as_finished(begin, [({{0!r}}, first)] + [({{0!r}}, {10 * LIMIT_S})] * 5, 2):
        print("got", at, flush=True)
        time.sleep({10 * LIMIT_S})
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(sorted(value for _, (value, _) in as_finished(squared, [(1.0,), (2.0,), (3.0,)], 2)))
"""


def squared(number: float, wait_s: float = 0.0) -> tuple[float, int]:
    time.sleep(wait_s)
    return number**2, os.getpid()


def refuse(number: int) -> None:
    if number == 1:
        raise ValueError(f"{number} is refused")


def interrupt(number: int) -> None:
    raise KeyboardInterrupt


def ctrl_c_is_blocked() -> bool:
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def begin(folder: str, wait_s: float) -> None:
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(wait_s)


def session(leader: int) -> list[int]:
    """Return the processes that live in the session of this one."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def wait_for(condition: Callable[[], object], seconds: float = LIMIT_S) -> None:
    end_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.005)


@pytest.mark.parametrize("processes", [1, 2, None])
def test_every_result_comes_once_with_its_number(processes: int | None) -> None:
    found = dict(as_finished(squared, [(float(at),) for at in range(5)], processes))
    assert {at: value for at, (value, _) in found.items()} == {at: at**2.0 for at in range(5)}


def test_results_come_as_they_are_ready() -> None:
    calls = [(0.0, 2.0), (1.0, 0.0)]
    assert [at for at, _ in as_finished(squared, calls, 2)] == [1, 0]


def test_one_process_is_this_one() -> None:
    assert {pid for _, (_, pid) in as_finished(squared, [(1.0,), (2.0,)], 1)} == {os.getpid()}
    assert {pid for _, (_, pid) in as_finished(squared, [(1.0,)], 2)} == {os.getpid()}
    assert os.getpid() not in {pid for _, (_, pid) in as_finished(squared, [(1.0,), (2.0,)], 2)}


@pytest.mark.parametrize("processes", [1, 2])
def test_what_a_call_raises_is_raised(processes: int) -> None:
    with pytest.raises(ValueError, match="1 is refused"):
        list(as_finished(refuse, [(0,), (1,)], processes))
    with pytest.raises(KeyboardInterrupt):
        list(as_finished(interrupt, [(0,), (1,)], processes))


def test_no_calls_are_no_results_and_no_process_is_refused() -> None:
    assert list(as_finished(squared, [])) == []
    with pytest.raises(ValueError, match="at least 1"):
        list(as_finished(squared, [(1.0,)], 0))


def test_ctrl_c_is_for_this_process_alone() -> None:
    # At any moment of theirs, also where it would rarely be met below.
    assert dict(as_finished(ctrl_c_is_blocked, [()] * 4, 2)) == dict.fromkeys(range(4), True)
    assert not ctrl_c_is_blocked()


@pytest.mark.filterwarnings("error::UserWarning")
def test_calls_are_given_up_while_they_are_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that hands them out is slow here, and would fail, as a warning, hence an error."""
    asked = process_executor._ExecutorManagerThread.is_shutting_down

    def slowly(thread: process_executor._ExecutorManagerThread) -> bool:
        time.sleep(0.1)
        return bool(asked(thread))

    monkeypatch.setattr(process_executor._ExecutorManagerThread, "is_shutting_down", slowly)
    calls = [(str(tmp_path), 0.0)] * 4 + [(str(tmp_path), 10 * LIMIT_S)] * 5
    for results in [as_finished(begin, calls, 2) for _ in range(2)]:
        next(results)
        time.sleep(1.0)  # the next results are there, and given at once, as further calls go out
        next(results)
        results.close()


@pytest.mark.parametrize("when", ["starting", "computing", "in the caller's loop"])
def test_ctrl_c_ends_all_at_once_and_the_next_use_works(when: str, tmp_path: Path) -> None:
    """As a terminal and Jupyter send it: to all processes of the group."""
    first = 0.0 if when == "in the caller's loop" else 10 * LIMIT_S
    script = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED.format(str(tmp_path)).replace("first", str(first))],
        cwd=ROOT,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        if when == "starting":  # two trackers of resources, and one of those who compute
            wait_for(lambda: len(session(script.pid)) >= 4)
        elif when == "computing":
            wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
        else:
            assert script.stdout is not None
            assert script.stdout.readline() == "got 0\n"
        os.killpg(script.pid, signal.SIGINT)
        printed, told = script.communicate(timeout=LIMIT_S)
        wait_for(lambda: not session(script.pid))
    finally:
        for left in session(script.pid):
            os.kill(left, signal.SIGKILL)
    assert told == ""
    assert printed.splitlines() == ["interrupted", "[1.0, 4.0, 9.0]"]
    assert script.returncode == 0


def test_a_caller_that_stops_early_gives_up_the_other_calls(tmp_path: Path) -> None:
    results = as_finished(begin, [(str(tmp_path), 0.0)] + [(str(tmp_path), 10 * LIMIT_S)] * 5, 2)
    assert next(results) == (0, None)
    results.close()
    assert dict(as_finished(squared, [(1.0,), (2.0,)], 2))[1][0] == 4.0
    wait_for(lambda: not any(psutil.pid_exists(int(path.name)) for path in tmp_path.iterdir()))
