"""A recording goes on where it was stopped, says how it came about, and whether it still stands."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from IPython.core.formatters import DisplayFormatter
from typer.testing import CliRunner, Result

from workbench import cli, datasets, instruction_set, parallel, results, systems
from workbench.claims import of_frames
from workbench.dynacomm.paper import charts, experiments
from workbench.errors import UserError
from workbench.experiments import ExperimentInterrupted, Scaled, data, data_set, recorded, sweep
from workbench.experiments.record import record
from workbench.experiments.recorded import Manifest, Recordable, Recorded
from workbench.hiertrain.fleet import Fleet
from workbench.hiertrain.paper import experiments as hiertrain
from workbench.hiertrain.paper.experiments import fleets, scales
from workbench.names import UnknownNameError
from workbench.paths import ROOT
from workbench.reproduce import inputs, source, store


@pytest.fixture(autouse=True)
def quick_experiments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that take no time: one fleet, assigned in four ways, and the mean of a data set."""
    for name in ("DEVICES", "EDGES", "DRAWS"):
        monkeypatch.setattr(scales, name, Scaled((2,), (2,), (2,)))
    monkeypatch.setattr(hiertrain, "mean", mean, raising=False)
    offered = {"mean": Recordable(data=("cifar10",))}
    monkeypatch.setattr(hiertrain, "RECORDED", hiertrain.RECORDED | offered)


def mean(
    scale: str = "default", seed: int = 1, dataset: str = "auto", *, seeds: int | None = None
) -> pl.DataFrame:
    points = [{"seed": one} for one in range(seed, seed + (seeds or 2))]
    shared = {"source": data_set(scale, "cifar10", dataset)}
    schema = {"seed": pl.Int64, "dataset": pl.String, "mean": pl.Float64}
    return sweep("Mean", _mean, points, schema, shared=shared)


@data.loaded_once
def _loaded(source: str) -> datasets.Dataset:
    return datasets.load(source)


def _mean(*, source: str, **_: object) -> dict[str, object]:
    found = _loaded(source)
    return {"dataset": found.name, "mean": float(found.x_train.mean())}


def offering_data(system: str) -> list[str]:
    module = importlib.import_module(f"workbench.{system}.paper.experiments")
    return [name for name, one in module.RECORDED.items() if one.data]


def own_data(path: Path, value: float) -> Path:
    images, labels = np.full((2, 2, 2), value), np.array([0, 1])
    np.savez(path, x_train=images, y_train=labels, x_test=images, y_test=labels)
    return path


def loaded(system: str, experiment: str, folder: Path) -> Recorded:
    found = recorded.load(system, experiment, folder)
    assert found is not None
    return found


def command(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(cli.app, ["record", *arguments])


def interrupted(_: Fleet) -> tuple[float, float]:
    raise KeyboardInterrupt


def test_a_recording_is_the_experiment_with_how_it_came_about(tmp_path: Path) -> None:
    folder = record("dynacomm", "fig10", scale="smoke", processes=1, folder=tmp_path)
    assert folder == tmp_path / "dynacomm" / "fig10"
    found = loaded("dynacomm", "fig10", tmp_path)
    assert found.frame.equals(experiments.fig10("smoke"))
    one = found.manifest
    assert one.arguments == {"scale": "smoke", "seed": 1, "dataset": "auto", "workers": 2}
    assert (one.seeds, one.processes, list(one.data)) == ([1], 1, ["digits"])
    assert datasets.load("digits").name in one.data
    assert one.points_s > 0
    assert {"torch", "numpy"} <= set(one.versions) & set(one.instruction_set)
    assert set(one.machine) == {"processor", "cores", "memory", "system"}
    assert found.changed == ()
    assert one.made_at[:10] in str(found)
    assert "scale smoke; dataset digits; workers 2; seeds 1)" in str(found)
    assert "changed" not in str(found)
    assert set(recorded.load_all("dynacomm", tmp_path)[0]) == {"fig10"}


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
    found = loaded("hiertrain", "fleet", tmp_path)
    assert found.frame.equals(fleets.fleet("smoke"))
    assert not list((tmp_path / "hiertrain").glob(".*partial*"))
    done.clear()
    record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)
    assert done == []
    again = loaded("hiertrain", "fleet", tmp_path)
    assert again.manifest.points_s == found.manifest.points_s  # of the points, not of this run
    record("hiertrain", "fleet", scale="smoke", processes=1, force=True, folder=tmp_path)
    assert done == list(fleets.METHODS)


