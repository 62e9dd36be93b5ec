"""The commit that results were made at."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from workbench.reproduction import provenance


def git_in(folder: Path) -> Callable[..., str]:
    def git(*arguments: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        command = ["git", "-C", str(folder), *who, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    return git


def test_revision_tells_whether_inputs_differ_from_it(tmp_path: Path) -> None:
    assert provenance.revision(tmp_path) == (None, None)

    git = git_in(tmp_path)
    git("init")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "a.svg").write_text("old")
    (tmp_path / "input").write_text("old")
    git("add", ".")
    git("commit", "-m", "first")
    revision = git("rev-parse", "HEAD")
    (tmp_path / "figures" / "a.svg").write_text("new")  # an output: `make reproduce` writes it
    os.utime(tmp_path / "input", (1, 1))
    index = (tmp_path / ".git" / "index").read_bytes()
    assert provenance.revision(tmp_path) == (revision, False)
    assert (tmp_path / ".git" / "index").read_bytes() == index  # locked by nobody: a commit goes on
    (tmp_path / "input").write_text("new")
    assert provenance.revision(tmp_path) == (revision, True)


def test_another_repository_has_no_revision_of_what_it_ignores(tmp_path: Path) -> None:
    """Such as an installed package in a virtual environment in a project of the user's."""
    git = git_in(tmp_path)
    git("init", "--initial-branch=main")
    (tmp_path / ".gitignore").write_text("installed/\n")
    for name in ("installed", "mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "input").write_text("old")
    git("add", ".")
    git("commit", "-m", "first")
    assert provenance.revision(tmp_path / "installed") == (None, None)
    assert provenance.revision(tmp_path / "mine") == (git("rev-parse", "HEAD"), False)


def test_new_files_are_changes_whatever_is_configured(tmp_path: Path) -> None:
    git = git_in(tmp_path)
    git("init", "--initial-branch=main")
    git("commit", "--allow-empty", "-m", "first")
    git("config", "status.showUntrackedFiles", "no")
    (tmp_path / "new.py").touch()
    assert provenance.revision(tmp_path) == (git("rev-parse", "HEAD"), True)
