"""A notebook is finished if this commit made its results; its folder has no leftovers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.reproduce.helpers import hidden, run, why
from workbench.store import provenance
from workbench.store.folder import clean
from workbench.store.manifest import NAME, Manifest


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
        (NOTEBOOK, ("print(os.getcwd())", "pass"), "other cells"),
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
    if content is None:
        path.unlink()
    else:
        path.write_text(content if isinstance(content, str) else path.read_text().replace(*content))
    assert why(stored) == reason


@pytest.mark.parametrize(
    ("revision", "reason"),
    [
        (("b", False), "another commit"),
        (("a", True), "the working tree has changes"),
        (("a", False), ""),
    ],
)
def test_what_the_same_commit_has_made_stays(
    stored: Path,
    monkeypatch: pytest.MonkeyPatch,
    revision: tuple[str, bool],
    reason: str,
) -> None:
    path = stored / MADE
    made = replace(Manifest.read(path), revision="a", dirty=False)
    (path / NAME).write_text(made.to_json())
    monkeypatch.setattr(provenance, "revision", lambda _: revision)
    assert why(stored) == reason


def test_other_parameters_and_force_make_it_run_again(stored: Path) -> None:
    assert why(stored, given={"repeats": "4"}) == "other parameters"
    assert why(stored, force=True) == "forced"


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
