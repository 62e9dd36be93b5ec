"""A training that diverges is a row with its reason: drawn without it, and said by the answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from workbench.dynacomm.paper.experiments import simulated as dynacomm_simulated

from workbench.claims import Answer
from workbench.claims.answer import stored_answers
from workbench.dynacomm.paper import charts as dynacomm_charts
from workbench.dynacomm.paper import experiments as dynacomm
from workbench.edgegossip.paper import charts as edgegossip_charts
from workbench.edgegossip.paper import experiments as edgegossip
from workbench.edgegossip.paper.experiments import trainings
from workbench.experiments import finished
from workbench.hiertrain.paper import learning as hiertrain
from workbench.training import TrainingError

LEFT_OUT = "left out: 1 training that failed"


class NoTrainingError(TrainingError):
    def __init__(self) -> None:
        Exception.__init__(self, "training diverged")


@pytest.fixture(autouse=True)
def nothing_in_memory() -> Iterator[None]:
    finished.forget()
    yield
    finished.forget()


def title(chart: Any) -> str:
    found = chart.to_dict()["title"]
    lines = found if isinstance(found, list) else [found["text"], *found.get("subtitle", [])]
    return " ".join(" ".join(one) if isinstance(one, list) else one for one in lines)


def reasons(frame: pl.DataFrame) -> list[str]:
    return frame["reason"].drop_nulls().to_list()


def answer(system: str, claim: str, **frames: pl.DataFrame) -> Answer:
    claims = [f"{system}.{claim}"]
    module = __import__(f"workbench.{system}.paper.answers", fromlist=["ANSWERS"])
    table = {name: one for name, one in module.ANSWERS.items() if name in claims}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ANSWERS", table)
        found, fault = stored_answers(system, claims, frames)
    assert not fault
    return found[claims[0]]


class Failing:
    """Of a method and seed: the training that fails; the others reach 90 %."""

    def __init__(self, method: str, seed: int) -> None:
        self.failing = (method, seed)
        self.__qualname__ = f"Failing{self.failing}"

    def __call__(self, *, training: trainings.Training, **_: object) -> pl.DataFrame:
        if self.failing == (training.method, training.case.seed):
            raise NoTrainingError
        at_s = [1.0, 2.0] if training.method == "edgegossip" else [2.0, 4.0]
        return pl.DataFrame({"epoch": [1, 2], "at_s": at_s, "top1": [0.1, 0.9], "kept": [1.0, 0.5]})


@pytest.mark.parametrize("method", ["gosgd", "edgegossip"])
def test_edgegossip(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainings, "_curve", Failing(method, 2))
    fig13 = edgegossip.fig13("smoke", seeds=4)
    assert set(reasons(fig13)) == {"training diverged"}
    failed = fig13.drop_nulls("reason")
    assert set(zip(failed["method"], failed["seed"], strict=True)) == {(method, 2)}
    assert failed["model"].null_count() == 0
    drawn = title(edgegossip_charts.fig13(fig13))
    assert ("left out: 1 training" if method == "gosgd" else "left out: 3 trainings") in drawn
    assert "without seed 2" in answer("edgegossip", "fig13.ratio", fig13=fig13).detail
    three = answer("edgegossip", "fig13.ratio", fig13=fig13.filter(pl.col("seed") < 4))
    assert "without seed 2" in three.not_run


def test_edgegossip_where_platforms_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainings, "_curve", Failing("edgegossip", 1))
    frame = edgegossip.dropouts("smoke")
    assert len(reasons(frame)) == frame["scenario"].n_unique()
    assert "left out: 4 trainings" in title(edgegossip_charts.dropouts(frame))


def test_loss_is_over_the_seeds_that_all_settings_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainings, "_curve", Failing("", 0))
    fig5, larger = edgegossip.fig5("smoke", seeds=4), edgegossip.fig6_accuracy("smoke", seeds=3)
    worse = larger.with_columns(
        top1=pl.when(method="edgegossip").then(pl.col("top1") - 0.04).otherwise("top1")
    )
    found = answer("edgegossip", "accuracy_loss", fig5=fig5, fig6_accuracy=worse)
    settings = fig5["model"].n_unique(), len(larger.unique(["model", "platforms"]))
    assert found.ours == pytest.approx(4.0 * settings[1] / sum(settings))
    assert "3 seeds" in found.detail
    assert "without seed 4" in found.detail


def test_hiertrain(monkeypatch: pytest.MonkeyPatch) -> None:
    def under(planner: str, source: str, **_: object) -> dict[str, object]:
        if planner == "jalad":
            raise NoTrainingError
        about = {"model": "lenet5_cifar", "dataset": source, "train_samples": 9, "test_samples": 9}
        return about | {"epoch": 1, "at_s": 1.0, "top1": 0.9}

    monkeypatch.setattr(hiertrain, "_under_planner", under)
    accuracy = hiertrain.ACCURACY.frame("smoke", seeds=1)
    assert reasons(accuracy) == ["training diverged"]
    assert LEFT_OUT in title(hiertrain.draw_accuracy(accuracy))


def test_dynacomm(monkeypatch: pytest.MonkeyPatch) -> None:
    def under(*, planner: str, source: str, **_: object) -> dict[str, object]:
        if planner == "dynacomm":
            raise NoTrainingError
        about = {"model": "resnet20_cifar", "dataset": source, "train_samples": 9}
        numbers = dict.fromkeys(("at_s", "train_top1", "train_top5", "top1", "top5"), 1.0)
        return about | numbers | {"test_samples": 9, "epoch": 1, "difference_percent": 0.0}

    monkeypatch.setattr(dynacomm_simulated, "_learnt", under)
    fig10 = dynacomm.fig10("smoke")
    assert reasons(fig10) == ["training diverged"]
    assert LEFT_OUT in title(dynacomm_charts.fig10(fig10))
    found = answer("dynacomm", "fig10.accuracy", fig10=fig10)
    assert found.not_run == "trains under dynacomm, which failed"
