"""Bring .venv to what requirements.lock and pyproject.toml say; at once if it is there already.

Run by every ``make`` command with the system's Python, standard library only. The environment
is whole when its stamp bears the fingerprint of the lock, pyproject.toml, this folder and the
Python behind it. A marker stands in the environment for as long as an installation is under way,
so one that was interrupted is seen, thrown away and made again.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
STAMP = ".installed"
MARKER = ".installing"
REPORT_EVERY_S = 5.0


class SetUpError(Exception):
    """The environment cannot be made; the message says what to do."""


def say(line: str) -> None:
    """Print one line of progress at once, also into a pipe."""
    print(f"set-up: {line}", flush=True)


def check_python(version: tuple[int, int, int], has_venv: bool) -> None:
    """Refuse a Python that is too old or, as on a bare Debian, comes without venv and pip."""
    found = ".".join(map(str, version[:3]))
    if version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise SetUpError(
            f"python3 is Python {found}; the workbench needs {oldest} or newer. Install one "
            f"and name it: make PYTHON=python{oldest} ..."
        )
    if not has_venv:
        raise SetUpError(
            f"Python {found} at {sys.executable} cannot create virtual environments. On Debian "
            "and Ubuntu: apt-get install python3-venv (as root), then run make again."
        )


def fingerprint(root: Path) -> str:
    """Return a hash of all that an installed environment depends on."""
    digest = hashlib.sha256(f"{root}\n{sys.version}\n".encode())
    for name in ("requirements.lock", "constraints.txt", "pyproject.toml"):
        digest.update((root / name).read_bytes() + b"\0")
    return digest.hexdigest()


def is_whole(root: Path) -> bool:
    """Tell whether .venv was installed to the end, from the present lock and pyproject.toml."""
    stamp = root / ".venv" / STAMP
    return (
        stamp.is_file()
        and not (root / ".venv" / MARKER).exists()
        and stamp.read_text() == fingerprint(root)
    )


def is_broken(venv: Path) -> bool:
    """Tell whether `venv` is there but half installed, or its Python is gone."""
    if not venv.exists():
        return False
    if (venv / MARKER).exists():
        return True
    try:
        return subprocess.run([venv / "bin/python", "-c", "import pip"], check=False).returncode > 0
    except OSError:
        return True


def set_up(
    root: Path, create: Callable[[Path], None], install: Callable[[Path, Path], None]
) -> None:
    """Make .venv whole: throw a broken one away, `create` a missing one, `install` into it."""
    venv = root / ".venv"
    if is_whole(root):
        return
    if is_broken(venv):
        say("the last installation did not finish, or its Python is gone: starting .venv again")
        shutil.rmtree(venv)
    fresh = not venv.exists()
    venv.mkdir(exist_ok=True)
    (venv / MARKER).touch()
    (venv / STAMP).unlink(missing_ok=True)
    if fresh:
        create(venv)
    install(root, venv)
    (venv / STAMP).write_text(fingerprint(root))
    (venv / MARKER).unlink()


def create_venv(venv: Path) -> None:
    """Create an empty virtual environment from the Python that runs this script."""
    check_python(sys.version_info[:3], importlib.util.find_spec("ensurepip") is not None)
    say(f"creating .venv with Python {sys.version.split()[0]}")
    # The base interpreter: this one may itself live in the environment that was thrown away.
    python = getattr(sys, "_base_executable", sys.executable)
    subprocess.run([python, "-m", "venv", venv], check=True)


def install_lock(root: Path, venv: Path) -> None:
    """Install and compile the locked packages, then the workbench itself, editable, from here."""
    lock = root / "requirements.lock"
    total = sum("==" in line for line in lock.read_text().splitlines())
    say(f"installing {total} locked packages; the first time this takes some minutes")
    pip = [str(venv / "bin/python"), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    options = ["--progress-bar", "off", "--no-compile"]
    checked = ["--require-hashes", "--no-deps", "-r", str(lock)]
    run_pip([*pip, "install", *options, *checked], venv, total)
    say("installing PyTorch")
    run_pip([*pip, "install", *options, "-r", str(root / "constraints.txt")], venv, total)
    # In all cores, where pip compiles in one. Its status does not count: some packages hold files
    # that no Python compiles.
    say("compiling them")
    compiling = [str(venv / "bin/python"), "-m", "compileall", "-qq", "-j", "0", str(venv / "lib")]
    subprocess.run(compiling, check=False)
    say("installing the workbench itself")
    own = ["--no-deps", "--no-build-isolation", "--editable", str(root)]
    subprocess.run([*pip, "install", "--quiet", *own], check=True)


def run_pip(command: list[str], venv: Path, total: int) -> None:
    """Run pip and say every few seconds how far it is, in place of its own many lines.

    pip's last lines are shown where it fails.
    """
    started = time.monotonic()
    last: deque[str] = deque(maxlen=40)
    doing = ["asking for versions"]
    done = threading.Event()

    def report() -> None:
        while not done.wait(REPORT_EVERY_S):
            step = doing[0]
            if step == "unpacking":
                ready = sum(1 for _ in venv.glob("lib/python*/site-packages/*.dist-info"))
                step = f"unpacked {ready} of {total} packages"
                if ready >= total:  # those before count, too: only the largest is left
                    step = "unpacking PyTorch, the largest, or finishing"
            say(f"{step} ({time.monotonic() - started:.0f} s)")

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    fetched = 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            last.append(line)
            named = re.match(r"(?:Collecting|Requirement already satisfied:) ([\w.-]+)", line)
            named = named or re.match(r"Processing \S*?([^/\s-]+)-[^/\s]*\.whl", line)
            if named:
                fetched += 1
                doing[0] = f"fetching {named[1]}, {min(fetched, total)} of {total}"
            elif "Retrying" in line:
                doing[0] = "waiting for a connection that pip tries again"
            elif line.startswith("Installing collected packages"):
                doing[0] = "unpacking"
    done.set()
    reporter.join()
    if pip.returncode != 0:
        print("".join(last), end="", file=sys.stderr)
        raise SetUpError(
            "pip could not install requirements.lock; its message stands above. Check the "
            "network (or pip's proxy and index settings), then run make again."
        )


def main() -> int:
    """Set up this checkout, one make at a time; return the exit status."""
    # Locking the lock file itself needs no further file, and ends with the process.
    with (ROOT / "requirements.lock").open() as guard:
        try:
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("another make is setting up this folder; waiting for it")
            fcntl.flock(guard, fcntl.LOCK_EX)
        try:
            check_python(sys.version_info[:3], has_venv=True)
            set_up(ROOT, create_venv, install_lock)
        except SetUpError as error:
            print(f"set-up: {error}", file=sys.stderr)
            return 1
        except subprocess.CalledProcessError as error:
            print(f"set-up: {' '.join(map(str, error.cmd))} failed", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("set-up: interrupted; the next make starts the installation again")
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
