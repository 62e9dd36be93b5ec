"""A notebook runs again if, and only if, its inputs have changed; its folder has no leftovers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import workbench
from tests.reproduce.helpers import hidden, run, why, write_notebook
from workbench import datasets
from workbench.datasets import cifar10
from workbench.reproduce import find, read_notebook, resolve
from workbench.reproduce.driver import plan
from workbench.reproduce.inputs import fingerprint
from workbench.store import provenance
from workbench.store.folder import clean


def test_opening_and_saving_a_notebook_changes_nothing(stored: Path) -> None:
    path = stored / "notebooks" / "04_plain.ipynb"
    notebook = json.loads(path.read_text())
    notebook["cells"][1]["execution_count"] = 12
    notebook["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x"}]
    notebook["metadata"]["language_info"] = {"name": "python", "version": "3.99"}
    path.write_text(json.dumps(notebook))
    assert why(stored) == ""


NOTEBOOK, MADE = "notebooks/04_plain.ipynb", "out/04_plain"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        (NOTEBOOK, ("print(os.getcwd())", "pass"), "changed: notebook"),
        ("data/claims.csv", "id\n", "changed: data"),
        ("data/testbeds/deep/x.toml", "a = 1", "changed: data"),
        ("data/traces/x.csv", "0,1", "changed: data"),
        ("data/samples/x.csv", "0,1", "changed: data"),
        ("data/profiles/zoo.json", "{}", "changed: data"),
        ("data/recorded/x/fig1/manifest.json", "{}", "changed: data"),
        ("requirements.lock", "torch==2.13.0", "changed: lock"),
        (f"{MADE}/04_plain.ipynb", "{}", "altered or missing: 04_plain.ipynb"),
        (f"{MADE}/04_plain.ipynb", None, "altered or missing: 04_plain.ipynb"),
        (f"{MADE}/manifest.json", None, "no results yet"),
    ],
)
def test_a_change_makes_it_run_again(
    stored: Path, name: str, content: str | tuple[str, str] | None, reason: str
) -> None:
    """A file that is written, one of which a part is replaced, or one that is deleted."""
    path = stored / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        path.unlink()
    else:
        path.write_text(content if isinstance(content, str) else path.read_text().replace(*content))
    assert why(stored) == reason


def test_other_parameters_and_force_make_it_run_again(stored: Path) -> None:
    assert why(stored, given={"repeats": "4"}) == "changed: parameters"
    assert why(stored, force=True) == "forced"


def test_package_source_and_data_files_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = read_notebook(write_notebook(tmp_path / "notebooks" / "01_x.ipynb"))
    (tmp_path / "package" / "inner").mkdir(parents=True)
    source = tmp_path / "package" / "inner" / "module.py"
    source.write_text("x = 1")
    data = tmp_path / "mine.npz"
    data.write_bytes(b"1")
    monkeypatch.setattr(workbench, "__file__", str(tmp_path / "package" / "__init__.py"))

    def inputs(**versions: str) -> dict[str, str]:
        return fingerprint(notebook, {"dataset": str(data)}, tmp_path, versions)

    def changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
        return [group for group in before if before[group] != after[group]]

    first = inputs()
    source.write_text("x = 2")
    assert changed(first, inputs()) == ["package"]
    source.write_text("x = 1")
    data.write_bytes(b"2")
    assert changed(first, inputs()) == ["parameters"]
    data.write_bytes(b"1")
    for package in ("torch", "scikit-learn", "simpy", "altair"):
        assert changed(first, inputs(**{package: "9"})) == ["versions"]
    assert inputs(pytest="9") == first
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx512")
    assert changed(first, inputs()) == ["instruction set"]


def test_a_data_set_that_arrives_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = read_notebook(write_notebook(tmp_path / "notebooks" / "01_x.ipynb"))
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path))
    before = fingerprint(notebook, {"dataset": "auto"}, tmp_path, {})
    (tmp_path / cifar10.LAYOUT).mkdir(parents=True)
    for name in (*cifar10.TRAIN_FILES, cifar10.TEST_FILE):
        (tmp_path / cifar10.LAYOUT / name).touch()
    assert "cifar10" in datasets.available()
    assert fingerprint(notebook, {"dataset": "auto"}, tmp_path, {}) == before


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
    assert provenance.untraceable(tmp_path / "installed") == "this is not a git checkout"
    assert provenance.revision(tmp_path / "mine") == (git("rev-parse", "HEAD"), False)


def test_new_files_are_changes_whatever_is_configured(tmp_path: Path) -> None:
    git = git_in(tmp_path)
    git("init", "--initial-branch=main")
    git("commit", "--allow-empty", "-m", "first")
    git("config", "status.showUntrackedFiles", "no")
    (tmp_path / "new.py").touch()
    assert "the working tree differs" in provenance.untraceable(tmp_path)


def test_rows_are_traced_to_a_commit_of_main_alone(tmp_path: Path) -> None:
    assert provenance.untraceable(tmp_path) == "this is not a git checkout"
    git = git_in(tmp_path)
    git("init", "--initial-branch=main")
    (tmp_path / "input").write_text("old")
    git("add", ".")
    git("commit", "-m", "first")
    assert provenance.untraceable(tmp_path) == ""
    (tmp_path / "input").write_text("new")
    assert "the working tree differs" in provenance.untraceable(tmp_path)
    git("checkout", "-b", "other")
    git("commit", "-am", "second")
    git("tag", "main")
    assert "is not on the branch main" in provenance.untraceable(tmp_path)
    git("tag", "--delete", "main")
    git("checkout", "main")
    git("merge", "other")
    git("checkout", "other")
    assert provenance.untraceable(tmp_path) == ""


def test_what_changes_during_a_run_does_not_pass_for_its_input(tmp_path: Path) -> None:
    """A waiting notebook runs as it was checked; mixed results stand for no input at all."""
    claims, later = tmp_path / "data" / "claims.csv", tmp_path / "notebooks" / "02_y.ipynb"
    claims.parent.mkdir()
    claims.write_text("old")
    edit = f"""\
