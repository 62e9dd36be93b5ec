"""Versions and revision that results were made with."""

from __future__ import annotations

import contextlib
import platform
import subprocess
from pathlib import Path

import workbench

DECIDE_ROWS = ("networkx", "numpy", "polars", "scikit-learn", "scipy", "simpy", "torch")
"""Of these a change may change rows."""

VERSIONS_THAT_MATTER = (*DECIDE_ROWS, "altair", "vl-convert-python")
"""Of these a change makes a notebook run again."""

_VERSIONS_NOTED = ("anywidget", "ipykernel", "ipywidgets", "jupyterlab", "papermill")


def versions() -> dict[str, str]:
    """Return the versions of Python, of the workbench and of its dependencies."""
    from importlib import metadata

    found = {"python": platform.python_version(), "workbench": workbench.__version__}
    for name in sorted((*VERSIONS_THAT_MATTER, *_VERSIONS_NOTED)):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def revision(root: Path, *unread: str) -> tuple[str | None, bool | None]:
    """Return git's revision of `root`, and whether what a run reads differs from it.

    Both are None outside git. No run reads ``figures/``; `unread` are other such folders.
    """
    try:
        head = _git(root, "rev-parse", "HEAD")
        changed = _git(
            root, "status", "--porcelain", "--", ".", *(f":!{one}" for one in ("figures", *unread))
        )
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return head, bool(changed)


def _git(root: Path, *arguments: str) -> str:
    # Without optional locks, or a `git commit` of the user's at this moment would be refused.
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
