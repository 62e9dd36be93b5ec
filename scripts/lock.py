"""Write requirements.lock: one exact version of everything that pyproject.toml asks for.

Run by ``make lock``. pip resolves the run-time, development and build requirements, without
installing them, in an empty environment made for the purpose: nothing that happens to be
installed sways it, and a lock that cannot be installed can still be replaced.
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
LOCK = ROOT / "requirements.lock"
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


def canonical(name: str) -> str:
    """Return a distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def lock_text(versions: dict[str, str]) -> str:
    """Return the lock file's text for name -> version.

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
        versions = resolve(wanted)
    except subprocess.CalledProcessError as error:
        sys.exit(f"lock: pip found no solution, {LOCK.name} is unchanged:\n{error.stderr}")
    text = lock_text(versions)
    LOCK.write_text(text)
    print(f"lock: {text.count('==')} packages pinned in {LOCK.name}")


if __name__ == "__main__":
    main()
