"""One smoke-scale reproduction of every notebook, made once and shared by all that look at it."""

from __future__ import annotations

import fcntl
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from workbench.utils import instruction_set
from workbench.utils.files import ROOT

if TYPE_CHECKING:
    from workbench.runtime.measured.sessions import Session

# Stored values are compared bit for bit; nothing has imported NumPy or PyTorch yet.
instruction_set.fix()

# Tests run beside each other; one that is about several processes asks for them.
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")

# A shell's background jobs ignore Ctrl-C, and so would what tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("default", settings.get_profile("default"), deadline=None)
settings.load_profile("default")
settings.register_profile("ci", settings.get_profile("ci"), max_examples=50)
settings.register_profile("long", settings.get_profile("ci"), max_examples=1000)

MADE = {ROOT / "data": {"results", "downloads"}, ROOT / "docs": {"_build", "generated"}}
COMMAND = Path(sys.executable).with_name("workbench")
RUN = ("reproduce", "--scale", "smoke", "--jobs", "2", "--trainings", "all")
STUCK_S = 1200.0
"""Without another cell for so long, a run of the notebooks has got stuck."""


def pytest_sessionstart() -> None:
    """Collect tests without looking for garbage: nearly all that is made then stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave tests and modules, which stay to the end, out of each later search for garbage."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def _little_to_search() -> None:
    """Leave what earlier files import and keep out of searches for garbage."""
    gc.collect()
    gc.freeze()


@dataclass(frozen=True)
class Clone:
    """A copy of the repository, as its files stand, where commands may write what they like.

    The user's own ``data/results`` and ``figures`` stay as they are, and a file that is edited
    while the tests run does not change what they see.
    """

    root: Path

    @property
    def results(self) -> Path:
        return self.root / "data" / "results"

    @property
    def environment(self) -> dict[str, str]:
        """Variables under which Python and `workbench` are this interpreter's, on the copy."""
        path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "PYTHONPATH": str(self.root)}

    def workbench(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the installed command as a user would, in the copy."""
        return subprocess.run(
            [COMMAND, *arguments],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def copy(self, root: Path) -> Clone:
        """Copy the copy, with its results."""
        shutil.copytree(self.root, root)
        return Clone(root)


@dataclass(frozen=True)
class Smoke(Clone):
    """The copy after ``workbench reproduce --scale smoke``, which ended well.

    Attributes
    ----------
    printed
        What the run wrote to its standard output.
    wall_s
        Seconds it took.
    """

    printed: str
    wall_s: float


def copy_repository(root: Path) -> Clone:
    """Copy what a fresh clone would hold: nothing hidden, nothing made."""

    def left_out(folder: str, names: list[str]) -> list[str]:
        made = MADE.get(Path(folder), {"__pycache__"})
        return [name for name in names if name in made or name.startswith(".")]

    shutil.copytree(ROOT, root, ignore=left_out)
    return Clone(root)


def run_while_it_progresses(clone: Clone) -> list[int | str | float]:
    """Run all notebooks; end it where none has come to another cell for `STUCK_S`.

    Returns the exit status and what was written to standard output and standard error.
    """
    out, err = clone.root / "smoke.out", clone.root / "smoke.err"
    with out.open("w") as output, err.open("w") as errors:
        running = subprocess.Popen(
            [COMMAND, *RUN], cwd=clone.root, env=clone.environment, stdout=output, stderr=errors
        )
        cells, since_s = "", time.monotonic()
        while running.poll() is None:
            time.sleep(0.5)
            # A line tells the cell and, last, the seconds, which go on where nothing else does.
            lines = [line.rpartition(",")[0] or line for line in out.read_text().splitlines()]
            if (now := "".join(dict.fromkeys(lines))) != cells:
                cells, since_s = now, time.monotonic()
            if time.monotonic() - since_s > STUCK_S:
                running.kill()
                errors.write(f"no other cell for {STUCK_S:.0f} s")
    content: list[int | str | float] = [running.wait(), out.read_text(), err.read_text()]
    out.unlink()
    err.unlink()
    return content


@pytest.fixture(scope="session")
def ray_session() -> Iterator[Session]:
    """Ray on this machine, for all measured runs of a test process."""
    from workbench.runtime.measured import session

    with session(places=8) as open_session:
        yield open_session


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Smoke:
    """Every notebook at smoke scale: one run, whichever test process asks first."""
    shared = tmp_path_factory.getbasetemp()
    if (
        "PYTEST_XDIST_WORKER" in os.environ
    ):  # then it is the process's own; its parent is everyone's
        shared = shared.parent
    root, record = shared / "smoke", shared / "smoke.json"
    with (shared / "smoke.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not record.exists():
            started_s = time.monotonic()
            content = run_while_it_progresses(copy_repository(root))
            content.append(time.monotonic() - started_s)
            record.write_text(json.dumps(content))
    status, printed, errors, wall_s = json.loads(record.read_text())
    if status != 0 or errors:
        told = f"{printed}\n{errors}"
        pytest.fail(f"workbench {' '.join(RUN)} ended with {status}:\n{told}", pytrace=False)
    return Smoke(root, printed, wall_s)
