"""A recording is carried over to other code by equal rows alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import polars as pl
import pytest

from tests.reproduce.test_inputs import git_in
from workbench import systems
from workbench.experiments import carry_over as room
from workbench.experiments import recorded
from workbench.experiments.carry_over import carry_over
from workbench.experiments.record import record
from workbench.store import provenance
from workbench.store.manifest import NAME, Manifest
from workbench.utils.checks import UserError

HEAD = "b" * 40
ROWS = pl.DataFrame({"name": ["x", "y"], "value": [1.0, float("nan")]})


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hold a recording of other code, in a checkout that counts as clean."""
    folder = record("dlion", "fig20", scale="smoke", processes=1, folder=tmp_path)
    inputs = Manifest.read(folder).inputs
    restate(folder, inputs={**inputs, "code": "other"}, revision="a" * 40, dirty=False)
    monkeypatch.setattr(provenance, "untraceable", lambda *_: "")
    monkeypatch.setattr(provenance, "revision", lambda *_: (HEAD, False))
    return folder


def restate(folder: Path, **fields: object) -> None:
    made = dataclasses.replace(Manifest.read(folder), **fields)  # type: ignore[arg-type]
    (folder / NAME).write_text(made.to_json())


def rows_are(monkeypatch: pytest.MonkeyPatch, before: pl.DataFrame, now: pl.DataFrame) -> None:
    made = {"a" * 40: before, HEAD: now}
    monkeypatch.setattr(room, "_smoke_rows", lambda root, revision, *_: made[revision])


def test_equal_rows_carry_a_recording_over_and_name_both_commits(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_are(monkeypatch, ROWS, ROWS.clone())
    assert "2 rows" in carry_over("04", "fig20", folder=tmp_path)
    found = recorded.load("dlion", "fig20", tmp_path)
    assert found is not None
    assert (found.manifest.revision, found.manifest.carried_over_to) == ("a" * 40, HEAD)
    assert recorded.changed(found, systems.figures("dlion")["fig20"]) == []
    assert "nothing has changed" in carry_over("dlion", "fig20", folder=tmp_path)


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (ROWS.with_columns(value=pl.Series([1.0, 2.0])), "value in row 1 was nan and is 2.0"),
        (ROWS.with_columns(value=pl.Series([1.0 + 1e-15, float("nan")])), "value in row 0"),
        (ROWS.head(1), "2 rows became 1"),
        (ROWS.rename({"value": "other"}), "columns name, value became name, other"),
    ],
)
def test_rows_that_differ_leave_the_recording_as_it_is(
    now: pl.DataFrame, says: str, old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (old / NAME).read_text()
    rows_are(monkeypatch, ROWS, now)
    with pytest.raises(UserError, match=says):
        carry_over("dlion", "fig20", folder=tmp_path)
    assert (old / NAME).read_text() == before


def test_what_no_commit_has_is_refused(old: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="fig8 has no recording"):
        carry_over("dlion", "fig8", folder=tmp_path)
    with pytest.raises(UserError, match="git has no revision aaaaaaaa"):
        carry_over("dlion", "fig20", folder=tmp_path)
    restate(old, dirty=True)
    with pytest.raises(UserError, match=r"with changes.*`workbench record dlion fig20 --force`"):
        carry_over("dlion", "fig20", folder=tmp_path)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"inputs": {"versions": "others"}}, "versions changed since fig20 was recorded"),
        ({"inputs": {"instruction set": "avx512"}}, "instruction set changed since"),
        ({"data": {"digits": "0" * 64}}, "data set digits changed since"),
        ({"dirty": None}, "from a working tree with changes"),
    ],
)
def test_other_versions_or_data_are_not_carried_over(
    how: dict[str, dict[str, str]],
    says: str,
    old: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows_are(monkeypatch, ROWS, ROWS)
    made = Manifest.read(old)
    if "inputs" in how:
        how = {"inputs": {**made.inputs, **how["inputs"]}}
    restate(old, **how)
    before = (old / NAME).read_text()
    with pytest.raises(UserError, match=says):
        carry_over("dlion", "fig20", folder=tmp_path)
    assert (old / NAME).read_text() == before


def test_commits_of_a_recording_are_on_main(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_are(monkeypatch, ROWS, ROWS)
    git = git_in(tmp_path)
    git("init", "--initial-branch=main")
    git("commit", "--allow-empty", "-m", "first")
    head, aside = git("rev-parse", "HEAD"), git("commit-tree", "HEAD^{tree}", "-m", "aside")
    monkeypatch.setattr(provenance, "revision", lambda *_: (head, False))
    for how in ({"revision": aside}, {"revision": head, "extended_at": aside}):
        restate(old, **how)
        with pytest.raises(UserError, match=f"recorded at {aside[:8]}, which is not on the branch"):
            carry_over("dlion", "fig20", root=tmp_path, folder=tmp_path)


def test_rows_are_made_with_the_recordings_parameters(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[object]()

    def noted(root: Path, revision: str, system: str, name: str, options: object) -> pl.DataFrame:
        asked.append(options)
        return ROWS

    monkeypatch.setattr(room, "_smoke_rows", noted)
    made = Manifest.read(old)
    restate(old, arguments={**made.arguments, "seed": 2, "model": "lenet5"})
    carry_over("dlion", "fig20", folder=tmp_path)
    assert asked == [["-pmodel=lenet5"]] * 2


def test_what_was_recorded_again_meanwhile_is_not_stamped(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replaced(*_: object) -> pl.DataFrame:
        restate(old, seconds=1e6)
        return ROWS

    monkeypatch.setattr(room, "_smoke_rows", replaced)
    with pytest.raises(UserError, match="recorded again meanwhile"):
        carry_over("dlion", "fig20", folder=tmp_path)
    assert Manifest.read(old).carried_over_to is None
