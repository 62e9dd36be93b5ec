"""Write one exact version of everything that pyproject.toml asks for, with and without hashes.

Run by ``make lock``. pip resolves the run-time, development and build requirements, without
installing them, in an empty environment made for the purpose: nothing that happens to be
installed sways it, and a lock that cannot be installed can still be replaced. ``constraints.txt``
has the versions, for who installs beside other packages; ``requirements.lock`` also the SHA-256 of
every file of each that the package index has.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK, CONSTRAINTS = ROOT / "requirements.lock", ROOT / "constraints.txt"
# Some packages ask for a later 3.11 than the one a distribution has (Debian 12: 3.11.2), so the
# lock is resolved for the very first.
OLDEST = "3.11.0"
HEADER = """\
# Exact versions of everything the workbench runs, tests and builds with.
# Written by `make lock` from pyproject.toml; not edited by hand.
"""


def requirements(pyproject: dict[str, object]) -> list[str]:
    """Return the run-time, development and build requirements of a parsed pyproject.toml."""
    project = pyproject["project"]
    build = pyproject["build-system"]
    assert isinstance(project, dict)
    assert isinstance(build, dict)
    return [
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
        *build["requires"],
    ]


def resolve(wanted: list[str]) -> dict[str, str]:
    """Return name -> version of all that `wanted` needs, as pip would install it on `OLDEST`."""
    with tempfile.TemporaryDirectory() as empty:
        venv.create(empty, with_pip=True)
        command = [f"{empty}/bin/python", "-m", "pip", "install", "--dry-run", "--quiet"]
        command += ["--disable-pip-version-check", "--report", "-", "--target", f"{empty}/target"]
        command += ["--python-version", OLDEST, "--only-binary", ":all:", *wanted]
        pip = subprocess.run(command, check=True, capture_output=True, text=True)
    report = json.loads(pip.stdout)
    found = (item["metadata"] for item in report["install"])
    return {canonical(one["name"]): one["version"] for one in found}


def hashes(pins: str) -> dict[str, list[str]]:
    """Return the SHA-256 of every file that the package index has of these pins, by name."""
    with tempfile.TemporaryDirectory() as empty:
        venv.create(empty, with_pip=True)
        python = [f"{empty}/bin/python", "-m"]
        subprocess.run([*python, "pip", "install", "--quiet", "uv"], check=True)
        command = [*python, "uv", "pip", "compile", "--quiet", "--no-deps", "--generate-hashes"]
        command += ["--no-header", "--no-annotate", "--python-version", OLDEST, "-"]
        uv = subprocess.run(command, input=pins, check=True, capture_output=True, text=True)
    found: dict[str, list[str]] = {}
    for line in uv.stdout.splitlines():
        if "==" in line:
            name = line.partition("==")[0]
        found.setdefault(name, []).extend(re.findall("--hash=sha256:([0-9a-f]{64})", line))
    return found


def canonical(name: str) -> str:
    """Return a distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def constraints_text(versions: dict[str, str]) -> str:
    """Return the constraints for name -> version.

    A local label (``2.13.0+cpu``) says which build this machine found; the lock leaves it out so
    that other machines find theirs. The GPU libraries that some builds of torch ask for are left
    to those builds for the same reason.
    """
    pins = [
        f"{name}=={version.partition('+')[0]}"
        for name, version in sorted(versions.items())
        if not re.match(r"nvidia-|cuda-|triton$", name)
    ]
    return HEADER + "\n".join(pins) + "\n"


def lock_text(constraints: str, archives: dict[str, list[str]]) -> str:
    """Return the lock: each pin with the SHA-256 of its files, as pip reads it.

    PyTorch is left to the constraints: which build of it a machine gets, and with which libraries,
    is up to its pip settings, and pip would prefer a file with a known hash to the one that is set.
    """
    lines = []
    for line in constraints.splitlines():
        name = line.partition("==")[0]
        if name != "torch":
            sums = sorted(set(archives.get(name, ())))
            lines.append(" \\\n".join([line, *(f"    --hash=sha256:{one}" for one in sums)]))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Resolve and write; the old lock stays if pip finds no solution."""
    here = ".".join(map(str, sys.version_info[:2]))
    if not OLDEST.startswith(f"{here}."):
        sys.exit(
            f"lock: this is Python {here}, but pip picks packages for Python {OLDEST} rightly only "
            "when run by the same minor version: make lock PYTHON=python3.11"
        )
    wanted = requirements(tomllib.loads((ROOT / "pyproject.toml").read_text()))
    print(f"lock: resolving {len(wanted)} requirements of pyproject.toml", flush=True)
    try:
        constraints = constraints_text(resolve(wanted))
        text = lock_text(constraints, hashes(constraints))
    except subprocess.CalledProcessError as error:
        sys.exit(f"lock: no solution was found, {LOCK.name} is unchanged:\n{error.stderr}")
    CONSTRAINTS.write_text(constraints)
    LOCK.write_text(text)
    print(f"lock: {text.count('==')} packages pinned in {LOCK.name}, {text.count('--hash')} files")


if __name__ == "__main__":
    main()
