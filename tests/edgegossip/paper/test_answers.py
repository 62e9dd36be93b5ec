"""Stored frames to answers: right claims, right settings, honest gaps; each answer can fail."""

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from tests.conftest import Smoke
from tests.expectations import Stored
from workbench.edgegossip.paper import accuracy, prediction
from workbench.edgegossip.paper.figures import FIGURES
from workbench.reproduction import recordings

KEPT = Stored("edgegossip", FIGURES)
STORED, answers, value = KEPT.frames, KEPT.answers, KEPT.value


@pytest.fixture(autouse=True, scope="module")
def _read(smoke: Smoke) -> None:
    KEPT.read(smoke)


def with_value(frame: pl.DataFrame, column: str, new: float, **where: object) -> pl.DataFrame:
    """A frame with one column changed in the rows that match."""
    return frame.with_columns(pl.when(**where).then(pl.lit(new)).otherwise(column).alias(column))


def trained(name: str, **top1: float) -> pl.DataFrame:
    """A smoke frame as if of three seeds, with accuracies by method."""
    frame = STORED[name].with_columns(
        top1=pl.col("method").replace_strict({"gosgd": 0.98, "edgegossip": 0.975} | top1)
    )
    return pl.concat([frame.with_columns(seed=pl.lit(seed, pl.Int64)) for seed in (1, 2, 3)])


def test_accuracy_waits_for_three_seeds() -> None:
    waiting = {claim: answer.not_run for claim, answer in answers(STORED).items() if answer.not_run}
    learnt = (
        *("accuracy_loss", "alg2.important", "alg2.literal", "fig3.histogram", "fig5.accuracy"),
        *("fig12.unbalance", "fig13.ratio", "models.alike"),
    )
    assert waiting == dict.fromkeys((f"edgegossip.{name}" for name in learnt), "takes 3 seeds")


def test_the_speed_up_is_the_mean_over_settings() -> None:
    frame = STORED["fig6"]
    assert value("speedup") == pytest.approx(sum(frame["speedup"]) / 12)
    assert value("speedup") == pytest.approx(2.7, abs=0.05)
    assert answers({"fig6": frame.with_columns(uplink_mbps=pl.lit(1000.0))}) == {}
    assert answers({"fig6": frame.with_columns(epochs=pl.lit(3))}) == {}


def test_what_is_lost_comes_with_its_error() -> None:
    frames = {"fig5": trained("fig5"), "fig6_accuracy": trained("fig6_accuracy")}
    found = answers(STORED | frames)["edgegossip.accuracy_loss"]
    assert found.ours == pytest.approx(0.5)
    assert found.detail == "+0.50 ± 0.00, 3 seeds, 6 settings, 240 samples of digits"
    assert found.caveat == ""
    one = {name: frame.filter(model="lenet5") for name, frame in frames.items()}
    assert answers(STORED | one)["edgegossip.accuracy_loss"].caveat == (
        "by lenet5 alone, in its own times"
    )


def techniques(quick: str = "", quick_s: float = 1.5) -> pl.DataFrame:
    """Times and accuracies of Fig. 3 that the paper expects, but for a technique that is quick."""
    slow = {"svd_gaussian_mixture", "pca_kmeans", "pca_lsh", "whole_svd_lsh"}
    return pl.DataFrame(
        [
            {"technique": name, "seed": seed, "points": 9, "images": 9, "features": 3072}
            | {"total_s": quick_s if name == quick else 11.0 if name in slow else 1.0}
            | {"top1": 0.5 if name == "histogram_kmeans" else 0.9}
            | {"train_samples": 1442, "dataset": "digits"}
            for name in STORED["fig3_times"]["technique"]
            for seed in (1, 2, 3)
        ]
    )


@pytest.mark.parametrize(
    ("histogram", "holds", "told"),
    [
        ((0.89, 0.88, 0.8), True, "by +4.33 ± 2.85 points"),  # the lowest in every seed
        ((0.9, 0.8, 0.8), True, "in 2 of 3 seeds"),  # further than the error
        ((0.92, 0.89, 0.88), False, "by +0.33 ± 1.20 (within noise) points"),
        ((0.95, 0.94, 0.8), False, "in 1 of 3 seeds"),
    ],
)
def test_figure_3_is_no_luck(histogram: tuple[float, ...], holds: bool, told: str) -> None:
    about = {"learner": "lenet5", "dataset": "digits", "train_samples": 9, "total_s": 1.0}
    accuracies = {"hash_kmeans": (0.9, 0.9, 0.9), "histogram_kmeans": histogram}
    fig3 = pl.DataFrame(
        [
            about | {"technique": name, "seed": seed, "top1": top1}
            for name, of_seeds in accuracies.items()
            for seed, top1 in enumerate(of_seeds)
        ]
    )
    found = answers({"fig3": fig3})["edgegossip.fig3.histogram"]
    assert found.ours is holds
    assert told in found.detail


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
                    "points": 700,
                    "images": 600,
                    "features": 784,
                    "dataset": "digits",
                    "divide_s": divide_share * total_s,
                    "reduce_s": (1 - divide_share) * total_s,
                    "total_s": total_s,
                }
            )
    return pl.DataFrame(rows)