def test_what_is_begun_again_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither other experiments' points nor its own, before they are there again."""
    record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)
    points = tmp_path / "hiertrain" / ".fleets.points"
    (folder,) = points.iterdir()
    (folder / "another.json").write_text("{}")
    before = {path.name: path.stat().st_ino for path in folder.glob("*.json")}
    with monkeypatch.context() as patch:
        patch.setitem(fleets.METHODS, "lower bound", interrupted)
        with pytest.raises(ExperimentInterrupted, match="2 finished rows"):
            record("hiertrain", "fleet", scale="smoke", processes=1, force=True, folder=tmp_path)
    after = {path.name: path.stat().st_ino for path in folder.glob("*.json")}
    assert after.keys() == before.keys()
    assert sum(after[name] != before[name] for name in before) == 2
    for name in fleets.METHODS:
        monkeypatch.setitem(fleets.METHODS, name, interrupted)
    record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)


@pytest.mark.parametrize("damaged", ["", "[]", "{}", "null"])
def test_damaged_points_are_computed_again(damaged: str, tmp_path: Path) -> None:
    record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)
    before = loaded("hiertrain", "fleet", tmp_path)
    points = tmp_path / "hiertrain" / ".fleets.points"
    for point in points.glob("*/*.json"):
        point.write_text(damaged)
    (points / "0123456789abcdef").mkdir()
    (points / "0123456789abcdef" / "inputs").write_text(damaged)
    (tmp_path / "hiertrain" / "fleet" / results.MANIFEST).unlink()
    record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)
    assert loaded("hiertrain", "fleet", tmp_path).frame.equals(before.frame)
    kept = [json.loads(point.read_text()) for point in points.glob("*/*.json")]
    assert len({point["of"] for point in kept}) == len(kept) == len(fleets.METHODS)


def test_points_of_other_code_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)
    assert "version" not in capsys.readouterr().err
    monkeypatch.setattr(source, "code", lambda module: {"another": "version"})
    monkeypatch.setitem(fleets.METHODS, "alone", interrupted)
    found = loaded("hiertrain", "fleet", tmp_path)
    assert found.changed == ("code",)
    assert str(found).endswith("changed since: code")
    with pytest.raises(ExperimentInterrupted, match="0 finished rows"):
        record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)
    says = "4 finished points are of another version (changed: code) and not used"
    assert says in capsys.readouterr().err
    assert recorded.load("hiertrain", "fleet", tmp_path) is not None  # the earlier one stands


def test_points_that_other_code_may_have_made_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, method = {"one": "version"}, fleets.METHODS["lower bound"]

    def edited(fleet: Fleet) -> tuple[float, float]:
        monkeypatch.setattr(source, "code", lambda module: {"another": "version"})
        return method(fleet)

    monkeypatch.setattr(source, "code", lambda module: before)
    with monkeypatch.context() as patch:
        patch.setitem(fleets.METHODS, "lower bound", edited)
        with pytest.raises(ValueError, match="code changed while fleet ran"):
            record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)
    assert recorded.load("hiertrain", "fleet", tmp_path) is None
    monkeypatch.setattr(source, "code", lambda module: before)
    monkeypatch.setitem(fleets.METHODS, "lower bound", interrupted)
    with pytest.raises(ExperimentInterrupted, match="2 finished rows"):
        record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)


def test_data_that_is_written_anew_is_learnt_from_anew(tmp_path: Path) -> None:
    own, options = own_data(tmp_path / "mnist.npz", 1.0), {"dataset": str(tmp_path / "mnist.npz")}
    record("hiertrain", "mean", scale="smoke", options=options, processes=1, folder=tmp_path)
    found = loaded("hiertrain", "mean", tmp_path)
    assert list(found.manifest.data) == [str(own)]  # and not the published one of that name
    assert (found.frame["mean"].to_list(), found.changed) == ([1.0, 1.0], ())
    own_data(own, 5.0)
    assert loaded("hiertrain", "mean", tmp_path).changed == (f"data set {own}",)
    record("hiertrain", "mean", scale="smoke", options=options, processes=1, folder=tmp_path)
    found = loaded("hiertrain", "mean", tmp_path)
    assert (found.frame["mean"].to_list(), found.changed) == ([5.0, 5.0], ())
    own.unlink()
    assert loaded("hiertrain", "mean", tmp_path).changed == ()  # nobody can tell


