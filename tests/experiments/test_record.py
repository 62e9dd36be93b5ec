"""A recording goes on where it was stopped, says how it came about, and whether it still stands."""

from __future__ import annotations

import importlib
import json
import operator
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from IPython.core.formatters import DisplayFormatter
from polars.testing import assert_frame_equal
from typer.testing import CliRunner, Result

from tests.long import usually
from workbench import cli, datasets, systems
from workbench.dynacomm.explorer import Setting
from workbench.dynacomm.paper import saved_time
from workbench.experiments import ExperimentInterrupted, Scaled, data, data_set, recorded, sweep
from workbench.experiments.figure import Figure, JointClaims
from workbench.experiments.record import record
from workbench.experiments.recorded import Recorded
from workbench.notebook import Results
from workbench.store import provenance
from workbench.store.folder import sole_writer
from workbench.store.manifest import FORMAT, NAME, Manifest, file_digest
from workbench.system import SystemInfo
from workbench.utils import instruction_set, parallel
from workbench.utils.checks import UnknownNameError, UserError
from workbench.utils.files import ROOT

METHODS: dict[str, Callable[[int], float]] = {
    "alone": lambda seed: 1.0 * seed,
    "exact": lambda seed: 2.0 * seed,
    "assign": lambda seed: 3.0 * seed,
    "lower bound": lambda seed: 4.0 * seed,
}


def mean(
    usual: int,
    scale: str,
    seed: int = 1,
    dataset: str = "auto",
    *,
    seeds: int | None = None,
    processes: int | None = 1,
    folder: Path | None = None,
) -> pl.DataFrame:
    points = [{"seed": one} for one in range(seed, seed + (seeds or usual))]
    shared = {"source": data_set(scale, "cifar10", dataset)}
    schema = {"seed": pl.Int64, "dataset": pl.String, "mean": pl.Float64}
    del processes  # in this one, which counts
    return sweep(_mean, points, schema, title="Mean", shared=shared, folder=folder)


@data.loaded_once
def _loaded(source: str) -> datasets.Dataset:
    return datasets.load(source)


trained = list[int]()


def _mean(*, source: str, seed: int) -> dict[str, object]:
    trained.append(seed)
    found = _loaded(source)
    return {"dataset": found.name, "mean": float(found.x_train.mean())}


def fleet(seed: int = 1, *, processes: int | None = 1, folder: Path | None = None) -> pl.DataFrame:
    """By four methods, none of which takes time."""
    points = [{"method": method} for method in METHODS]
    schema = {"method": pl.String, "slowest_s": pl.Float64}
    shared = {"seed": seed}
    return sweep(
        _assigned, points, schema, title="Fleet", shared=shared, processes=processes, folder=folder
    )


def _assigned(*, method: str, seed: int) -> dict[str, float]:
    return {"slowest_s": METHODS[method](seed)}


MEAN = Figure(
    id="mean",
    compute=mean,
    sizes={"usual": Scaled(2, 2, 2)},
    recorded=True,
    data=("cifar10",),
)
FLEET = Figure(id="fleet", compute=fleet, recorded=True)
QUICK = Figure(id="quick", compute=fleet)


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system with two figures that can be recorded and take no time."""
    info = SystemInfo(
        title="Toy",
        algorithms={},
        setup=lambda: object,
        setting=lambda: Setting,
        figures=lambda: (MEAN, FLEET, QUICK),
    )
    monkeypatch.setitem(systems.SYSTEMS, "toy", info)
    monkeypatch.setattr(provenance, "revision", lambda *_: ("a" * 40, False))


def own_data(path: Path, value: float) -> Path:
    images, labels = np.full((2, 2, 2), value), np.array([0, 1])
    np.savez(path, x_train=images, y_train=labels, x_test=images, y_test=labels)
    return path


def loaded(system: str, experiment: str, folder: Path) -> Recorded:
    found = recorded.load(system, experiment, folder)
    assert found is not None
    return found


def record_fleet(
    folder: Path, scale: str = "smoke", processes: int = 1, force: bool = False
) -> Path:
    return record("toy", "fleet", scale=scale, processes=processes, force=force, folder=folder)


def points(folder: Path) -> list[Path]:
    """Those of the toy's experiments that are kept."""
    return list((folder / "toy" / ".points").rglob("*.json"))


