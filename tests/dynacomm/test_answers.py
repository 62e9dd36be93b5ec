"""Stored frames to answers: right claims, right settings, honest gaps."""

import polars as pl
import pytest

from workbench.claims import load_claims, of_frames
from workbench.dynacomm import experiments
from workbench.dynacomm.answers import answers

FRAMES = {
    "fig5": experiments.fig5(),
    "fig6": experiments.fig6(),
    "fig7": experiments.fig7(),
    "fig8": experiments.fig8(),
    "iterations": experiments.iterations(),
    "fig9a": experiments.fig9a("smoke"),
    "fig9b": experiments.fig9b(),
    "fig11": experiments.fig11(),
    "fig12": experiments.fig12("smoke"),
    "table1": experiments.table1("smoke"),
    "table2": experiments.table2("smoke"),
    "fig10": experiments.fig10("smoke"),
}


def test_every_claim_has_an_answer() -> None:
    card = of_frames("dynacomm", FRAMES)
    assert card.unanswered == ()
    assert len(card.rows) == load_claims().filter(pl.col("system") == "dynacomm").height


def test_only_the_four_models_profiles_are_missing_at_smoke_scale() -> None:
    waiting = {claim for claim, answer in answers(FRAMES).items() if answer.not_run}
    assert waiting == {"dynacomm.table2.loss"}


def test_the_worst_of_the_four_losses_counts() -> None:
    percents = dict(zip(experiments.MODELS, (0.5, -1.0, 2.5, 1.0), strict=True))
    table = pl.DataFrame({"model": list(percents), "loss_percent": list(percents.values())})
    assert answers({"table2": table})["dynacomm.table2.loss"].ours == 2.5


def test_accuracies_that_differ_at_one_epoch_would_be_noticed() -> None:
    assert answers(FRAMES)["dynacomm.fig10.accuracy"].ours == 0
    other = pl.when(pl.col("planner") == "dynacomm").then(pl.col("top5") - 0.02)
    changed = FRAMES["fig10"].with_columns(top5=other.otherwise(pl.col("top5")))
    found = answers({"fig10": changed})["dynacomm.fig10.accuracy"].ours
    assert found == pytest.approx(2)


def test_a_reduction_is_read_from_its_figure() -> None:
    row = FRAMES["fig7"].filter(pl.col("model") == "googlenet", pl.col("planner") == "dynacomm")
    found = answers(FRAMES)["dynacomm.fwd16.googlenet.dynacomm"].ours
    assert found == row["reduced_percent"].item()


@pytest.mark.parametrize(
    "other",
    [
        experiments.fig5(bandwidth_mbps=1000.0),
        experiments.fig5(workers=4),
        experiments.fig5(batch_size=64),
    ],
    ids=["bandwidth", "workers", "batch size"],
)
def test_results_at_another_setting_answer_nothing(other: pl.DataFrame) -> None:
    assert not any(".fwd32." in claim for claim in answers({"fig5": other}))


def test_missing_frames_leave_claims_out() -> None:
    assert "dynacomm.fig11.dynacomm" not in answers({"fig5": FRAMES["fig5"]})


def test_a_slower_dynacomm_would_be_noticed() -> None:
    slowed = FRAMES["fig8"].with_columns(
        total_s=pl.when(pl.col("planner") == "dynacomm")
        .then(pl.col("total_s") * 2)
        .otherwise(pl.col("total_s"))
    )
    assert answers(FRAMES)["dynacomm.order.optimal"].ours is True
    assert answers(FRAMES | {"fig8": slowed})["dynacomm.order.optimal"].ours is False


def test_a_plan_too_late_for_the_window_would_be_noticed() -> None:
    late = FRAMES["table1"].with_columns(window_ms=pl.col("mean_ms") / 2)
    assert answers(FRAMES)["dynacomm.table1.window"].ours is True
    assert answers(FRAMES | {"table1": late})["dynacomm.table1.window"].ours is False