def test_another_recording_is_not_replaced_unasked(tmp_path: Path) -> None:
    def again(**arguments: object) -> int:
        record("hiertrain", "mean", processes=1, folder=tmp_path, **arguments)  # type: ignore[arg-type]
        return len(loaded("hiertrain", "mean", tmp_path).frame)

    assert again(scale="smoke") == 2
    for other in (
        {"scale": "default"},
        {"scale": "smoke", "seeds": 1},
        {"scale": "smoke", "options": {"dataset": "cluttered_digits"}},
    ):
        with pytest.raises(ValueError, match=r"another recording.*scale smoke.*--force replaces"):
            again(**other)
    assert again(scale="smoke", seeds=3) == 3  # the same and one more
    assert again(scale="smoke", seeds=1, force=True) == 1
    points = list((tmp_path / "hiertrain" / ".test_record.points").glob("*/*.json"))
    assert len(points) == 3


def test_what_claims_are_judged_by_is_kept_too(tmp_path: Path) -> None:
    record("dynacomm", "fig12", scale="smoke", processes=1, folder=tmp_path)
    found = loaded("dynacomm", "fig12", tmp_path)
    assert set(found.frames) == {"fig12", "fig12_slopes"}
    assert found.frames["fig12_slopes"].equals(experiments.slopes(found.frame))


@pytest.mark.parametrize("system", systems.systems())
def test_what_is_offered_is_shown_or_judged(system: str) -> None:
    module = importlib.import_module(f"workbench.{system}.paper.experiments")
    answers = importlib.import_module(f"workbench.{system}.paper.answers").ANSWERS.values()
    judged = {
        name for needed, _ in answers for name in ([needed] if isinstance(needed, str) else needed)
    }
    (notebook,) = (ROOT / "notebooks").glob(f"*_{system}.ipynb")
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    text = "".join(line for cell in cells for line in cell["source"])
    shown = set(re.findall(r"runs\.(?:show|table)\(\s*experiments\.(\w+)", text))
    offered = {name: one for name, one in module.RECORDED.items() if name != "mean"}
    assert shown <= offered.keys()
    for name, one in offered.items():
        taken = inspect.signature(getattr(module, name)).parameters
        assert "scale" in taken
        assert bool(one.data) is ("dataset" in taken)
        assert name in shown or judged & {name, *one.derived}
        assert one.derived.keys() <= judged


class AboutToLearnError(Exception):
    """An experiment has asked for its data and begins."""


@pytest.mark.parametrize(
    ("system", "name"),
    [(system, name) for system in systems.systems() for name in offering_data(system)],
)
def test_data_is_what_the_experiment_asks_for(
    system: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = set[tuple[str, ...]]()

    def noted(scale: str, paper: str, choice: str = "auto", **at_default: str) -> str:
        asked.add((paper, *at_default.values()))
        return "digits"

    def begin(*_: object, **__: object) -> None:
        raise AboutToLearnError

    module = importlib.import_module(f"workbench.{system}.paper.experiments")
    make = getattr(module, name)
    beside = (f"{module.__name__}.{one}" for one in ("cases", "trainings"))
    for one in (make.__module__, *beside):
        if importlib.util.find_spec(one):
            for replaced, by in (("data_set", noted), ("sweep", begin), ("computed", begin)):
                monkeypatch.setattr(f"{one}.{replaced}", by, raising=False)
    with pytest.raises(AboutToLearnError):
        make("paper")
    offered = module.RECORDED[name]
    at_default = () if offered.at_default == "cluttered_digits" else (offered.at_default,)
    assert asked == {(one, *at_default) for one in offered.data}


def test_each_recording_has_a_lock_of_its_own(tmp_path: Path) -> None:
    home = tmp_path / "hiertrain"
    with store.sole_writer(home, ["mean"], lock=".mean.lock"):
        record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)
        with pytest.raises(ValueError, match=r"wait for it to end$"):
            record("hiertrain", "mean", scale="smoke", processes=1, folder=tmp_path)


def test_other_kernels_than_a_new_process_has_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(instruction_set.late, "numpy", "native: imported before workbench")
    with pytest.raises(ValueError, match="numpy is native: imported before workbench"):
        record("hiertrain", "fleet", scale="smoke", folder=tmp_path)


