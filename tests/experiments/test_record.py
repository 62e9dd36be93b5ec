"""A recording goes on where it was stopped, says how it came about, and whether it still stands."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from workbench import cli, datasets, parallel, results
from workbench.claims import of_frames
from workbench.dynacomm.paper import charts, experiments
from workbench.experiments import ExperimentInterrupted, Scaled, recorded
from workbench.experiments.record import record
from workbench.hiertrain.fleet import Fleet
from workbench.hiertrain.paper.experiments import fleets, scales
from workbench.names import UnknownNameError
from workbench.reproduce import inputs, source


@pytest.fixture(autouse=True)
def one_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest scale has one fleet alone, assigned in four ways."""
    for name in ("DEVICES", "EDGES", "DRAWS"):
        monkeypatch.setattr(scales, name, Scaled((2,), (2,), (2,)))


def command(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(cli.app, ["record", *arguments])


def interrupted(_: Fleet) -> tuple[float, float]:
    raise KeyboardInterrupt


def test_a_recording_is_the_experiment_with_how_it_came_about(tmp_path: Path) -> None:
    folder = record("dynacomm", "fig10", scale="smoke", processes=1, folder=tmp_path)
    assert folder == tmp_path / "dynacomm" / "fig10"
    found = recorded.load("dynacomm", "fig10", tmp_path)
    assert found is not None
    assert found.frame.equals(experiments.fig10("smoke"))
    one = found.manifest
    assert one.arguments == {"scale": "smoke", "seed": 1, "dataset": "auto", "workers": 2}
    assert (one.seeds, one.processes, list(one.data)) == ([1], 1, ["digits"])
    assert datasets.load("digits").name in one.data
    assert one.wall_s > 0
    assert {"torch", "numpy"} <= set(one.versions) & set(one.instruction_set)
    assert set(one.machine) == {"processor", "cores", "memory", "system"}
    assert found.changed == ()
    assert one.made_at[:10] in str(found)
    assert "changed" not in str(found)
    assert set(recorded.frames("dynacomm", tmp_path)) == {"fig10"}


def test_a_stopped_recording_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[str]()

    def counted(name: str) -> None:
        method = fleets.METHODS[name]

        def counting(fleet: Fleet) -> tuple[float, float]:
            done.append(name)
            return method(fleet)

        monkeypatch.setitem(fleets.METHODS, name, counting)

    with monkeypatch.context() as patch:
        patch.setitem(fleets.METHODS, "lower bound", interrupted)
        with pytest.raises(ExperimentInterrupted, match="2 finished rows"):
            record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)
    assert recorded.load("hiertrain", "fleet", tmp_path) is None
    for name in list(fleets.METHODS):
        counted(name)
    record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)
    assert done == ["lower bound", "exact"]
    found = recorded.load("hiertrain", "fleet", tmp_path)
    assert found is not None
    assert found.frame.equals(fleets.fleet("smoke"))
    assert not list((tmp_path / "hiertrain").glob(".*partial*"))
    done.clear()
    record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)
    assert done == []
    record("hiertrain", "fleet", scale="smoke", processes=1, force=True, folder=tmp_path)
    assert done == list(fleets.METHODS)


def test_points_of_other_code_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)
    monkeypatch.setattr(source, "code", lambda others: {"another": "version"})
    monkeypatch.setitem(fleets.METHODS, "alone", interrupted)
    found = recorded.load("hiertrain", "fleet", tmp_path)
    assert found is not None
    assert found.changed == ("code",)
    assert str(found).endswith("changed since: code")
    with pytest.raises(ExperimentInterrupted, match="0 finished rows"):
        record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)
    assert recorded.load("hiertrain", "fleet", tmp_path) is not None  # the earlier one stands


def test_in_as_many_processes_as_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[int | None]()

    def beside(function: object, calls: object, processes: int | None = None) -> object:
        asked.append(processes)
        return as_finished(function, calls, 1)  # type: ignore[arg-type]

    as_finished = parallel.as_finished
    monkeypatch.setattr(parallel, "as_finished", beside)
    record("hiertrain", "fleet", scale="smoke", processes=7, folder=tmp_path)
    assert asked == [7]