def faster(**slow: object) -> pl.DataFrame:
    """Figure 5 with EdgeGossip a hundred times as fast, but where it is slow."""
    ours = pl.col("method") == "edgegossip"
    frame = trained("fig5")
    quick = frame.with_columns(at_s=pl.when(ours).then(pl.col("at_s") / 100).otherwise("at_s"))
    return with_value(quick, "at_s", 1e9, method="edgegossip", **slow) if slow else quick


def by_size(percent: pl.Expr) -> pl.DataFrame:
    """Figure 9 with these errors."""
    return STORED["fig9"].with_columns(followed_percent=percent)


def growing() -> pl.DataFrame:
    """Figure 6 with times in proportion to the platforms."""
    seconds = 10.0 * pl.col("platforms")
    return STORED["fig6"].with_columns(gosgd_s=seconds, edgegossip_s=seconds)


def shrinking(resource: str, workload: str) -> pl.DataFrame:
    """Figure 10 where a workload uses the less of a resource the larger its jobs are."""
    mean = pl.when(resource=resource, workload=workload).then(-pl.col("size_bytes"))
    return STORED["fig10"].with_columns(mean=mean.otherwise("mean").cast(pl.Float64))


def spreading(two_sd: pl.Expr) -> pl.DataFrame:
    """Usage that spreads by size as is said."""
    return STORED["fig10"].with_columns(two_sd=two_sd.cast(pl.Float64))


def overheads(mean_s: pl.Expr) -> pl.DataFrame:
    """Figure 11 with these seconds."""
    return STORED["fig11"].with_columns(mean_s=mean_s.cast(pl.Float64))