def test_in_as_many_processes_as_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[int | None]()

    def beside(function: object, calls: object, processes: int | None = None) -> object:
        asked.append(processes)
        return as_finished(function, calls, 1)  # type: ignore[arg-type]

    as_finished = parallel.as_finished
    monkeypatch.setattr(parallel, "as_finished", beside)
    record("hiertrain", "fleet", scale="smoke", processes=7, folder=tmp_path)
    assert asked == [7]


def test_what_was_altered_is_not_taken_for_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)
    manifest = folder / results.MANIFEST
    frame = pl.read_parquet(folder / "fleet.parquet")
    frame.with_columns(slowest_s=0.0).write_parquet(folder / "fleet.parquet")
    for content, says in (
        (manifest.read_text(), "fleet.parquet is missing or no longer what was recorded"),
        ("[]", "manifest.json is damaged"),
        (re.sub(r'"arguments": {[^}]*}', '"arguments": null', manifest.read_text()), "is damaged"),
        ('{"format": 1}', "is of another version of the workbench"),
    ):
        manifest.write_text(content)
        with pytest.raises(ValueError, match=f"{says}; `workbench record hiertrain fleet`"):
            recorded.load("hiertrain", "fleet", tmp_path)
        found, faults = recorded.load_all("hiertrain", tmp_path)
        assert (found, list(faults)) == ({}, ["fleet"])
        with pytest.raises(NotRunError):
            shows("hiertrain", tmp_path).show(fleet, charts.fig9a, "smoke")
        assert says in capsys.readouterr().out
    record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)  # makes it anew
    assert loaded("hiertrain", "fleet", tmp_path).frame.equals(frame)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((one.name, bad) for one in fields(Manifest) for bad in ({"x": None}, [None])),
        *((name, 1.5) for name in ("system", "module", "seeds", "made_at", "machine", "frames")),
        *((name, "other") for name in ("system", "experiment", "seeds", "points_s", "dirty")),
        ("points_s", None),
        ("arguments", {"scale": "huge"}),
        ("arguments", {"scale": ["smoke"]}),
        ("frames", {"other": "0" * 64}),
        ("seeds", [True]),
        ("processes", True),
    ],
)
def test_a_damaged_manifest_is_refused(field: str, value: object, tmp_path: Path) -> None:
    committed = ROOT / "data" / "recorded" / "dynacomm" / "table2" / results.MANIFEST
    content = json.loads(committed.read_text()) | {field: value}
    copy = tmp_path / "dynacomm" / "table2" / results.MANIFEST
    copy.parent.mkdir(parents=True)
    copy.write_text(json.dumps(content))
    again = "`workbench record dynacomm table2` makes it again"
    with pytest.raises(UserError, match=f"manifest.json is damaged; {again}"):
        recorded.load("dynacomm", "table2", tmp_path)


class NotRunError(Exception):
    """Raised where an experiment runs that should be shown as recorded, or the other way round."""


def fleet(scale: str, seed: int = 1) -> pl.DataFrame:
    raise NotRunError


def fig9a(scale: str, model: str = "resnet152", bandwidth_mbps: float = 1e4) -> pl.DataFrame:
    raise NotRunError


def shows(system: str, folder: Path, which: str = "one") -> recorded.Trainings:
    return recorded.Trainings(results.Results(system), which, folder)


def test_a_notebook_shows_what_answers_its_parameters_and_runs_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NotRunError):  # nothing is recorded yet
        shows("dynacomm", tmp_path).show(fig9a, charts.fig9a, "smoke")
    record("dynacomm", "fig9a", scale="smoke", processes=1, folder=tmp_path)
    runs = shows("dynacomm", tmp_path)
    shown = runs.show(fig9a, charts.fig9a, "smoke")
    kept = loaded("dynacomm", "fig9a", tmp_path)
    assert shown.frame.equals(kept.frame)
    drawn, _ = DisplayFormatter().format(shown)  # type: ignore[no-untyped-call]
    assert "<svg" in drawn["image/svg+xml"]
    assert (
        drawn["text/plain"] == "dynacomm: fig9a (figure)"
    )  # not the frame, nor the picture once more
    assert "recorded on" in capsys.readouterr().out
    assert runs.results.frames == {}  # it is not a result of this run
    for arguments in (("default",), ("smoke", "vgg19"), ("smoke", "resnet152", 1e3)):
        with pytest.raises(NotRunError):
            runs.show(fig9a, charts.fig9a, *arguments)
    with pytest.raises(NotRunError):
        runs.show(fig9a, charts.fig9a, "smoke", live=True)
    with pytest.raises(NotRunError):
        shows("dynacomm", tmp_path, "all").show(fig9a, charts.fig9a, "smoke")
    with pytest.raises(UnknownNameError, match="unknown trainings 'some'"):
        shows("dynacomm", tmp_path, "some")