def test_what_was_altered_is_not_there(tmp_path: Path) -> None:
    folder = record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)
    frame = pl.read_parquet(folder / "fleet.parquet")
    frame.with_columns(slowest_s=0.0).write_parquet(folder / "fleet.parquet")
    assert recorded.load("hiertrain", "fleet", tmp_path) is None
    assert recorded.frames("hiertrain", tmp_path) == {}
    (folder / results.MANIFEST).write_text("[]")
    assert recorded.load("hiertrain", "fleet", tmp_path) is None


def test_a_notebook_shows_what_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recorded.show("dynacomm", "fig9a", charts.fig9a, tmp_path) is None
    assert "`workbench record dynacomm fig9a`" in capsys.readouterr().out
    record("dynacomm", "fig9a", scale="smoke", processes=1, folder=tmp_path)
    figure = recorded.show("dynacomm", "fig9a", charts.fig9a, tmp_path)
    assert figure is not None
    assert "<svg" in figure.svg
    assert "recorded on" in capsys.readouterr().out


def test_the_scorecard_has_a_column_for_what_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = {"fig10": experiments.fig10("smoke")}
    monkeypatch.setattr(recorded, "frames", lambda system: frames)
    (row,) = (one for one in of_frames("dynacomm", {}).rows if one.id == "dynacomm.fig10.accuracy")
    assert row.verdict == "not run"
    assert row.recorded_verdict == "near"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nothing", "fig5"), "unknown system 'nothing'"),
        (("dynacomm", "fig5"), "unknown experiment 'fig5'"),  # of the cost model, at any scale
        (("01_dynacomm", "fig10", "--scale", "full"), "smoke, default, paper"),
        (("dynacomm", "fig10", "--seeds", "3"), "fig10 runs once; give its seed by -p seed=1"),
        (("dynacomm", "fig9a", "--seeds", "3"), "there is no chance in fig9a"),
        (("hiertrain", "accuracy", "--seeds", "0"), "must be at least 1"),
        (("hiertrain", "accuracy", "--processes", "0"), "must be at least 1"),
        (("hiertrain", "accuracy", "-p", "workers=2"), "unknown parameter of accuracy 'workers'"),
        (("hiertrain", "accuracy", "-p", "batch_size=x"), "batch_size"),
    ],
)
def test_what_cannot_be_recorded_is_refused(
    arguments: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    result = command(*arguments, "--output", str(tmp_path))
    assert result.exit_code == 2, result.output
    assert says in result.stderr
    assert not list(tmp_path.iterdir())


def test_the_command_says_where_it_went_and_how_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("02_hiertrain", "fleet", "--scale", "smoke", "--processes", "1")
    with monkeypatch.context() as patch:
        patch.setitem(fleets.METHODS, "assign", interrupted)
        stopped = command(*arguments, "--output", str(tmp_path))
    assert stopped.exit_code == 130
    assert "1 row finished; the same command goes on" in stopped.stderr
    result = command(*arguments, "--output", str(tmp_path))
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{tmp_path / 'hiertrain' / 'fleet'}: recorded on")


def test_code_is_what_may_decide_a_row(tmp_path: Path) -> None:
    package = tmp_path / "workbench"
    for name in ("training/sgd", "claims/rule", "one/costs", "one/paper/charts", "other/costs"):
        path = package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('"""What it is."""\n\n\ndef step() -> int:\n    """Do."""\n    return 1\n')
    found = source.code(("other",), package)
    assert list(found) == ["one/costs", "training/sgd"]
    sgd = package / "training" / "sgd.py"
    sgd.write_text('"""Other words."""\n\ndef step() -> int: return 1  # a comment\n')
    assert source.code(("other",), package) == found
    sgd.write_text("def step() -> int: return 2\n")
    assert source.code(("other",), package)["training/sgd"] != found["training/sgd"]


def test_other_systems_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "data" / "calibration").mkdir(parents=True)

    def digest() -> str:
        return inputs.fingerprint_of_experiments("hiertrain", tmp_path, {})["data"]

    before = digest()
    (tmp_path / "data" / "calibration" / "dynacomm.toml").write_text("a = 1")
    assert digest() == before
    (tmp_path / "data" / "calibration" / "hiertrain.toml").write_text("a = 1")
    assert digest() != before


def test_names_are_looked_up() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'accuracy'"):
        record("hiertrain", "acuracy")


def test_the_manifest_can_be_read(tmp_path: Path) -> None:
    folder = record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)
    text = (folder / results.MANIFEST).read_text()
    assert json.loads(text)["format"] == 1
    assert str(tmp_path) not in text