def command(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(cli.app, ["record", *arguments])


def interrupted(_: int) -> float:
    raise KeyboardInterrupt


def test_a_recording_is_the_figure_with_how_it_came_about(tmp_path: Path) -> None:
    folder = record("toy", "mean", scale="smoke", processes=1, folder=tmp_path)
    assert folder == tmp_path / "toy" / "mean"
    found = loaded("toy", "mean", tmp_path)
    assert found.frame.equals(MEAN.frame("smoke"))
    one = found.manifest
    assert one.arguments == {"scale": "smoke", "seed": 1, "dataset": "auto", "seeds": None}
    assert (one.seeds, one.processes, list(one.data)) == ([1, 2], 1, ["digits"])
    assert {"torch", "numpy"} <= set(one.versions) & set(one.instruction_set)
    assert set(one.machine) == {"processor", "cores", "memory", "system"}
    text = (folder / NAME).read_text()
    assert json.loads(text)["format"] == FORMAT
    assert str(tmp_path) not in text
    assert one.made_at[:10] in str(found)
    assert "scale smoke; dataset digits; seeds 1, 2)" in str(found)
    assert set(recorded.load_all("toy", ["mean", "fleet"], tmp_path)[0]) == {"mean"}


def test_a_stopped_recording_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[str]()

    def counted(name: str, seed: int) -> float:
        done.append(name)
        return methods[name](seed)

    methods = dict(METHODS)
    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "lower bound", interrupted)
        with pytest.raises(ExperimentInterrupted, match="3 finished rows"):
            record_fleet(tmp_path)
    assert recorded.load("toy", "fleet", tmp_path) is None
    for name in methods:
        monkeypatch.setitem(METHODS, name, partial(counted, name))
    record_fleet(tmp_path)
    assert done == ["lower bound"]
    found = loaded("toy", "fleet", tmp_path)
    assert found.frame.equals(FLEET.frame())
    assert not list((tmp_path / "toy").glob(".*partial*"))
    done.clear()
    record_fleet(tmp_path)
    assert done == []
    again = loaded("toy", "fleet", tmp_path)
    assert again.manifest.seconds == found.manifest.seconds  # of the points, not of this run
    record_fleet(tmp_path, force=True)
    assert done == list(METHODS)


