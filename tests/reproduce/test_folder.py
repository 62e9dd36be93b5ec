"""The results folder has one writer and no leftovers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reproduce.helpers import hidden, run, why
from workbench.store.folder import clean


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