@pytest.mark.parametrize(
    ("claim", "frame", "holds"),
    [
        ("fig6.lenet_smallest", lambda: STORED["fig6"], True),
        (
            "fig6.lenet_smallest",
            lambda: with_value(STORED["fig6"], "speedup", 99.0, model="lenet5", platforms=12),
            False,
        ),
        ("fig5.accuracy", faster, True),
        ("fig5.accuracy", lambda: with_value(faster(), "top1", 0.9, method="edgegossip"), False),
        ("fig5.accuracy", lambda: faster(model="alexnet_cifar"), False),
        ("fig5.accuracy", lambda: faster(model="lenet5", seed=2), False),  # slower in one seed
        ("fig5.accuracy", lambda: faster().filter(model="lenet5"), None),  # LeNet-5 alone
        ("fig3_times.slow", techniques, True),
        ("fig3_times.slow", lambda: techniques("pca_lsh", 9.0), True),  # ten times in the mean
        ("fig3_times.slow", lambda: techniques("pca_lsh"), False),
        ("fig3_times.slow", lambda: techniques("pca_lsh", 0.9), False),
        ("fig3_times.histogram_time", techniques, True),
        (
            "fig3_times.histogram_time",
            lambda: with_value(techniques(), "total_s", 1.2, technique="histogram_kmeans"),
            False,
        ),
        ("fig3.histogram", techniques, True),
        (
            "fig3.histogram",
            lambda: with_value(techniques(), "top1", 0.4, technique="pca_lsh"),
            False,
        ),
        ("fig7.kmeans_dominates", lambda: generation(0.6, 0.1), True),
        ("fig7.kmeans_dominates", lambda: generation(0.6, -0.1), False),
        ("fig7.kmeans_dominates", lambda: generation(0.4, 0.1), False),
        ("fig7.isvd_dominates", lambda: generation(0.4, 0.1), True),
        ("fig7.isvd_dominates", lambda: generation(0.6, 0.1), False),
        ("fig7.short", lambda: generation(0.6, 0.1), True),
        ("fig7.short", lambda: with_value(generation(0.6, 0.1), "total_s", 40.0, ratio=5.0), False),
        ("fig8.inverse", lambda: STORED["fig8"], True),
        (
            "fig8.inverse",
            lambda: with_value(STORED["fig8"], "ranking_s", 9.0, reading="whole epoch", ratio=20.0),
            False,
        ),
        ("fig6.time_grows", lambda: STORED["fig6"], True),
        ("fig6.time_grows", growing, True),
        (
            "fig6.time_grows",
            lambda: with_value(growing(), "gosgd_s", 0.0, model="lenet5", platforms=12),
            False,
        ),
        ("fig6.slower_models", lambda: STORED["fig6"], False),
        (
            "fig6.slower_models",
            lambda: with_value(
                with_value(STORED["fig6"], "gosgd_s", 1e9, model="squeezenet_cifar"),
                *("edgegossip_s", 1e9),
                model="squeezenet_cifar",
            ),
            True,
        ),
        ("fig10.core", lambda: STORED["fig10"], True),
        ("fig10.core", lambda: shrinking("core", "wordcount"), False),
        ("fig10.sort_disk", lambda: STORED["fig10"], True),
        ("fig10.sort_disk", lambda: shrinking("disk", "wordcount"), True),
        ("fig10.sort_disk", lambda: shrinking("disk", "sort"), False),
        ("fig10.fluctuations", lambda: STORED["fig10"], True),
        ("fig10.fluctuations", lambda: spreading(pl.col("size_bytes")), True),
        ("fig10.fluctuations", lambda: spreading(1 / pl.col("size_bytes")), False),
        ("fig10.sort_intensive", lambda: STORED["fig10"], True),
        ("fig10.sort_intensive", lambda: shrinking("disk", "sort"), False),
        ("fig10.sort_fluctuates", lambda: STORED["fig10"], False),
        (
            "fig10.sort_fluctuates",
            lambda: with_value(STORED["fig10"], "two_sd", 9e9, workload="sort"),
            True,
        ),
        ("fig11.size", lambda: overheads(pl.col("size_bytes")), True),
        ("fig11.size", lambda: overheads(-pl.col("size_bytes")), False),
        ("fig11.sort", lambda: overheads(pl.col("workload") == "sort"), True),
        ("fig11.sort", lambda: overheads(pl.col("workload") != "sort"), False),
        ("fig9.trend", lambda: by_size(pl.col("size_bytes")), True),
        ("fig9.trend", lambda: by_size(1 / pl.col("size_bytes")), False),
    ],
)
def test_each_ordering_can_hold_and_fail(
    claim: str, frame: Callable[[], pl.DataFrame], holds: bool | None
) -> None:
    figure, _, name = claim.partition(".")
    found = answers({figure: frame()})
    assert found[f"edgegossip.{figure.removesuffix('_times')}.{name}"].ours is holds


def test_models_are_much_smaller_and_similarly_accurate() -> None:
    assert value("models.smaller") is True
    larger = with_value(STORED["models"], "parameters", 6_000_000, model="squeezenet_cifar")
    assert value("models.smaller", models=larger) is False
    assert value("models.alike", fig5=trained("fig5")) is True
    lower = with_value(trained("fig5"), "top1", 0.8, model="squeezenet_cifar")
    assert value("models.alike", fig5=lower) is False
    alone = trained("fig5").filter(model="lenet5")
    assert answers({"fig5": alone})["edgegossip.models.alike"].not_run


def test_readings_differ_by_less_than_their_noise() -> None:
    """What the cause of Fig. 11's miss says, of the recorded samples."""
    readings = pl.read_csv(prediction.RECORDED).filter(pl.col("size_bytes") > 0)
    readings = readings.with_columns(both_s=pl.col("sample_s") + pl.col("report_s"))
    one, other = (part["both_s"].to_numpy() for _, part in readings.group_by("workload"))
    error = np.sqrt(one.var(ddof=1) / len(one) + other.var(ddof=1) / len(other))
    assert abs(one.mean() - other.mean()) < error
    (low, high), (least, most) = (np.quantile(each, (0.25, 0.75)) for each in (one, other))
    assert low < most
    assert least < high
    assert prediction.FIG11.causes["edgegossip.fig11.sort"].kind == "noise"


