"""Versions, commit and machine that results were made with."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import subprocess
from pathlib import Path

import workbench

PACKAGES = (
    *("altair", "anywidget", "ipykernel", "ipywidgets", "jupyterlab", "networkx", "numpy"),
    *("papermill", "polars", "scikit-learn", "scipy", "simpy", "torch", "vl-convert-python"),
)
"""Packages whose versions are noted beside results."""


def all_versions() -> dict[str, str]:
    """Return the versions of Python, of the workbench and of its dependencies."""
    from importlib import metadata

    versions = {"python": platform.python_version(), "workbench": workbench.__version__}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def revision(root: Path, *unread: str) -> tuple[str | None, bool | None]:
    """Return git's revision of `root`, and whether the files that a run reads differ from it.

    Both are None outside git, and for a folder that another repository ignores. Runs do not read
    ``figures/``, nor the folders in `unread`.
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


def _git(root: Path, *arguments: str) -> str:
    # Without optional locks, or a `git commit` of the user's at this moment would be refused.
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def machine() -> dict[str, str]:
    """Return the processor, cores, memory and operating system of this machine."""
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
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor())


def digest(value: object) -> str:
    """Return the SHA-256 of a value as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
