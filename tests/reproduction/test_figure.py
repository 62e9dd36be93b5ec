"""Figures that can be recorded: their seeds, their data, and who shows them."""

from __future__ import annotations

import importlib
import json
import operator
import re
import sys

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.long import usually
from workbench.reproduction import systems
from workbench.reproduction.figure import Figure, JointClaims
from workbench.reproduction.scales import Scaled
from workbench.utils.files import ROOT

RECORDABLE = {
    f"{system} {name}": figure
    for system in systems.TITLES
    for name, figure in systems.recordable(system).items()
}
SEEDED = {key: figure for key, figure in RECORDABLE.items() if "seeds" in figure.parameters()}
TRAINED = [key for key, figure in RECORDABLE.items() if figure.data]


def test_the_scale_decides_sizes_and_a_user_the_other_parameters() -> None:
    def compute(points: int, scale: str, seed: int = 1) -> pl.DataFrame:
        return pl.DataFrame({"points": [points], "scale": [scale], "seed": [seed]})

    figure = Figure(id="rows", compute=compute, sizes={"points": Scaled(1, 2, 3)})
    assert figure.parameters() == {"seed": 1}
    assert figure.frame().rows() == [(2, "default", 1)]
    assert figure.frame("paper", seed=5, processes=4, folder=None).rows() == [(3, "paper", 5)]
    with pytest.raises(TypeError, match="unexpected keyword argument 'seeed'"):
        figure.frame(seeed=5)
    twice = Figure(id="twice", of=(figure, figure), compute=lambda *frames: pl.concat(frames))
    assert twice.frame("smoke", seed=5).rows() == [(1, "smoke", 5)] * 2
    assert twice.parameters() == {"seed": 1}


@pytest.mark.parametrize("key", usually(["dlion weightings", "edgegossip fig12"], SEEDED))
def test_rows_of_more_seeds_are_those_of_each(key: str) -> None:
    """So that seeds can be added to a recording."""
    both = SEEDED[key].frame("smoke", seeds=2)
    alone = pl.concat(SEEDED[key].frame("smoke", seed=seed, seeds=1) for seed in (1, 2))
    assert_frame_equal(alone, both, check_row_order=False, check_exact=True)


@pytest.mark.parametrize("key", SEEDED)
def test_a_figure_takes_at_least_one_seed(key: str) -> None:
    for seeds in (0, -1, 1.5, "2", True):
        with pytest.raises(ValueError, match=f"seeds is {seeds!r}; it must be a whole number"):
            SEEDED[key].frame("smoke", seeds=seeds)


@pytest.mark.parametrize("system", [*systems.TITLES, "three_ways"])
def test_what_the_scale_decides_can_be_set(system: str) -> None:
    for figure in systems.recordable(system).values():
        by_scale = {name for name, default in figure.parameters().items() if default is None}
        assert by_scale - {"seeds"} <= set(systems.parameters(system)), figure.id


@pytest.mark.parametrize("system", systems.TITLES)
def test_what_can_be_recorded_is_shown_or_judged(system: str) -> None:
    judged = [
        figure
        for source in systems.judged(system)
        if source.answers
        for figure in (source.figures if isinstance(source, JointClaims) else [source])
    ]
    ids = {base.id for figure in judged for base in (figure, *figure.bases)}
    (notebook,) = (ROOT / "notebooks").glob(f"*_{system}.ipynb")
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    text = "".join(line for cell in cells for line in cell["source"])
    names = set(re.findall(r"results\.(?:show|table)\(\s*(\w+\.\w+)", text))
    package = importlib.import_module(f"workbench.{system}.paper")
    shown = {operator.attrgetter(name)(package).id for name in names}
    assert shown <= set(systems.figures(system))
    for name, figure in systems.recordable(system).items():
        assert name in shown | ids
        assert bool(figure.data) is ("dataset" in figure.parameters())


class AboutToTrainError(Exception):
    """An experiment has asked for its data and begins."""


@pytest.mark.parametrize("key", TRAINED)
def test_data_is_what_the_figure_says(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = set[tuple[str, ...]]()

    def noted(scale: str, paper: str, choice: str = "auto", **at_default: str) -> str:
        asked.add((paper, *at_default.values()))
        return "digits"

    def begin(*_: object, **__: object) -> None:
        raise AboutToTrainError

    figure, system = RECORDABLE[key], key.partition(" ")[0]
    harness = "workbench.reproduction.trainings"
    for module in [
        module
        for name, module in sys.modules.items()
        if f"{system}.paper" in name or name == harness
    ]:
        for name, replacement in (("data_set", noted), ("sweep", begin)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, replacement)
    with pytest.raises(AboutToTrainError):
        figure.frame("paper")
    is_usual = figure.data_at_default == "cluttered_digits"
    at_default = () if is_usual else (figure.data_at_default,)
    assert asked == {(source, *at_default) for source in figure.data}