def test_jobs_of_sort_end_in_time_and_the_largest_of_wordcount_do_not() -> None:
    """What the cause of Fig. 10's miss says: twice the input is twice the bytes, or no more."""
    *_, half, largest = prediction.SIZES_BYTES
    disk = pl.col("disk_bytes_per_s").mean()
    by_job = pl.read_csv(prediction.RECORDED).group_by("workload", "size_bytes").agg(disk)
    rate = {(job, size): mean for job, size, mean in by_job.iter_rows()}
    assert rate["sort", largest] == pytest.approx(2 * rate["sort", half], rel=0.01)
    assert rate["wordcount", largest] == pytest.approx(rate["wordcount", half], rel=0.01)
    why = prediction.FIG10.causes["edgegossip.fig10.sort_fluctuates"].why
    assert "ends before the next begins" in why


def test_figure_8_is_read_as_the_paper_defines_it() -> None:
    frame = STORED["fig8"].filter(model="alexnet_cifar")
    total_s = pl.col("ranking_s") + pl.col("learning_s") + pl.col("waiting_s")
    whole = frame.filter(reading="whole epoch").select(100 * pl.col("ranking_s") / total_s)
    assert value("fig8.alexnet") == pytest.approx(whole.to_series().mean())
    at_work = np.mean(frame.filter(reading="at work")["percent"].to_numpy())
    assert answers(STORED)["edgegossip.fig8.alexnet"].detail.endswith(f"at work: {at_work:.1f}")


def test_figures_9_and_11_have_means_and_say_what_is_blind() -> None:
    frame = STORED["fig9"]
    assert value("fig9.error") == pytest.approx(frame["followed_percent"].mean())
    detail = answers(STORED)["edgegossip.fig9.error"].detail
    for name in ("predicted_percent", "naive_percent", "window_percent"):
        assert f"{sum(frame[name]) / len(frame):.1f} %" in detail
    assert not answers(STORED)["edgegossip.fig9.error"].timed
    measured = frame.with_columns(source=pl.lit("measured"))
    assert answers({"fig9": measured})["edgegossip.fig9.error"].timed
    late = with_value(STORED["fig11"], "mean_s", 0.5, part="reporting")
    assert value("fig11.overhead", fig11=late) == 0.5
    one_late = late.with_columns(
        mean_s=pl.when(pl.int_range(pl.len()) == pl.len() - 1).then(0.5).otherwise(0.001)
    )
    assert value("fig11.overhead", fig11=one_late) == pytest.approx(0.001 + 0.499 / 26)


SEEDS = (1, 2, 3)


def unequal(
    edge_s: tuple[float, ...] = (10.0, 10.5, 11.0),
    lost: tuple[float, ...] = (0.0, 0.004, 0.009),
    *,
    seed_2_s: tuple[float, ...] = (10.0, 30.0, 50.0),
) -> pl.DataFrame:
    """Figure 12: times and losses at 1, 3 and 5; the second seed has times of GoSGD of its own."""
    rows: list[dict[str, object]] = []
    for at, imbalance in enumerate((1.0, 3.0, 5.0)):
        for seed in SEEDS:
            about = {"model": "lenet5", "learner": "lenet5", "dataset": "digits", "epoch": 5}
            about |= {"train_samples": 9, "platforms": 4, "imbalance": imbalance, "seed": seed}
            gosgd_s = seed_2_s[at] if seed == 2 else (10.0, 30.0, 50.0)[at]
            rows.append(about | {"method": "gosgd", "at_s": gosgd_s, "top1": 0.9})
            luck = 0.001 * (seed - 2)  # the same at each imbalance
            ours = {"method": "edgegossip", "at_s": edge_s[at], "top1": 0.9 - lost[at] + luck}
            rows.append(about | ours)
    return pl.DataFrame(rows).with_columns(reason=pl.lit(None, pl.String))


@pytest.mark.parametrize(
    ("frame", "holds"),
    [
        (unequal(), True),
        (unequal((10.0, 11.4, 11.4)), True),
        (unequal((10.0, 11.6, 11.0)), False),  # from 1 to 3
        (unequal((10.0, 14.0, 15.0)), False),
        (unequal((11.6, 11.0, 10.0)), False),  # shorter is not similar, either
        (unequal(lost=(0.004, 0.009, 0.0)), False),
        (unequal(lost=(0.004, 0.004, 0.009)), False),  # not larger at 3
        (unequal(lost=(-0.004, 0.004, 0.008)), False),  # 1.2 points are not slight
        (unequal(seed_2_s=(10.0, 30.0, 29.0)), False),  # GoSGD's grows on average alone
    ],
)
def test_figure_12_can_hold_and_fail(frame: pl.DataFrame, holds: bool) -> None:
    assert value("fig12.unbalance", fig12=frame) is holds


