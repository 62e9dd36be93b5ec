"""Frames behind the figures: what they hold, and what must be so in each; every chart prints."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.conftest import Smoke
from tests.expectations import assert_tells_every_step, resized, stored_frames
from tests.long import usually
from workbench import training
from workbench.datasets import DatasetError, imagenet8
from workbench.datasets.published import FOLDER_VARIABLE
from workbench.edgegossip.aggregation.reducers import single_svd
from workbench.edgegossip.algorithms import STRATEGIES
from workbench.edgegossip.paper import accuracy, aggregating, cases, times, trainings
from workbench.edgegossip.paper.cases import Case, source_of
from workbench.edgegossip.paper.testbed import MODELS
from workbench.edgegossip.paper.trainings import final
from workbench.reproduction import systems
from workbench.reproduction.claims import paper_value, tolerance
from workbench.reproduction.scales import Scaled
from workbench.reproduction.trainings import TRAINED

LEARNT = ("fig5", "fig6_accuracy", "fig12", "fig13", "strategies")
Frames = dict[str, pl.DataFrame]


@pytest.fixture(scope="module")
def stored(smoke: Smoke) -> Frames:
    return stored_frames(smoke, "edgegossip")


@pytest.fixture
def forgotten() -> Iterator[None]:
    """No training was made before, and none is left to other tests."""
    TRAINED.clear()
    yield
    TRAINED.clear()


@pytest.fixture
def small(forgotten: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many trainings and epochs, on few samples: ten platforms have an aggregated point each."""
    learning = cases.LEARNING.smoke["lenet5"]._replace(samples=100, test_samples=10)
    monkeypatch.setattr(cases, "LEARNING", Scaled(*[dict.fromkeys(MODELS, learning)] * 3))


def make(figure: str) -> pl.DataFrame:
    return systems.figures("edgegossip")[figure].frame("smoke")


def make_small(figure: str) -> pl.DataFrame:
    found = systems.figures("edgegossip")[figure]
    return resized(found, **{name: 100 for name in found.sizes if name != "passes"}).frame("smoke")


@pytest.mark.parametrize("figure", LEARNT)
def test_each_training_has_a_plain_one_beside_it(figure: str, stored: Frames) -> None:
    ours = stored[figure].filter(method="edgegossip")
    last = final(stored[figure])
    assert len(last) == len(ours.filter(pl.col("epoch") == pl.col("epoch").max()))
    assert last["gosgd_top1"].null_count() == 0


def test_figure_5_has_each_model_and_techniques_that_take_their_own_times(stored: Frames) -> None:
    frame = stored["fig5"].filter(method="edgegossip", epoch=1)
    assert set(frame["model"]) == set(MODELS)
    for model in MODELS:
        of_model = frame.filter(model=model)
        techniques = 3 if model in accuracy.ALL_TECHNIQUES.smoke else 1
        assert of_model["technique"].n_unique() == of_model["at_s"].n_unique() == techniques


def test_a_training_is_the_same_in_each_figure(stored: Frames) -> None:
    """Ratio 10 of Figure 13 is Figure 5's LeNet-5."""
    keys = ["epoch", "at_s", "top1", "kept"]
    one = stored["fig5"].filter(model="lenet5", technique="svd_kmeans", method="edgegossip")
    other = stored["fig13"].filter(ratio=10.0, method="edgegossip")
    assert one.select(keys).equals(other.select(keys))


@pytest.mark.usefixtures("forgotten")
def test_a_training_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[trainings.Training] = []

    def one_curve(*, training: trainings.Training) -> pl.DataFrame:
        made.append(training)
        return pl.DataFrame({"epoch": [1], "at_s": [1.0], "top1": [0.5], "kept": [1.0]})

    monkeypatch.setattr(trainings, "one_curve", one_curve)
    assert_tells_every_step(lambda: make("fig13"), monkeypatch)
    assert len(made) == 4  # GoSGD and three ratios
    assert_tells_every_step(lambda: make("fig12"), monkeypatch)
    assert len(made) == 4 + 3  # GoSGD learns the same whatever the times


@pytest.mark.usefixtures("small")
def test_figure_3_teaches_the_aggregated_points_alone_and_tells_every_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learnt, step = [], training.gradient_step

    def counted(flat: Any, x: Any, *given: Any, **options: Any) -> Any:
        learnt.append(len(x))
        return step(flat, x, *given, **options)

    monkeypatch.setattr(training, "gradient_step", counted)
    frames = list[pl.DataFrame]()
    assert_tells_every_step(lambda: frames.append(make_small("fig3")), monkeypatch)
    (frame,) = frames
    assert sum(learnt) == aggregating.FIG3.sizes["passes"].smoke * sum(frame["aggregated"])
    assert (frame["aggregated"] <= frame["train_samples"] / 5).all()


def test_strategies_are_all_there(stored: Frames) -> None:
    found = final(stored["strategies"])
    assert found.filter(order="shuffled")["strategy"].to_list() == list(STRATEGIES)
    assert found.filter(order="ranked")["strategy"].to_list() == ["accuracy_aware"]


def test_on_larger_deployments_alexnet_gains_more_and_lenet_less(stored: Frames) -> None:
    """What the notebook says beside Fig. 6."""
    frame = stored["fig6"].sort("platforms")
    for model, gains in (("alexnet_cifar", 1), ("lenet5", -1)):
        speedups = frame.filter(model=model)["speedup"].to_list()
        assert all(gains * (larger - speedups[0]) > 0 for larger in speedups[1:])


def test_the_balancer_that_counts_ranking_keeps_its_pace(stored: Frames) -> None:
    frame = stored["fig12_times"].sort("imbalance")
    grown = {name: frame[name][-1] / frame[name][0] for name in frame.columns[1:]}
    similar = 1 + tolerance("x", 1.0)
    assert grown["with_ranking_s"] <= similar < grown["literal_s"] < grown["gosgd_s"]


