"""Stored frames to answers: right claims, right settings, honest gaps; each answer can fail."""

import polars as pl
import pytest

from workbench.claims import load_claims, of_frames
from workbench.edgegossip import experiments, prediction_experiments
from workbench.edgegossip.answers import answers

RECORDED = prediction_experiments.samples("smoke")
FRAMES = {
    "fig3": experiments.fig3("smoke"),
    "fig5": experiments.fig5("smoke"),
    "fig6": experiments.fig6(),
    "fig6_accuracy": experiments.fig6_accuracy("smoke"),
    "fig7": experiments.fig7("smoke"),
    "fig8": experiments.fig8(),
    "fig9": prediction_experiments.fig9(RECORDED),
    "fig11": prediction_experiments.fig11(RECORDED),
    "fig12": experiments.fig12("smoke"),
    "fig13": experiments.fig13("smoke"),
}


def value(claim: str, **changed: pl.DataFrame) -> float | bool | None:
    return answers(FRAMES | changed)[f"edgegossip.{claim}"].ours


def with_value(frame: pl.DataFrame, column: str, new: float, **where: object) -> pl.DataFrame:
    """A frame with one column changed in the rows that match."""
    rows = pl.all_horizontal(pl.col(name) == wanted for name, wanted in where.items())
    return frame.with_columns(pl.when(rows).then(pl.lit(new)).otherwise(column).alias(column))


def trained(name: str, **top1: float) -> pl.DataFrame:
    """A smoke frame as if of three seeds, with accuracies by method."""
    frame = FRAMES[name].with_columns(
        top1=pl.col("method").replace_strict({"gosgd": 0.98, "edgegossip": 0.975} | top1)
    )
    return pl.concat([frame.with_columns(seed=pl.lit(seed, pl.Int64)) for seed in (1, 2, 3)])


def test_every_claim_has_an_answer() -> None:
    card = of_frames("edgegossip", FRAMES)
    assert card.unanswered == ()
    assert len(card.rows) == load_claims().filter(pl.col("system") == "edgegossip").height


def test_accuracy_waits_for_three_seeds() -> None:
    waiting = {claim for claim, answer in answers(FRAMES).items() if answer.not_run}
    assert waiting == {
        f"edgegossip.{name}"
        for name in (
            "accuracy_loss",
            "fig3.histogram",
            "fig5.accuracy",
            "fig12.unbalance",
            "fig13.ratio",
        )
    }


def test_the_speed_up_is_the_mean_over_settings() -> None:
    frame = FRAMES["fig6"]
    assert value("speedup") == pytest.approx(sum(frame["speedup"]) / 12)
    assert value("speedup") == pytest.approx(2.7, abs=0.05)
    assert answers({"fig6": frame.with_columns(uplink_mbps=pl.lit(1000.0))}) == {}
    assert answers({"fig6": frame.with_columns(epochs=pl.lit(3))}) == {}


def test_lenet_5_could_gain_most() -> None:
    assert value("fig6.lenet_smallest") is True
    faster = with_value(FRAMES["fig6"], "speedup", 99.0, model="lenet5", platforms=12)
    assert value("fig6.lenet_smallest", fig6=faster) is False


def test_what_is_lost_is_told_with_its_spread() -> None:
    frames = {"fig5": trained("fig5"), "fig6_accuracy": trained("fig6_accuracy")}
    found = answers(FRAMES | frames)["edgegossip.accuracy_loss"]
    assert found.ours == pytest.approx(0.5)
    assert "0.00 points of spread" in found.detail
    assert "alexnet_small for alexnet_cifar, lenet5 for squeezenet_cifar" in found.detail


def test_figure_5_fails_where_accuracy_or_time_does() -> None:
    good = trained("fig5")
    slower = good.with_columns(
        at_s=pl.when(method="gosgd").then("at_s").otherwise(pl.col("at_s") / 100)
    )
    assert value("fig5.accuracy", fig5=slower) is True
    assert (
        value("fig5.accuracy", fig5=with_value(slower, "top1", 0.9, method="edgegossip")) is False
    )
    late = slower.with_columns(
        at_s=pl.when(model="alexnet_cifar", method="edgegossip").then(1e9).otherwise("at_s")
    )
    assert value("fig5.accuracy", fig5=late) is False


def test_figure_3_can_hold_and_fail() -> None:
    slow = ["svd_gaussian_mixture", "pca_kmeans", "pca_lsh", "whole_svd_lsh"]
    names = FRAMES["fig3"]["technique"].to_list()
    made = pl.DataFrame(
        [
            {"technique": name, "seed": seed, "learner": "lenet5", "dataset": "digits"}
            | {"total_s": 11.0 if name in slow else 1.0}
            | {"top1": 0.5 if name == "histogram_kmeans" else 0.9}
            for name in names
            for seed in (1, 2, 3)
        ]
    )
    assert value("fig3.slow", fig3=made) is True
    assert value("fig3.slow", fig3=with_value(made, "total_s", 9.0, technique="pca_lsh")) is False
    assert value("fig3.histogram", fig3=made) is True
    lower = with_value(made, "top1", 0.4, technique="pca_lsh")
    assert value("fig3.histogram", fig3=lower) is False


