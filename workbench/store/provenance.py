"""What results were made with, and what the rows of a figure rest on."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import workbench
from workbench.store.code import code
from workbench.store.manifest import file_digest
from workbench.utils import files, instruction_set

DECIDE_ROWS = ("networkx", "numpy", "polars", "scikit-learn", "scipy", "simpy", "torch")
"""Of these a change may change rows."""

VERSIONS_THAT_MATTER = (*DECIDE_ROWS, "altair", "vl-convert-python")
"""Of these a change makes a notebook run again."""

_VERSIONS_NOTED = ("anywidget", "ipykernel", "ipywidgets", "jupyterlab", "papermill")


def all_versions() -> dict[str, str]:
    """Return the versions of Python, of the workbench and of its dependencies."""
    from importlib import metadata

    versions = {"python": platform.python_version(), "workbench": workbench.__version__}
    for name in sorted((*VERSIONS_THAT_MATTER, *_VERSIONS_NOTED)):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def revision(root: Path, *unread: str) -> tuple[str | None, bool | None]:
    """Return git's revision of `root`, and whether what a run reads differs from it.

    Both are None outside git, or where a commit of another repository lacks `root`, such as an
    ignored folder in it. No run reads ``figures/``; `unread` are other such folders.
    """
    try:
        _git(root, "rev-parse", "HEAD:./")
        head = _git(root, "rev-parse", "HEAD")
        changed = _git(
            root,
            "status",
            "--porcelain",
            "--untracked-files=normal",  # whatever the user's configuration says
            "--ignore-submodules=none",
            "--",
            ".",
            *(f":!{folder}" for folder in ("figures", *unread)),
        )
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return head, bool(changed)


def untraceable(root: Path, *unread: str) -> str:
    """Say why rows made in `root` cannot be traced to a commit of its branch main; else nothing."""
    head, dirty = revision(root, *unread)
    if head is None:
        return "this is not a git checkout"
    if dirty:
        return f"the working tree differs from its revision, {head[:8]}"
    for branch in ("refs/heads/main", "refs/remotes/origin/main"):  # and no tag of that name
        with contextlib.suppress(subprocess.CalledProcessError):
            _git(root, "merge-base", "--is-ancestor", "HEAD", branch)
            return ""
    return f"its revision, {head[:8]}, is not on the branch main"


def _git(root: Path, *arguments: str) -> str:
    # Without optional locks, or a `git commit` of the user's at this moment would be refused.
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def machine() -> dict[str, str]:
    """Return what is known of this machine."""
    import psutil

    gib = psutil.virtual_memory().total / 2**30
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{gib:.0f} GiB",
        "system": platform.platform(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())


def inputs_of_rows(
    system: str,
    function: Callable[..., object],
    settled: object = None,
    *,
    root: Path = files.ROOT,
    versions: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return a SHA-256 of each group of inputs that rows rest on.

    The groups are the code that the function uses, with what is `settled` beside its arguments, the
    tables in ``data/`` that the system's experiments read, the versions of packages that compute,
    and the instruction set.
    """
    known = all_versions() if versions is None else versions
    python = ".".join(known.get("python", "").split(".")[:2])
    data = root / "data"  # a testbed and its calibration have the same name in two folders
    tables = {path.relative_to(data).as_posix(): _content(path) for path in _read_by(system, data)}
    return {
        "code": digest([code(function), repr(settled)]),
        "data": digest(tables),
        **of_machine({**known, "python": python}, DECIDE_ROWS),
    }


def of_machine(versions: Mapping[str, str], that_matter: Iterable[str]) -> dict[str, str]:
    """Return a SHA-256 of the versions that matter, and of the instruction set."""
    return {
        "versions": digest({name: versions.get(name) for name in ("python", *that_matter)}),
        "instruction set": digest(instruction_set.record(new_process=True)),
    }


def of_package() -> str:
    """Return a SHA-256 of the source of this package."""
    package = Path(workbench.__file__).parent
    return digest(digests(package.rglob("*.py"), package))


def digests(files: Iterable[Path], root: Path) -> dict[str, str | None]:
    """Return the SHA-256 of each file that there is, by its path from `root`."""
    return {
        os.path.relpath(file, root): file_digest(file) for file in sorted(files) if file.is_file()
    }


def digest(value: object) -> str:
    """Return the SHA-256 of what JSON can say."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _read_by(system: str, data: Path) -> list[Path]:
    """Tables of a system's name, and of those that its package says in ``TABLES_OF``."""
    package = sys.modules.get(f"workbench.{system}")
    names = (system, *getattr(package, "TABLES_OF", ()))
    patterns = (
        *(f"{folder}/{name}.toml" for folder in ("testbeds", "calibration") for name in names),
        f"samples/{system}_*.csv",
        "traces/*.csv",
        "profiles/*.json",
    )
    return [path for pattern in patterns for path in sorted(data.glob(pattern))]


_OF_A_FIT = ("method", "fitted_on", "residuals")


def _content(table: Path) -> object:
    """What rows may rest on: no comments, nor by which code or from what numbers were found."""
    text = table.read_text(encoding="utf-8")
    if table.suffix == ".toml":
        return {name: value for name, value in tomllib.loads(text).items() if name not in _OF_A_FIT}
    return json.loads(text) if table.suffix == ".json" else text