def test_what_is_begun_again_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the recording nor points, those that were done again included."""
    before = record_fleet(tmp_path) / NAME
    text, kept = before.read_text(), set(points(tmp_path))
    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "lower bound", interrupted)
        with pytest.raises(ExperimentInterrupted, match="3 finished rows"):
            record_fleet(tmp_path, force=True)
    assert before.read_text() == text
    assert len(set(points(tmp_path)) - kept) == 3
    for name in list(METHODS)[:3]:
        monkeypatch.setitem(METHODS, name, interrupted)
    record_fleet(tmp_path, force=True)
    assert set(points(tmp_path)) == kept


@pytest.mark.parametrize("damaged", ["", "[]", "{}", "null"])
def test_damaged_points_are_computed_again(damaged: str, tmp_path: Path) -> None:
    record_fleet(tmp_path)
    before = loaded("toy", "fleet", tmp_path)
    for point in points(tmp_path):
        point.write_text(damaged)
    (tmp_path / "toy" / "fleet" / NAME).unlink()
    record_fleet(tmp_path)
    assert loaded("toy", "fleet", tmp_path).frame.equals(before.frame)
    kept = [json.loads(point.read_text())["point"] for point in points(tmp_path)]
    assert len({point["of"] for point in kept}) == len(kept) == len(METHODS)


def test_data_that_changed_is_learnt_from_again(tmp_path: Path) -> None:
    own, options = own_data(tmp_path / "mnist.npz", 1.0), {"dataset": str(tmp_path / "mnist.npz")}
    record("toy", "mean", scale="smoke", options=options, processes=1, folder=tmp_path)
    found = loaded("toy", "mean", tmp_path)
    assert list(found.manifest.data) == [str(own)]  # and not the published one of that name
    assert found.frame["mean"].to_list() == [1.0, 1.0]
    own_data(own, 5.0)
    record("toy", "mean", scale="smoke", options=options, processes=1, folder=tmp_path)
    assert loaded("toy", "mean", tmp_path).frame["mean"].to_list() == [5.0, 5.0]


def test_what_no_commit_made_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for at, revision in enumerate((("a", True), (None, None))):
        monkeypatch.setattr(provenance, "revision", lambda *_, now=revision: now)
        record_fleet(tmp_path / str(at))
        assert "fleet will be made by no commit's code" in capsys.readouterr().err
        found = loaded("toy", "fleet", tmp_path / str(at))
        assert not found.traceable
        assert "answers no claim" in str(found)


def test_points_of_another_commit_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "lower bound", interrupted)
        with pytest.raises(ExperimentInterrupted, match="3 finished rows"):
            record_fleet(tmp_path)
    monkeypatch.setattr(provenance, "revision", lambda *_: ("b" * 40, False))
    monkeypatch.setitem(METHODS, "alone", interrupted)
    with pytest.raises(ExperimentInterrupted, match="0 finished rows"):
        record_fleet(tmp_path)


def test_a_killed_run_loses_no_recording(tmp_path: Path) -> None:
    record_fleet(tmp_path)
    folder = record_fleet(tmp_path, scale="paper")  # which takes a smaller one's place
    folder.rename(folder.with_name(".fleet.old"))  # as `put_in_place` does first
    with pytest.raises(UserError, match="holds another recording"):
        record_fleet(tmp_path)
    assert loaded("toy", "fleet", tmp_path).scale == "paper"


def test_another_recording_is_not_replaced_unasked(tmp_path: Path) -> None:
    def again(**arguments: object) -> int:
        record("toy", "mean", processes=1, folder=tmp_path, **arguments)  # type: ignore[arg-type]
        return len(loaded("toy", "mean", tmp_path).frame)

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
    assert len(points(tmp_path)) == 3  # shared by all of them


def record_mean(folder: Path, seeds: int, force: bool = False) -> Recorded:
    record("toy", "mean", scale="smoke", seeds=seeds, force=force, folder=folder)
    return loaded("toy", "mean", folder)


def restate_mean(folder: Path, **fields: object) -> None:
    made = replace(loaded("toy", "mean", folder).manifest, **fields)  # type: ignore[arg-type]
    (folder / "toy" / "mean" / NAME).write_text(made.to_json())


def at_revision(monkeypatch: pytest.MonkeyPatch, revision: str | None) -> None:
    dirty = None if revision is None else False
    monkeypatch.setattr(provenance, "revision", lambda *_: (revision, dirty))


def test_seeds_are_added_to_those_recorded_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(seeds: int, revision: str, force: bool = False) -> tuple[Recorded, int]:
        at_revision(monkeypatch, revision)
        trained.clear()
        found = record_mean(tmp_path, seeds, force)
        computed = len(trained)
        shutil.rmtree(tmp_path / "toy" / ".points")  # as in another clone
        return found, computed

    first, _ = made(1, "a")
    more, computed = made(3, "b")
    assert computed == 2
    about = more.manifest
    assert (about.revision, about.extended_at, about.seeds) == ("a", "b", [1, 2, 3])
    assert about.seconds >= first.manifest.seconds
    whole, computed = made(3, "c", force=True)
    assert (computed, whole.manifest.extended_at) == (3, None)
    assert whole.frame.equals(more.frame)


@pytest.mark.parametrize("how", [{"dirty": True}, {"data": {}}, {"seeds": [2]}])
def test_seeds_are_not_added_to_what_is_of_another_kind(
    how: dict[str, object], tmp_path: Path
) -> None:
    record_mean(tmp_path, 1)
    shutil.rmtree(tmp_path / "toy" / ".points")
    restate_mean(tmp_path, **how)
    trained.clear()
    record_mean(tmp_path, 2)
    assert trained == [1, 2]


def test_seeds_added_outside_git_answer_no_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert record_mean(tmp_path, 1).traceable
    at_revision(monkeypatch, None)
    assert not record_mean(tmp_path, 2).traceable


SEEDED = {
    f"{system} {name}": figure
    for system in systems.SYSTEMS
    for name, figure in systems.recordable(system).items()
    if "seeds" in figure.parameters()
}


@pytest.mark.parametrize("which", usually(["dlion fig9", "edgegossip fig12"], SEEDED))
def test_rows_of_more_seeds_are_those_of_each(which: str) -> None:
    """So that seeds can be added to a recording."""
    both = SEEDED[which].frame("smoke", seeds=2)
    alone = pl.concat(SEEDED[which].frame("smoke", seed=seed, seeds=1) for seed in (1, 2))
    assert_frame_equal(alone, both, check_row_order=False, check_exact=True)


@pytest.mark.parametrize("which", SEEDED)
@pytest.mark.parametrize("seeds", [0, -1, 1.5, "2", True])
def test_a_figure_takes_at_least_one_seed(which: str, seeds: object) -> None:
    with pytest.raises(ValueError, match=f"seeds is {seeds!r}; it must be a whole number"):
        SEEDED[which].frame("smoke", seeds=seeds)


@pytest.mark.parametrize("system", [*systems.SYSTEMS, *systems.ROOMS])
def test_what_the_scale_decides_can_be_set(system: str) -> None:
    for figure in systems.recordable(system).values():
        by_scale = {name for name, usual in figure.parameters().items() if usual is None}
        assert by_scale - {"seeds"} <= set(systems.parameters(system)), figure.id


@pytest.mark.parametrize("system", systems.SYSTEMS)
def test_what_is_offered_is_shown_or_judged(system: str) -> None:
    judged = systems.judged(system)
    needed = [
        figure
        for one in judged
        if one.answers
        for figure in (one.figures if isinstance(one, JointClaims) else [one])
    ]
    ids = {one.id for figure in needed for one in (figure, *figure.bases)}
    (notebook,) = (ROOT / "notebooks").glob(f"*_{system}.ipynb")
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    text = "".join(line for cell in cells for line in cell["source"])
    shown = set(re.findall(r"results\.(?:show|table)\(\s*(\w+\.\w+)", text))
    package = importlib.import_module(f"workbench.{system}.paper")
    of_shown = {operator.attrgetter(one)(package).id for one in shown}
    assert of_shown <= set(systems.figures(system))
    for name, figure in systems.recordable(system).items():
        assert name in of_shown | ids
        assert bool(figure.data) is ("dataset" in figure.parameters())


class AboutToLearnError(Exception):
    """An experiment has asked for its data and begins."""


@pytest.mark.parametrize(
    ("system", "name"),
    [
        (system, name)
        for system in systems.SYSTEMS
        for name, one in systems.recordable(system).items()
        if one.data
    ],
)
def test_data_is_what_the_figure_asks_for(
    system: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = set[tuple[str, ...]]()

    def noted(scale: str, paper: str, choice: str = "auto", **at_default: str) -> str:
        asked.add((paper, *at_default.values()))
        return "digits"

    def begin(*_: object, **__: object) -> None:
        raise AboutToLearnError

    figure = systems.recordable(system)[name]
    for module in [one for name, one in sys.modules.items() if f"{system}.paper" in name]:
        for replaced, by in (("data_set", noted), ("sweep", begin), ("computed", begin)):
            if hasattr(module, replaced):
                monkeypatch.setattr(module, replaced, by)
    with pytest.raises(AboutToLearnError):
        figure.frame("paper")
    usual = figure.data_at_default == "cluttered_digits"
    at_default = () if usual else (figure.data_at_default,)
    assert asked == {(one, *at_default) for one in figure.data}


def test_each_recording_has_a_lock_of_its_own(tmp_path: Path) -> None:
    home = tmp_path / "toy"
    with sole_writer(home, ["mean"], lock=".mean.lock"):
        record_fleet(tmp_path)
        with pytest.raises(ValueError, match=r"wait for it to end$"):
            record("toy", "mean", scale="smoke", processes=1, folder=tmp_path)


def test_other_kernels_than_a_new_process_has_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(instruction_set.late, "numpy", "native: imported before workbench")
    with pytest.raises(ValueError, match="numpy is native: imported before workbench"):
        record_fleet(tmp_path)


def test_in_as_many_processes_as_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[int | None]()

    def beside(function: object, calls: object, processes: int | None, _: object) -> object:
        asked.append(processes)
        return as_finished(function, calls, 1)  # type: ignore[arg-type]

    as_finished = parallel.as_finished
    monkeypatch.setattr(parallel, "as_finished", beside)
    record_fleet(tmp_path, processes=7)
    assert asked == [7]


def test_what_was_altered_is_not_taken_for_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record_fleet(tmp_path)
    manifest = folder / NAME
    frame = pl.read_parquet(folder / "fleet.parquet")
    frame.with_columns(slowest_s=0.0).write_parquet(folder / "fleet.parquet")
    for content, says in (
        (manifest.read_text(), "fleet.parquet is missing or no longer what was recorded"),
        ("[]", "manifest.json is damaged"),
        (re.sub(r'"arguments": {[^}]*}', '"arguments": null', manifest.read_text()), "is damaged"),
        ('{"format": 1}', "is of another version of the workbench"),
    ):
        manifest.write_text(content)
        with pytest.raises(ValueError, match=f"{says}; `workbench record toy fleet`"):
            recorded.load("toy", "fleet", tmp_path)
        found, faults = recorded.load_all("toy", ["mean", "fleet"], tmp_path)
        assert (found, list(faults)) == ({}, ["fleet"])
        shown = Results("toy", recordings=tmp_path).table(FLEET)
        assert shown.equals(frame)  # it is made here
        assert says in capsys.readouterr().out
    record_fleet(tmp_path)  # makes it again
    assert loaded("toy", "fleet", tmp_path).frame.equals(frame)
    (parquet := folder / "fleet.parquet").unlink()
    parquet.mkdir()
    with pytest.raises(UserError, match=r"fleet.parquet is missing or no longer what"):
        recorded.load("toy", "fleet", tmp_path)
    parquet.rmdir()
    parquet.write_bytes(b"PAR1")
    outputs = {parquet.name: file_digest(parquet) or ""}
    manifest.write_text(replace(Manifest.read(folder), outputs=outputs).to_json())
    with pytest.raises(UserError, match=r"fleet.parquet is damaged; `workbench record toy fleet`"):
        recorded.load("toy", "fleet", tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((one.name, bad) for one in fields(Manifest) for bad in ({"x": None}, [None])),
        *((name, 1.5) for name in ("system", "of", "seeds", "made_at", "machine", "outputs")),
        *((name, "other") for name in ("system", "of", "seeds", "seconds", "dirty")),
        ("seconds", None),
        ("arguments", {"scale": "huge"}),
        ("arguments", {"scale": ["smoke"]}),
        ("outputs", {"other": "0" * 64}),
        ("seeds", [True]),
        ("processes", True),
    ],
)
def test_a_damaged_manifest_is_refused(field: str, value: object, tmp_path: Path) -> None:
    committed = ROOT / "data" / "recorded" / "dynacomm" / "table2" / NAME
    content = json.loads(committed.read_text()) | {field: value}
    copy = tmp_path / "dynacomm" / "table2" / NAME
    copy.parent.mkdir(parents=True)
    copy.write_text(json.dumps(content))
    again = "`workbench record dynacomm table2` makes it again"
    with pytest.raises(UserError, match=f"manifest.json is damaged; {again}"):
        recorded.load("dynacomm", "table2", tmp_path)


class NotRunError(Exception):
    """A figure is computed that should be shown as recorded, or the other way round."""


def test_a_notebook_shows_what_answers_its_parameters_and_runs_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(model: str = "resnet152", bandwidth_mbps: float = 1e4, **_: object) -> pl.DataFrame:
        raise NotRunError

    run_alone = replace(saved_time.FIG9A, compute=run, sizes={}, live=False)

    def notebook(which: str = "one") -> Results:
        return Results("dynacomm", "", which, recordings=tmp_path, scale="smoke", seed=3)

    with pytest.raises(NotRunError):  # nothing is recorded yet
        notebook().show(run_alone)
    record("dynacomm", "fig9a", scale="smoke", processes=1, folder=tmp_path)
    shown = (results := notebook()).show(run_alone)
    kept = loaded("dynacomm", "fig9a", tmp_path)
    assert shown.frame.equals(kept.frame)
    drawn, _ = DisplayFormatter().format(shown)  # type: ignore[no-untyped-call]
    assert "<svg" in drawn["image/svg+xml"]
    assert drawn["text/plain"] == "dynacomm: fig9a (figure)"  # not the frame, nor the drawing again
    assert "recorded on" in capsys.readouterr().out
    assert results.frames == {}  # it is not a result of this run
    for given in ({"scale": "default"}, {"model": "vgg19"}, {"bandwidth_mbps": 1e3}):
        with pytest.raises(NotRunError):
            results.show(run_alone, **given)
    with pytest.raises(NotRunError):
        results.show(replace(run_alone, live=True))
    with pytest.raises(NotRunError):
        notebook("all").show(run_alone)
    with pytest.raises(UnknownNameError, match="unknown trainings 'some'"):
        notebook("some")


def test_figure_of_several_is_recorded_in_whole_or_made_here_in_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = replace(FLEET, id="second", sizes={"seed": Scaled(2, 2, 2)})
    both = Figure(
        id="both",
        of=(replace(FLEET, live=True), second),
        compute=lambda *frames: pl.concat(frames),
    )
    here = pl.concat([fleet(3), fleet(2)])
    results = Results("toy", recordings=tmp_path, seed=3)
    record("toy", "fleet", options={"seed": "3"}, folder=tmp_path)
    capsys.readouterr()
    assert results.table(both).equals(here)  # the second is not recorded
    assert list(results.frames) == ["both"]
    twice = replace(both, of=(both.of[0], FLEET))
    assert results.table(twice).equals(pl.concat([fleet(3), fleet(3)]))
    assert capsys.readouterr().out.count("fleet: recorded on") == 2
    assert Results("toy", "", "all", recordings=tmp_path, seed=3).table(twice).height == 8
    assert "recorded" not in capsys.readouterr().out
    record("toy", "mean", scale="smoke", options={"seed": "3"}, folder=tmp_path)
    mixed = replace(both, of=(both.of[0], MEAN), compute=lambda fleet, mean: pl.DataFrame())
    capsys.readouterr()
    results.table(mixed, scale="smoke")
    assert "fleet: recorded" not in capsys.readouterr().out  # of another scale than the other


def test_a_recording_answers_its_own_seeds_and_any_choice_of_data(tmp_path: Path) -> None:
    record("toy", "mean", scale="smoke", seeds=2, processes=1, folder=tmp_path)
    found = loaded("toy", "mean", tmp_path)
    assert found.answers({"scale": "smoke", "seed": 2, "dataset": "auto"})
    assert not found.answers({"scale": "smoke", "seed": 3, "dataset": "auto"})
    assert not found.answers({"scale": "smoke", "seed": 1, "dataset": "mnist"})
    assert not found.answers({"scale": "paper", "seed": 1, "dataset": "auto"})


def test_without_a_name_all_is_recorded_that_is_not(tmp_path: Path) -> None:
    record_fleet(tmp_path)
    before = (tmp_path / "toy" / "fleet" / NAME).read_bytes()
    asked = ("toy", "--scale", "smoke", "--processes", "1", "--output", str(tmp_path))
    done = command(*asked)
    assert done.exit_code == 0
    assert set(recorded.load_all("toy", ["mean", "fleet"], tmp_path)[0]) == {"fleet", "mean"}
    assert (tmp_path / "toy" / "fleet" / NAME).read_bytes() == before
    assert "all experiments of toy are recorded" in command(*asked).stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nothing", "fig5"), "unknown system 'nothing'"),
        (("dynacomm", "fig5"), "unknown experiment 'fig5'"),  # takes no time
        (("dynacomm", ""), "unknown experiment ''"),
        (("toy", "flet"), "Did you mean 'fleet'"),
        (("01_dynacomm", "fig10", "--scale", "full"), "smoke, default, paper"),
        (("dynacomm", "fig10", "--seeds", "3"), "fig10 runs once; give its seed by -p seed=1"),
        (("dynacomm", "fig9a", "--seeds", "3"), "there is no chance in fig9a"),
        (("toy", "mean", "--seeds", "0"), "must be at least 1"),
        (("toy", "mean", "--processes", "0"), "must be at least 1"),
        (("toy", "mean", "-p", "workers=2"), "unknown parameter of mean 'workers'"),
        (("toy", "mean", "-p", "seed=x"), "seed"),
        (("toy", "mean", "--scale", "smoke", "-p", "scale=paper"), "--scale paper"),
        (("toy", "quick"), "unknown experiment 'quick'"),
        (("toy", "--scale", "smoke", "--seeds", "2"), "fleet runs once"),  # mean does not
        (("toy", "--scale", "smoke", "-p", "dataset=digits"), "unknown parameter of fleet"),
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
    arguments = ("toy", "fleet", "--scale", "smoke", "--processes", "1")
    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "assign", interrupted)
        stopped = command(*arguments, "--output", str(tmp_path))
    assert stopped.exit_code == 130
    assert "2 rows finished; the same command goes on" in stopped.stderr
    result = command(*arguments, "--output", str(tmp_path))
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{tmp_path / 'toy' / 'fleet'}: recorded on")
    assert result.stderr == ""
    again = command(*arguments, "--output", str(tmp_path))
    assert again.stdout == result.stdout
    assert again.stderr == "fleet is already recorded; nothing was run\n"
    forced = command(*arguments, "--force", "--output", str(tmp_path))
    assert "nothing was run" not in forced.stderr


@pytest.mark.parametrize("system", systems.SYSTEMS)
def test_what_is_committed_is_of_its_data_and_of_its_figure_alone(system: str) -> None:
    found, faults = recorded.load_all(system, systems.recordable(system))
    assert not faults
    assert {path.name for path in (recorded.FOLDER / system).glob("[!.]*")} == set(found)
    for name, one in found.items():
        if "dataset" in one.frame.columns:
            learnt = {Path(source).stem for source in one.manifest.data}
            assert set(one.frame["dataset"].drop_nulls()) == learnt, name
    frames = [digest for one in found.values() for digest in one.manifest.outputs.values()]
    assert len(frames) == len(set(frames))