def imagenet(folder: Path) -> Path:
    """Small files in the layout of ImageNet 8x8: 300 images of ten classes."""
    rng = np.random.default_rng(0)
    for name in (*imagenet8.TRAIN_FILES, imagenet8.TEST_FILE):
        images = rng.integers(0, 256, (30, 192), dtype=np.uint8)
        np.savez(folder / name, data=images, labels=rng.permutation(30) % 10 + 1)
    return folder


@pytest.mark.usefixtures("small")
def test_figure_5_learns_imagenet_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    (tmp_path / imagenet8.LAYOUT).mkdir()
    imagenet(tmp_path / imagenet8.LAYOUT)
    frame = accuracy.FIG5.frame("smoke", dataset="imagenet8", model="alexnet_cifar")
    assert set(frame["dataset"]) == {"imagenet8"}
    assert set(frame["technique"]) == {None, "svd_kmeans"}
    assert frame["reason"].null_count() == len(frame)


def test_imagenet_is_learnt_from_whole_at_the_papers_scale() -> None:
    whole = cases.learning_at("paper", Case("alexnet_cifar"), "imagenet8")
    assert (whole.learner, whole.samples, whole.points) == ("alexnet_cifar", None, 1_281_167)


def test_imagenet_that_is_missing_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(DatasetError, match=r"register at https://image-net\.org"):
        accuracy.FIG5.frame("paper", dataset="imagenet8", model="alexnet_cifar")


def test_means_of_a_class_fill_up_what_is_timed() -> None:
    _, images, x, y = aggregating._images("digits", "lenet5", 3000)
    assert len(x) == len(y) == 3000 > images
    np.testing.assert_array_equal(y[images:], y[: 3000 - images])
    own = np.flatnonzero(y[:images] == y[0])
    np.testing.assert_array_equal(x[images], (x[own[0]] + x[own[-1]]) / 2)
    reduced = single_svd(x).round(4)  # a shifted image has the singular values of the image
    assert len(np.unique(reduced, axis=0)) == len(np.unique(x, axis=0)) == 3000


def test_the_first_reading_of_section_4_3_alone_is_near(stored: Frames) -> None:
    """What the notebook says of the choice among them."""
    means = stored["fig8"].group_by("model", "reading").agg(pl.col("percent").mean())
    near = {
        reading: all(
            abs(means.filter(model=model, reading=reading)["percent"].item() - paper)
            <= tolerance("percent", paper)
            for model, paper in (
                ("lenet5", paper_value("edgegossip.fig8.lenet5")),
                ("alexnet_cifar", paper_value("edgegossip.fig8.alexnet")),
            )
        )
        for reading in times.READINGS
    }
    assert [name for name, is_near in near.items() if is_near] == ["whole epoch"]


def test_a_faster_network_never_makes_training_longer() -> None:
    slow, fast = (times.training_times(uplink_mbps, epochs=2) for uplink_mbps in (1000.0, 10_000.0))
    assert (slow["gosgd_s"] > fast["gosgd_s"]).all()
    assert (slow["exchange_s"] > fast["exchange_s"]).all()


def test_what_was_lost_is_a_mean_over_seeds_with_its_spread() -> None:
    about = {"model": "m", "learner": "l", "platforms": 4, "imbalance": 1.0, "kept": 0.5}
    frame = pl.DataFrame(
        [
            about
            | {"seed": seed, "epoch": epoch}
            | {"method": method, "at_s": epoch / 3 * (10.0 if method == "gosgd" else 5.0)}
            | {"top1": top1 if epoch == 3 else 0.5 - epoch / 10}
            for seed, lost in ((1, 0.01), (2, 0.03))
            for epoch in (2, 3, 1)  # the last one counts, in whatever order
            for method, top1 in (("gosgd", 0.9), ("edgegossip", 0.9 - lost))
        ]
    )
    row = trainings.table(frame, "model").row(0, named=True)
    assert row["seeds"] == 2
    assert row["gosgd_percent"] == pytest.approx(90)
    assert final(frame)["at_s"].to_list() == [5.0, 5.0]
    assert row["lost_points"] == pytest.approx(2.0)
    assert row["spread_points"] == pytest.approx(2**0.5)
    assert row["speedup"] == 2


def test_the_papers_own_data_or_what_was_asked_for_and_nothing_falls_back(tmp_path: Path) -> None:
    assert source_of("paper", "lenet5") == "mnist"
    assert source_of("paper", "squeezenet_cifar") == "cifar10"
    assert source_of("paper", "lenet5", "digits") == "digits"
    with pytest.raises(DatasetError):
        accuracy.FIG13.frame("smoke", dataset=str(tmp_path / "missing.npz"))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", usually(["fig7"], ["fig5", "fig7", "dropouts"]))
def test_what_may_take_long_tells_every_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_tells_every_step(lambda: make_small(name), monkeypatch)


def test_data_are_dealt_out_again_to_every_four_platforms() -> None:
    labels = np.repeat(np.arange(10), 11)
    found = cases.shards(labels, 10, seed=1)
    for block in (found[:4], found[4:8]):
        assert sorted(np.concatenate(block)) == list(range(110))
    assert not np.array_equal(found[0], found[4])
    assert len(found[8:]) == 2
    assert not set(found[8]) & set(found[9])


@pytest.mark.parametrize("platforms", [0, 2.5])
def test_platforms_that_are_not_a_number_are_refused(platforms: Any) -> None:
    with pytest.raises(ValueError, match=r"platforms is .* whole number of at least 1"):
        accuracy.FIG6_ACCURACY.frame("smoke", platforms=platforms)
