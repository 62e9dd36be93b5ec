"""A folder of results has no leftovers, and loses none of what is finished."""

from __future__ import annotations

from pathlib import Path

from workbench.reproduction.folder import clean


def test_death_between_two_renames_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / ".04_plain.old").mkdir()
    (tmp_path / ".04_plain.old" / "frame").touch()
    (tmp_path / ".04_plain.partial-dead").mkdir()
    clean(tmp_path, ["04_plain"])
    assert (tmp_path / "04_plain" / "frame").is_file()
    (tmp_path / ".04_plain.old").mkdir()
    clean(tmp_path, ["04_plain"])
    assert [path.name for path in tmp_path.iterdir()] == ["04_plain"]


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
