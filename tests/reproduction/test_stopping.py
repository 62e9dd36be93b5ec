"""Killed or interrupted at any moment, a sweep and a recording go on and end with equal rows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reproduction import toy
from tests.test_parallel import session, wait_for
from workbench.utils.files import ROOT

RECORD = """\
import os, sys
from pathlib import Path
import workbench
from tests.reproduction import toys
from tests.reproduction import toy
from workbench.reproduction import systems
from workbench.reproduction.record import record
from workbench.reproduction import provenance

folder, number = sys.argv[1], int(sys.argv[2])
systems.TITLES["toy"] = "Toy"
sys.modules.update(toys.modules("toy", toy.figures, toy.Setting))
provenance.revision = lambda *_: ("a" * 40, False)

def stopped_at(moment):
    def stop(event, arguments):
        nonlocal moment
        if event == "os.rename" and str(arguments[1]).startswith(folder):
            moment -= 1
            if moment == 0:
                os.kill(os.getpid(), number)

    sys.addaudithook(stop)
    record("toy", "fleet", scale="smoke", processes=1, folder=Path(folder))

for moment in range(1, 10):
    if not (child := os.fork()):
        try:
            stopped_at(moment)
        except KeyboardInterrupt:
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(status, [path.name for path in Path(folder, "toy").glob("[!.]*")], flush=True)
    if status == 0:
        break
"""
SWEEP = """\
import time
from pathlib import Path
from workbench.reproduction.sweep import grid, sweep

def measured(seed, folder):
    with (Path(folder) / str(seed)).open("a") as done:
        done.write(".")
    while seed == 3 and not (Path(folder) / "go").exists():
        time.sleep(0.02)
    return {"x": 5 * seed}

if __name__ == "__main__":
    shared = {"folder": "counted"}
    frame = sweep(measured, grid(seed=range(5)), shared=shared, folder="kept", processes=2)
    print(frame["x"].to_list())
"""
SIGNALS = pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])


def start(script: str, *arguments: str, folder: Path) -> subprocess.Popen[str]:
    (folder / "mine.py").write_text(script)
    return subprocess.Popen(
        [sys.executable, "mine.py", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@SIGNALS
def test_a_recording(number: signal.Signals, tmp_path: Path) -> None:
    """Each run is stopped at one later of the renames that make a file or a folder final."""
    (home := tmp_path / "recorded").mkdir()
    process = start(RECORD, str(home), str(int(number)), folder=tmp_path)
    printed, said = process.communicate()
    *stopped, last = printed.splitlines()
    assert last == "0 ['fleet']", said
    assert len(stopped) > 3
    assert set(stopped) == {f"{-number if number == signal.SIGKILL else 1} []"}
    assert toy.loaded("fleet", home).frame.equals(toy.fleet())
    assert {path.name for path in (home / "toy").iterdir()} == {"fleet", ".fleet.lock", ".points"}


@SIGNALS
def test_a_sweep_with_a_folder(number: signal.Signals, tmp_path: Path) -> None:
    """Nothing but the point that was being computed is computed again."""
    (counted := tmp_path / "counted").mkdir()

    def runs() -> list[int]:
        files = [counted / str(seed) for seed in range(5)]
        return [len(file.read_text()) if file.exists() else 0 for file in files]

    process = start(SWEEP, folder=tmp_path)
    try:
        wait_for(lambda: runs() == [1, 1, 1, 1, 1] or process.poll() is not None)
        wait_for(lambda: len(list((tmp_path / "kept").glob("*.json"))) == 4)
        process.send_signal(number)
        process.wait()
        wait_for(lambda: not session(process.pid))  # the processes beside it have ended, too
    finally:
        process.kill()
        process.communicate()
    (counted / "go").touch()
    printed, said = start(SWEEP, folder=tmp_path).communicate()
    assert printed == "[0, 5, 10, 15, 20]\n", said
    assert runs() == [1, 1, 1, 2, 1]