def by_ratio(top1: tuple[float, ...], apart: tuple[float, ...] = (0.0, 0.0, 0.0)) -> pl.DataFrame:
    """Figure 13 at 5, 10 and 20; `apart` is added to the accuracy at 20, seed by seed."""
    frame = trained("fig13")
    means = pl.col("ratio").replace_strict(dict(zip((5, 10, 20), top1, strict=True)), default=None)
    more = pl.col("seed").replace_strict(dict(zip(SEEDS, apart, strict=True)))
    accuracy_at = means + pl.when(ratio=20.0).then(more).otherwise(0.0)
    return frame.with_columns(
        top1=pl.when(method="edgegossip").then(accuracy_at).otherwise("top1"),
        at_s=pl.col("ratio").fill_null(1.0),  # the time in all is of no matter
    )


@pytest.mark.parametrize(
    ("top1", "apart", "ranking_s", "holds"),
    [
        ((0.9, 0.9, 0.892), (0, 0, 0), (3, 2, 1), True),
        ((0.9, 0.9, 0.9), (0.003, -0.001, -0.002), (3, 2, 1), True),  # a tie: not more
        ((0.9, 0.9, 0.91), (0, 0, 0), (3, 2, 1), False),
        ((0.9, 0.9, 0.88), (0, 0, 0), (3, 2, 1), False),  # 2 points are not slight
        ((0.9, 0.9, 0.892), (0, 0, 0), (3, 2, 4), False),
        ((0.9, 0.9, 0.892), (0, 0, 0), (3, 3, 1), False),
    ],
)
def test_figure_13_can_hold_and_fail(
    top1: tuple[float, ...],
    apart: tuple[float, ...],
    ranking_s: tuple[float, ...],
    holds: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = dict(zip((5.0, 10.0, 20.0), ranking_s, strict=True))
    monkeypatch.setattr(accuracy, "_ranking_s", lambda ratio, *_: seconds[ratio])
    assert value("fig13.ratio", fig13=by_ratio(top1, apart)) is holds


def recorded(name: str) -> pl.DataFrame:
    found = recordings.load("edgegossip", name)
    assert found is not None
    return found.frame


def test_readings_of_the_recordings() -> None:
    """What each ambiguous statement comes to, and by which reading it is answered."""
    slow = answers({"fig3_times": recorded("fig3_times")})["edgegossip.fig3.slow"]
    assert slow.ours is True
    assert slow.detail.startswith(
        "in the mean 11.8 times the others' mean; each 11.7, 5.1, 4.8, 9.3 times the slowest"
    )
    error = answers(STORED)["edgegossip.fig9.error"]
    assert error.ours == pytest.approx(3.4, abs=0.05)
    assert "4.6 % without following t_0, 8.8 % blind to contention" in error.detail
    share = answers(STORED)["edgegossip.fig13.ranking_share"]
    whole = STORED["fig8"].filter(model="lenet5", reading="whole epoch").sort("ratio")["percent"]
    assert share.ours == whole[2]
    assert share.detail == f"at ratio 20; {whole[0]:.1f} at 5, {whole[1]:.1f} at 10, cost model"


def test_ranked_points_are_slower_than_random_ones_as_recorded() -> None:
    found = answers({"strategies": recorded("strategies")})
    important = found["edgegossip.alg2.important"]
    assert important.ours is False
    assert important.detail.startswith("3.4 to 7.5 times as long as random points: ")
    assert found["edgegossip.alg2.literal"].ours is False


@pytest.mark.parametrize(
    ("claim", "column", "new", "where", "holds"),
    [
        ("literal", "top1", 0.1, {"order": "shuffled"}, True),
        ("literal", "top1", 0.1, {"order": "ranked"}, False),
        ("important", "at_s", 9.0, {"strategy": "random_points"}, True),
        ("important", "at_s", 8.0, {"strategy": "random_points"}, False),
    ],
)
def test_ranking_is_judged_by_its_own_order_and_by_random_points(
    claim: str, column: str, new: float, where: dict[str, object], holds: bool
) -> None:
    alike = STORED["strategies"].with_columns(top1=0.99, at_s=10.0)
    frame = pl.concat([alike.with_columns(seed=pl.lit(seed, pl.Int64)) for seed in SEEDS])
    frame = with_value(frame, column, new, **where)
    assert answers({"strategies": frame})[f"edgegossip.alg2.{claim}"].ours is holds


def test_parameters_are_the_zoos() -> None:
    assert value("models.lenet5") == 61_706
    assert value("models.alexnet") == 58_322_314
