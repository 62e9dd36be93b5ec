"""A recording goes on where it was stopped, says how it was made, and replaces nothing unasked."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from tests.reproduction import toy
from tests.reproduction.toy import METHODS, at_revision, loaded, record_fleet, record_mean
from workbench import cli
from workbench.reproduction import recordings
from workbench.reproduction.folder import sole_writer
from workbench.reproduction.manifest import FORMAT, NAME
from workbench.reproduction.record import record
from workbench.reproduction.sweep import ExperimentInterrupted
from workbench.utils.checks import UserError


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    toy.install(monkeypatch)
    toy.trained.clear()


def own_data(path: Path, value: float) -> Path:
    images, labels = np.full((2, 2, 2), value), np.array([0, 1])
    np.savez(path, x_train=images, y_train=labels, x_test=images, y_test=labels)
    return path


def points(folder: Path) -> set[Path]:
    return set((folder / "toy" / ".points").rglob("*.json"))


def command(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(cli.app, ["record", *arguments])


def stop_at(monkeypatch: pytest.MonkeyPatch, method: str, folder: Path, **how: Any) -> None:
    """Record the fleet until a method is interrupted."""
    with monkeypatch.context() as patch:
        patch.setitem(METHODS, method, toy.interrupted)
        with pytest.raises(ExperimentInterrupted, match="3 finished rows"):
            record_fleet(folder, **how)


def test_a_recording_is_the_figure_with_its_provenance(tmp_path: Path) -> None:
    folder = record("toy", "mean", scale="smoke", processes=1, folder=tmp_path)
    assert folder == tmp_path / "toy" / "mean"
    recording = loaded("mean", tmp_path)
    assert recording.frame.equals(toy.MEAN.frame("smoke"))
    made = recording.manifest
    assert made.arguments == {"scale": "smoke", "seed": 1, "dataset": "auto", "seeds": None}
    assert (made.seeds, made.processes, list(made.data)) == ([1, 2], 1, ["digits"])
    assert {"torch", "numpy"} <= set(made.versions) & set(made.instruction_set)
    assert set(made.machine) == {"processor", "cores", "memory", "system"}
    text = (folder / NAME).read_text()
    assert json.loads(text)["format"] == FORMAT
    assert str(tmp_path) not in text


def test_a_stopped_recording_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[str]()

    def counted(name: str, seed: int) -> float:
        done.append(name)
        return methods[name](seed)

    methods = dict(METHODS)
    stop_at(monkeypatch, "lower bound", tmp_path)
    assert recordings.load("toy", "fleet", tmp_path) is None
    for name in methods:
        monkeypatch.setitem(METHODS, name, partial(counted, name))
    first = record_fleet(tmp_path)
    assert done == ["lower bound"]
    assert first.frame.equals(toy.FLEET.frame())
    done.clear()
    assert record_fleet(tmp_path).manifest == first.manifest  # nothing was run
    assert done == []
    record_fleet(tmp_path, force=True)
    assert done == list(METHODS)


def test_a_forced_recording_that_is_stopped_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the recording nor points, those that were computed again included."""
    before, kept = record_fleet(tmp_path), points(tmp_path)
    stop_at(monkeypatch, "lower bound", tmp_path, force=True)
    assert loaded("fleet", tmp_path).manifest == before.manifest
    assert len(points(tmp_path) - kept) == 3
    for name in list(METHODS)[:3]:
        monkeypatch.setitem(METHODS, name, toy.interrupted)
    record_fleet(tmp_path, force=True)
    assert points(tmp_path) == kept


def test_points_of_another_commit_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(monkeypatch, "lower bound", tmp_path)
    at_revision(monkeypatch, "b" * 40, dirty=False)
    monkeypatch.setitem(METHODS, "alone", toy.interrupted)
    with pytest.raises(ExperimentInterrupted, match="0 finished rows"):
        record_fleet(tmp_path)


def test_data_that_changed_is_trained_on_again(tmp_path: Path) -> None:
    path = str(tmp_path / "mnist.npz")
    for value in (1.0, 5.0):
        own_data(Path(path), value)
        record("toy", "mean", scale="smoke", options={"dataset": path}, folder=tmp_path)
        recording = loaded("mean", tmp_path)
        assert list(recording.manifest.data) == [path]  # and not the published one of that name
        assert recording.frame["mean"].to_list() == [value, value]