from collections.abc import Callable
from pathlib import Path
Path({str(claims)!r}).write_text("new")
Path({str(later)!r}).write_text(Path({str(later)!r}).read_text().replace("before", "after"))
"""
    write_notebook(tmp_path / "notebooks" / "01_x.ipynb", edit)
    write_notebook(later, "'before'")
    run(tmp_path, jobs=1)  # one waits for the other
    assert "'before'" in (tmp_path / "out" / "02_y" / "02_y.ipynb").read_text()
    claims.write_text("old")
    chosen = find(tmp_path / "notebooks")
    values, out = resolve(chosen, None, {}), tmp_path / "out"
    tasks = plan([(one, values[one.name], out) for one in chosen], tmp_path, force=False)
    reasons = [task.progress.reason for task in tasks]
    assert reasons == ["changed: data", "changed: notebook, data"]


def test_death_between_two_renames_loses_nothing(stored: Path) -> None:
    out = stored / "out"
    (out / "04_plain").rename(out / ".04_plain.old")
    (out / ".04_plain.partial-dead").mkdir()
    clean(out, ["04_plain"])
    assert why(stored) == ""
    (out / ".04_plain.old").mkdir()
    clean(out, ["04_plain"])
    assert why(stored) == ""
    assert hidden(out) == []


def test_only_leftovers_of_these_notebooks_are_removed(tmp_path: Path) -> None:
    """The folder may be any of the user's, with hidden files that look alike."""
    (tmp_path / "config").mkdir()
    mine = [".config.old", ".bashrc.old", ".02_other.partial-x", ".04_plain.ipynb.part"]
    for name in mine:
        (tmp_path / name).mkdir()
    for name in (".04_plain.partial-x", ".04_plain.failed.ipynb.x.part"):
        (tmp_path / name).touch()
    clean(tmp_path, ["04_plain"])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*mine, "config"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output": "file/out"}, "cannot write to"),
        ({"output": "locked"}, r"cannot write to .*\.lock"),
        ({"figures": "file"}, "file: there is a file in its place"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_runs(
    two: Path, options: dict[str, str], message: str
) -> None:
    (two / "file").touch()
    (two / "locked" / ".lock").mkdir(parents=True)
    with pytest.raises(ValueError, match=message):
        run(two, **{name: two / path for name, path in options.items()})
    assert not (two / "out").exists()