def test_a_recording_answers_its_own_seeds_and_any_choice_of_data(tmp_path: Path) -> None:
    record("hiertrain", "mean", scale="smoke", seeds=2, processes=1, folder=tmp_path)
    found = loaded("hiertrain", "mean", tmp_path)
    assert found.answers({"scale": "smoke", "seed": 2, "dataset": "auto"})
    assert not found.answers({"scale": "smoke", "seed": 3, "dataset": "auto"})
    assert not found.answers({"scale": "smoke", "seed": 1, "dataset": "mnist"})
    assert not found.answers({"scale": "paper", "seed": 1, "dataset": "auto"})


def test_a_recording_at_the_papers_scale_takes_the_place_of_a_smaller_one(tmp_path: Path) -> None:
    record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)
    record("hiertrain", "fleet", scale="paper", processes=1, folder=tmp_path)
    assert loaded("hiertrain", "fleet", tmp_path).scale == "paper"
    with pytest.raises(ValueError, match="holds another recording"):
        record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)


def test_without_a_name_all_is_recorded_that_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = {name: hiertrain.RECORDED[name] for name in ("fleet", "mean")}
    monkeypatch.setattr(hiertrain, "RECORDED", two)
    record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)
    before = (tmp_path / "hiertrain" / "fleet" / results.MANIFEST).read_bytes()
    asked = ("hiertrain", "--scale", "smoke", "--processes", "1", "--output", str(tmp_path))
    done = command(*asked)
    assert done.exit_code == 0
    assert set(recorded.load_all("hiertrain", tmp_path)[0]) == {"fleet", "mean"}
    assert (tmp_path / "hiertrain" / "fleet" / results.MANIFEST).read_bytes() == before
    assert "all experiments of hiertrain are recorded" in command(*asked).stdout


def test_the_scorecard_says_at_which_scale_its_evidence_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record("dynacomm", "fig10", scale="smoke", processes=1, folder=tmp_path)
    smoke = loaded("dynacomm", "fig10", tmp_path)
    arguments = {**smoke.manifest.arguments, "scale": "paper"}
    for one, scale in (
        (smoke, "smoke"),
        (replace(smoke, manifest=replace(smoke.manifest, arguments=arguments)), "paper"),
    ):
        monkeypatch.setattr(recorded, "load_all", lambda system, one=one: ({"fig10": one}, {}))
        card = of_frames("dynacomm", {})
        (row,) = (one for one in card.rows if one.id == "dynacomm.fig10.accuracy")
        assert (row.verdict, row.evidence) == ("near", f"recorded at {scale}, 1 seed, digits")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nothing", "fig5"), "unknown system 'nothing'"),
        (("dynacomm", "fig5"), "unknown experiment 'fig5'"),  # takes no time
        (("dynacomm", ""), "unknown experiment ''"),
        (("01_dynacomm", "fig10", "--scale", "full"), "smoke, default, paper"),
        (("dynacomm", "fig10", "--seeds", "3"), "fig10 runs once; give its seed by -p seed=1"),
        (("dynacomm", "fig9a", "--seeds", "3"), "there is no chance in fig9a"),
        (("hiertrain", "accuracy", "--seeds", "0"), "must be at least 1"),
        (("hiertrain", "accuracy", "--processes", "0"), "must be at least 1"),
        (("hiertrain", "accuracy", "-p", "workers=2"), "unknown parameter of accuracy 'workers'"),
        (("hiertrain", "accuracy", "-p", "batch_size=x"), "batch_size"),
        (("hiertrain", "accuracy", "--scale", "smoke", "-p", "scale=paper"), "--scale paper"),
        (("hiertrain", "sharing"), "unknown experiment 'sharing'"),  # shown nowhere
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
    assert result.stderr == ""
    again = command("02", *arguments[1:], "--output", str(tmp_path))
    assert again.stdout == result.stdout
    assert again.stderr == "fleet is already recorded; nothing was run\n"
    forced = command(*arguments, "--force", "--output", str(tmp_path))
    assert "nothing was run" not in forced.stderr


