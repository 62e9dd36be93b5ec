"""Notebooks show what is recorded where it answers their parameters, and run the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from IPython.core.formatters import DisplayFormatter

from tests.reproduction import toy
from tests.reproduction.toy import FLEET, MEAN, fleet, record_fleet
from workbench.dynacomm.paper import cost_model
from workbench.reproduction import recordings
from workbench.reproduction.figure import Figure
from workbench.reproduction.notebook import Results
from workbench.reproduction.record import record
from workbench.reproduction.scales import Scaled
from workbench.utils.checks import UnknownNameError


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    toy.install(monkeypatch)


class NotRunError(Exception):
    """A figure is computed that should be shown as recorded, or the other way round."""


def test_a_recording_is_shown_where_it_answers_the_parameters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(model: str = "resnet152", bandwidth_mbps: float = 1e4) -> pl.DataFrame:
        raise NotRunError

    figure = replace(cost_model.FIG9A, compute=run, sizes={}, live=False)

    def notebook(trainings: str = "one") -> Results:
        return Results("dynacomm", "", trainings, recordings=tmp_path, scale="smoke", seed=3)

    with pytest.raises(NotRunError):  # nothing is recorded yet
        notebook().show(figure)
    record("dynacomm", "fig9a", scale="smoke", processes=1, folder=tmp_path)
    shown = (results := notebook()).show(figure)
    recording = recordings.load("dynacomm", "fig9a", tmp_path)
    assert recording is not None
    assert shown.frame.equals(recording.frame)
    drawn, _ = DisplayFormatter().format(shown)  # type: ignore[no-untyped-call]
    assert "<svg" in drawn["image/svg+xml"]
    assert drawn["text/plain"] == "dynacomm: fig9a (figure)"  # not the frame, nor the drawing again
    assert "recorded on" in capsys.readouterr().out
    assert results.frames == {}  # it is not a result of this run
    others: list[dict[str, Any]] = [
        {"scale": "default"},
        {"model": "vgg19"},
        {"bandwidth_mbps": 1e3},
    ]
    for other in others:
        with pytest.raises(NotRunError):
            results.show(figure, **other)
    with pytest.raises(NotRunError):
        results.show(replace(figure, live=True))
    with pytest.raises(NotRunError):
        notebook("all").show(figure)
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
    results = Results("toy", recordings=tmp_path, seed=3)
    record("toy", "fleet", options={"seed": "3"}, folder=tmp_path)
    capsys.readouterr()
    assert results.table(both).equals(pl.concat([fleet(3), fleet(2)]))  # second is not recorded
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


def test_a_damaged_recording_is_named_and_the_figure_is_computed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = record_fleet(tmp_path).frame
    (tmp_path / "toy" / "fleet" / "fleet.parquet").unlink()
    assert Results("toy", recordings=tmp_path).table(FLEET).equals(frame)
    assert "fleet.parquet is missing" in capsys.readouterr().out
