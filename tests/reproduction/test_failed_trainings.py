"""A training that diverges is a row with its reason; charts and answers say that it is left out."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from workbench.dynacomm.paper import accuracy as dynacomm
from workbench.edgegossip.paper import accuracy, trainings
from workbench.hiertrain.paper import runs as hiertrain
from workbench.reproduction import systems
from workbench.reproduction.claims import Answer
from workbench.reproduction.figure import answers_of
from workbench.training import TrainingError

LEFT_OUT = "left out: 1 training that failed"


class NoTrainingError(TrainingError):
    def __init__(self) -> None:
        Exception.__init__(self, "training diverged")


def title(chart: Any) -> str:
    title = chart.to_dict()["title"]
    lines = title if isinstance(title, list) else [title["text"], *title.get("subtitle", [])]
    return " ".join(" ".join(line) if isinstance(line, list) else line for line in lines)


def reasons(frame: pl.DataFrame) -> list[str]:
    return frame["reason"].drop_nulls().to_list()


def answer(system: str, claim: str, **frames: pl.DataFrame) -> Answer:
    return answers_of(systems.judged(system), frames).by_claim[f"{system}.{claim}"]


class Failing:
    """`one_curve` where the training of one method and seed fails; others reach 90 %."""

    def __init__(self, method: str, seed: int) -> None:
        self.failing = (method, seed)
        self.__qualname__ = f"Failing{self.failing}"

    def __call__(self, *, training: trainings.Training) -> pl.DataFrame:
        if self.failing == (training.method, training.case.seed):
            raise NoTrainingError
        at_s = [1.0, 2.0] if training.method == "edgegossip" else [2.0, 4.0]
        return pl.DataFrame({"epoch": [1, 2], "at_s": at_s, "top1": [0.1, 0.9], "kept": [1.0, 0.5]})


@pytest.mark.parametrize("method", ["gosgd", "edgegossip"])
def test_edgegossip(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainings, "one_curve", Failing(method, 2))
    fig13 = accuracy.FIG13.frame("smoke", seeds=4)
    assert set(reasons(fig13)) == {"training diverged"}
    failed = fig13.drop_nulls("reason")
    assert set(zip(failed["method"], failed["seed"], strict=True)) == {(method, 2)}
    assert failed["model"].null_count() == 0
    drawn = title(accuracy.draw_by_ratio(fig13))
    assert ("left out: 1 training" if method == "gosgd" else "left out: 3 trainings") in drawn
    assert "without seed 2" in answer("edgegossip", "fig13.ratio", fig13=fig13).detail
    three = answer("edgegossip", "fig13.ratio", fig13=fig13.filter(pl.col("seed") < 4))
    assert "without seed 2" in three.not_run


def test_edgegossip_where_platforms_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainings, "one_curve", Failing("edgegossip", 1))
    frame = accuracy.DROPOUTS.frame("smoke")
    assert len(reasons(frame)) == frame["scenario"].n_unique()
    assert "left out: 4 trainings" in title(accuracy.draw_dropouts(frame))


def test_loss_is_over_the_seeds_that_all_settings_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainings, "one_curve", Failing("", 0))
    fig5 = accuracy.FIG5.frame("smoke", seeds=4)
    larger = accuracy.FIG6_ACCURACY.frame("smoke", seeds=3)
    worse = larger.with_columns(
        top1=pl.when(method="edgegossip").then(pl.col("top1") - 0.04).otherwise("top1")
    )
    found = answer("edgegossip", "accuracy_loss", fig5=fig5, fig6_accuracy=worse)
    settings = fig5["model"].n_unique(), len(larger.unique(["model", "platforms"]))
    assert found.ours == pytest.approx(4.0 * settings[1] / sum(settings))
    assert "3 seeds" in found.detail
    assert "without seed 4" in found.detail


def test_hiertrain(monkeypatch: pytest.MonkeyPatch) -> None:
    def under(*, planner: str, source: str, **training: object) -> dict[str, object]:
        if planner == "jalad":
            raise NoTrainingError
        about = {
            "model": "lenet5_cifar",
            "dataset": source,
            "train_samples": 9,
            "test_samples": 9,
        }
        return about | {"epoch": 1, "at_s": 1.0, "top1": 0.9}

    monkeypatch.setattr(hiertrain, "_accuracy", under)
    accuracy = hiertrain.ACCURACY.frame("smoke", seeds=1)
    assert reasons(accuracy) == ["training diverged"]
    assert LEFT_OUT in title(hiertrain.draw_accuracy(accuracy))


def test_dynacomm(monkeypatch: pytest.MonkeyPatch) -> None:
    def under(*, planner: str, source: str, **training: object) -> dict[str, object]:
        if planner == "dynacomm":
            raise NoTrainingError
        about = {"model": "resnet20_cifar", "dataset": source, "train_samples": 9}
        numbers = dict.fromkeys(("at_s", "train_top1", "train_top5", "top1", "top5"), 1.0)
        return about | numbers | {"test_samples": 9, "epoch": 1, "difference_percent": 0.0}

    monkeypatch.setattr(dynacomm, "_trained", under)
    fig10 = dynacomm.FIG10.frame("smoke")
    assert reasons(fig10) == ["training diverged"]
    assert LEFT_OUT in title(dynacomm.draw_accuracies(fig10))
    found = answer("dynacomm", "fig10.accuracy", fig10=fig10)
    assert found.not_run == "trains under dynacomm, which failed"