@pytest.mark.parametrize(("revision", "dirty"), [("a", True), (None, None)])
def test_rows_of_no_commit_say_so(
    revision: str | None,
    dirty: bool | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    at_revision(monkeypatch, revision, dirty=dirty)
    recording = record_fleet(tmp_path)
    assert "fleet will be made by no commit's code" in capsys.readouterr().err
    assert not recording.traceable
    assert "answers no claim" in str(recording)


def test_a_recording_is_restored_that_was_being_replaced(tmp_path: Path) -> None:
    record_fleet(tmp_path)
    record_fleet(tmp_path, scale="paper")  # which takes a smaller one's place
    home = tmp_path / "toy"
    (home / "fleet").rename(home / ".fleet.old")  # as `put_in_place` does first
    with pytest.raises(UserError, match="holds another recording"):
        record_fleet(tmp_path)
    assert loaded("fleet", tmp_path).scale == "paper"


def test_another_recording_is_not_replaced_unasked(tmp_path: Path) -> None:
    def rows(**arguments: Any) -> int:
        record("toy", "mean", processes=1, folder=tmp_path, **arguments)
        return len(loaded("mean", tmp_path).frame)

    assert rows(scale="smoke") == 2
    others: list[dict[str, Any]] = [
        {"scale": "default"},
        {"scale": "smoke", "seeds": 1},
        {"scale": "smoke", "options": {"dataset": "cluttered_digits"}},
    ]
    for other in others:
        with pytest.raises(UserError, match=r"another recording.*scale smoke.*--force replaces"):
            rows(**other)
    assert rows(scale="smoke", seeds=3) == 3  # the same and one more
    assert rows(scale="smoke", seeds=1, force=True) == 1
    assert len(points(tmp_path)) == 3  # shared by all of them


def test_more_seeds_compute_no_point_again_at_the_same_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_mean(tmp_path, 1)
    more = record_mean(tmp_path, 3)
    assert (toy.trained, more.manifest.seeds) == ([1, 2, 3], [1, 2, 3])
    at_revision(monkeypatch, "b" * 40, dirty=False)
    toy.trained.clear()
    later = record_mean(tmp_path, 3, force=True)
    assert toy.trained == [1, 2, 3]
    assert (later.manifest.revision, later.frame.equals(more.frame)) == ("b" * 40, True)


def test_usual_number_of_seeds_is_the_same_recording(tmp_path: Path) -> None:
    record_mean(tmp_path)  # two, at this scale
    toy.trained.clear()
    record_mean(tmp_path, 2)
    assert toy.trained == []


def test_recording_outside_git_answers_no_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert record_mean(tmp_path, 1).traceable
    at_revision(monkeypatch, None, dirty=None)
    assert not record_mean(tmp_path, 2).traceable


def test_each_recording_has_a_lock_of_its_own(tmp_path: Path) -> None:
    with sole_writer(tmp_path / "toy", ["mean"], lock=".mean.lock"):
        record_fleet(tmp_path)
        with pytest.raises(UserError, match=r"wait for it to end$"):
            record_mean(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing", "fig5"), "unknown system 'nothing'"),
        (("dynacomm", "fig5"), "unknown experiment 'fig5'"),  # takes no time
        (("toy", "flet"), "Did you mean 'fleet'"),
        (("01_dynacomm", "fig10", "--scale", "full"), "smoke, default, paper"),
        (("dynacomm", "fig10", "--seeds", "3"), "fig10 runs once; give its seed by -p seed=1"),
        (("dynacomm", "fig9a", "--seeds", "3"), "there is no chance in fig9a"),
        (("toy", "mean", "--seeds", "0"), "must be at least 1"),
        (("toy", "mean", "--processes", "0"), "must be at least 1"),
        (("toy", "mean", "-p", "workers=2"), "unknown parameter of mean 'workers'"),
        (("toy", "mean", "--scale", "smoke", "-p", "scale=paper"), "--scale paper"),
        (("toy", "quick"), "unknown experiment 'quick'"),
        (("toy", "--scale", "smoke", "--seeds", "2"), "fleet runs once"),  # mean does not
        (("toy", "--scale", "smoke", "-p", "dataset=digits"), "unknown parameter of fleet"),
    ],
)
def test_refused_before_anything_runs(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    result = command(*arguments, "--output", str(tmp_path))
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert not list(tmp_path.iterdir())


def test_the_command_records_what_is_not_recorded_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("toy", "--scale", "smoke", "--processes", "1", "--output", str(tmp_path))
    mean = record_mean(tmp_path).manifest
    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "assign", toy.interrupted)
        stopped = command(*arguments)
    assert stopped.exit_code == 130
    assert "2 rows finished; the same command goes on" in stopped.stderr
    result = command(*arguments)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{tmp_path / 'toy' / 'fleet'}: recorded on")
    assert loaded("mean", tmp_path).manifest == mean
    assert "all experiments of toy are recorded" in command(*arguments).stdout
    again = command("toy", "fleet", *arguments[1:])
    assert again.stdout == result.stdout
    assert again.stderr == "fleet is already recorded; nothing was run\n"