def generation(divide_share: float, slope: float) -> pl.DataFrame:
    """Times of `fig7` in which dividing takes a share, falling as the ratio grows."""
    rows = []
    for technique in ("svd_kmeans", "incremental_svd_lsh", "hash_kmeans"):
        for ratio in (5.0, 10.0, 20.0):
            total_s = 10 - slope * ratio
            rows.append(
                {
                    "model": "lenet5",
                    "technique": technique,
                    "ratio": ratio,
                    "divide_s": divide_share * total_s,
                    "reduce_s": (1 - divide_share) * total_s,
                    "total_s": total_s,
                }
            )
    return pl.DataFrame(rows)


def test_figure_7_can_hold_and_fail() -> None:
    assert value("fig7.kmeans_dominates", fig7=generation(0.6, 0.1)) is True
    assert value("fig7.kmeans_dominates", fig7=generation(0.6, -0.1)) is False
    assert value("fig7.kmeans_dominates", fig7=generation(0.4, 0.1)) is False
    assert value("fig7.isvd_dominates", fig7=generation(0.4, 0.1)) is True
    assert value("fig7.isvd_dominates", fig7=generation(0.6, 0.1)) is False


def test_figure_8_is_read_from_all_platforms() -> None:
    frame = FRAMES["fig8"].filter(kind="all", model="alexnet_cifar")
    assert value("fig8.alexnet") == pytest.approx(sum(frame["percent"]) / 3)
    assert value("fig8.inverse") is True
    other = with_value(FRAMES["fig8"], "ranking_s", 9.0, kind="all", ratio=20.0)
    assert value("fig8.inverse", fig8=other) is False


def test_figures_9_and_11_can_fail() -> None:
    frame = FRAMES["fig9"]
    assert value("fig9.error") == pytest.approx(frame["mean_percent"].mean())
    falling = frame.with_columns(mean_percent=1 / pl.col("size_bytes"))
    assert value("fig9.trend", fig9=falling) is False
    assert value("fig9.trend", fig9=frame.with_columns(mean_percent=pl.col("size_bytes"))) is True
    late = with_value(FRAMES["fig11"], "mean_s", 0.5, part="reporting")
    assert value("fig11.overhead", fig11=late) == 0.5


def unequal(edge_s: tuple[float, ...], lost: tuple[float, ...]) -> pl.DataFrame:
    rows = []
    for at, imbalance in enumerate((1.0, 3.0, 5.0)):
        for seed in (1, 2, 3):
            about = {"model": "lenet5", "learner": "lenet5", "dataset": "digits"}
            about |= {"train_samples": 9, "platforms": 4, "imbalance": imbalance}  # type: ignore[dict-item]
            about |= {"seed": seed, "epoch": 5}  # type: ignore[dict-item]
            rows.append(about | {"method": "gosgd", "at_s": 10 * imbalance, "top1": 0.9})
            ours = {"method": "edgegossip", "at_s": edge_s[at], "top1": 0.9 - lost[at]}
            rows.append(about | ours)
    return pl.DataFrame(rows)


def test_figure_12_can_hold_and_fail() -> None:
    assert value("fig12.unbalance", fig12=unequal((10.0, 11.0, 12.0), (0.0, 0.01, 0.02))) is True
    assert value("fig12.unbalance", fig12=unequal((10.0, 11.0, 14.0), (0.0, 0.01, 0.02))) is False
    assert value("fig12.unbalance", fig12=unequal((10.0, 11.0, 12.0), (0.01, 0.02, 0.0))) is False


def test_figure_13_can_hold_and_fail() -> None:
    def by_ratio(percent: tuple[float, ...], seconds: tuple[float, ...]) -> pl.DataFrame:
        frame = trained("fig13")
        at = pl.col("ratio").replace_strict({5.0: 0, 10.0: 1, 20.0: 2}, default=None)
        return frame.with_columns(
            top1=pl.when(method="gosgd")
            .then("top1")
            .otherwise(at.replace_strict(dict(enumerate(percent)), default=None)),
            at_s=pl.when(method="gosgd")
            .then("at_s")
            .otherwise(at.replace_strict(dict(enumerate(seconds)), default=None)),
        )

    assert value("fig13.ratio", fig13=by_ratio((0.9, 0.9, 0.89), (3.0, 2.0, 1.0))) is True
    assert value("fig13.ratio", fig13=by_ratio((0.9, 0.9, 0.91), (3.0, 2.0, 1.0))) is False
    assert value("fig13.ratio", fig13=by_ratio((0.9, 0.9, 0.89), (3.0, 2.0, 4.0))) is False


def test_missing_frames_leave_claims_out() -> None:
    assert "edgegossip.speedup" not in answers({"fig8": FRAMES["fig8"]})
    assert "edgegossip.accuracy_loss" not in answers({"fig5": trained("fig5")})