def test_code_is_what_may_decide_a_row(tmp_path: Path) -> None:
    package = tmp_path / "workbench"
    text = '"""What it is."""\n\n\ndef step() -> int:\n    """Do."""\n    return 1\n'
    for name, imported in {
        "__init__": "",
        "one/paper/experiments": "from workbench.training import sgd\nimport workbench.zoo",
        "one/paper/charts": "",
        "one/costs": "",
        "training/sgd": "def late():\n    import workbench.training.streams\n",
        "training/streams": "from workbench.claims import rule\n",
        "claims/rule": "",
        "zoo/__init__": 'load = lambda name: importlib.import_module(f"workbench.zoo.{name}")',
        "zoo/lenet": "",
        "another_system/costs": "",
    }.items():
        path = package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}{imported}\n")

    def code() -> dict[str, str]:
        return source.code("workbench.one.paper.experiments", package)

    found = code()
    assert list(found) == [
        "workbench",
        "workbench.one.paper.experiments",
        "workbench.training.sgd",
        "workbench.training.streams",
        "workbench.zoo",
        "workbench.zoo.lenet",
    ]
    lenet = package / "zoo" / "lenet.py"
    lenet.write_text('"""Other words."""\n\ndef step() -> int: return 1  # a comment\n')
    assert code() == found
    lenet.write_text("def step() -> int: return 2\n")
    assert code()["workbench.zoo.lenet"] != found["workbench.zoo.lenet"]
    assert list(source.code("workbench.gone", package)) == ["workbench"]


@pytest.mark.parametrize(
    ("name", "content", "matters"),
    [
        ("calibration/hiertrain.toml", "a = 2", True),
        ("calibration/hiertrain.toml", "a = 1  # of the paper", False),
        ("calibration/hiertrain.toml", "a = 1\n[residuals.own]\nb = 2", False),
        ("calibration/dynacomm.toml", "a = 2", False),
        ("profiles/zoo.json", '{"traced by": "2", "lenet5": [1]}', False),
        ("profiles/zoo.json", '{"traced by": "1", "lenet5": [2]}', True),
        ("profiles/README.md", "other words", False),
        ("traces/mobile.csv", "0,2", True),
        ("claims.csv", "id\n", False),
    ],
)
def test_tables_are_what_is_read(name: str, content: str, matters: bool, tmp_path: Path) -> None:
    for table, text in {
        "calibration/hiertrain.toml": "a = 1",
        "profiles/zoo.json": '{"traced by": "1", "lenet5": [1]}',
    }.items():
        (tmp_path / "data" / table).parent.mkdir(parents=True)
        (tmp_path / "data" / table).write_text(text)

    def digest() -> str:
        return inputs.fingerprint_of_rows("hiertrain", __name__, tmp_path, {})["data"]

    before = digest()
    (tmp_path / "data" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "data" / name).write_text(content)
    assert (digest() != before) is matters


@pytest.mark.parametrize(
    ("versions", "matters"),
    [
        ({"scikit-learn": "2"}, True),
        ({"simpy": "5"}, True),
        ({"altair": "7"}, False),
        ({"python": "3.11.9"}, False),
        ({"python": "3.12.1"}, True),
    ],
)
def test_versions_are_of_what_decides_rows(versions: dict[str, str], matters: bool) -> None:
    def digest(**other: str) -> str:
        found = {"python": "3.11.1", "scikit-learn": "1", "simpy": "4", "altair": "6"} | other
        return inputs.fingerprint_of_rows("hiertrain", __name__, ROOT, found)["versions"]

    assert (digest(**versions) != digest()) is matters


def test_names_are_looked_up() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'accuracy'"):
        record("hiertrain", "acuracy")


def test_the_manifest_can_be_read(tmp_path: Path) -> None:
    folder = record("hiertrain", "fleet", scale="smoke", processes=1, folder=tmp_path)
    text = (folder / results.MANIFEST).read_text()
    assert json.loads(text)["format"] == recorded.FORMAT
    assert str(tmp_path) not in text


@pytest.mark.parametrize("system", systems.systems())
def test_what_is_committed_is_of_its_data_and_of_its_experiment_alone(system: str) -> None:
    found, faults = recorded.load_all(system)
    assert not faults
    for name, one in found.items():
        if "dataset" in one.frame.columns:
            learnt = {Path(source).stem for source in one.manifest.data}
            assert set(one.frame["dataset"].drop_nulls()) == learnt, name
    frames = [digest for one in found.values() for digest in one.manifest.frames.values()]
    assert len(frames) == len(set(frames))
