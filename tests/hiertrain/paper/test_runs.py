"""Runs: what the programs take beside the cost model, what is measured, what is learnt."""

from __future__ import annotations

import polars as pl
import pytest

from tests.conftest import Smoke
from tests.expectations import stored_frames
from workbench.hiertrain.algorithms import FAST
from workbench.hiertrain.paper import runs
from workbench.hiertrain.paper.runs import FIG6_MEASURED, MEASURED, draw_measured, overtaken
from workbench.hiertrain.paper.testbed import BATCH_SIZE, EDGE_CLOUD_MBPS, MODELS, PAPER
from workbench.reproduction import recordings
from workbench.reproduction.claims import Answer
from workbench.reproduction.figure import answers_of

Frames = dict[str, pl.DataFrame]
CLAIM = "hiertrain.fig6.validity"


@pytest.fixture(scope="module")
def stored(smoke: Smoke) -> Frames:
    return stored_frames(smoke, "hiertrain")


def test_with_barriers_the_simulation_is_the_cost_model_and_without_it_is_faster(
    stored: Frames,
) -> None:
    """Fig. 6: the cost model adds up phases, as the procedure of Sec. IV-B has them."""
    by_barriers = {
        barriers: stored["fig6"].filter(sharing="none", barriers=barriers)["difference_percent"]
        for barriers in (True, False)
    }
    assert by_barriers[True].to_list() == pytest.approx([0.0] * len(EDGE_CLOUD_MBPS), abs=1e-9)
    assert (by_barriers[False] < 0).all()


def test_the_simulation_never_takes_longer_than_the_model_where_links_are_apart(
    stored: Frames,
) -> None:
    frame = stored["sharing"]
    assert len(frame) == len(MODELS) * len(EDGE_CLOUD_MBPS) * len(FAST) * 2
    apart = frame.filter(sharing="none")
    assert (apart["difference_percent"] <= 1e-6).all()
    one_at_a_time = frame.filter(pl.col("planner") != "hiertrain")
    assert one_at_a_time["difference_percent"].abs().max() < 1e-6  # type: ignore[operator]
    index = ["model", "edge_cloud_mbps", "planner"]
    wide = frame.pivot(on="sharing", index=index, values="simulated_s")
    assert (wide["interfaces"] >= wide["none"] * (1 - 1e-9)).all()


def test_overtaken_counts_points_with_shared_interfaces_only() -> None:
    rows = [
        ("alexnet_tiny", mbps, planner, shared, seconds)
        for mbps, ours in ((1.5, 3.0), (2.0, 1.0))
        for planner, seconds in (("hiertrain", ours), ("jalad", 2.0))
        for shared in ("interfaces", "none")
    ]
    schema = ["model", "edge_cloud_mbps", "planner", "sharing", "simulated_s"]
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    assert overtaken(frame).endswith("faster at 1 of 2 points")


def measured(*rows: tuple[float, float, bool], **setting: object) -> pl.DataFrame:
    """Runs that were predicted to take 10 s: Mbit/s, seconds, disturbed."""
    fixed = {"model": MODELS["alexnet"], **PAPER, "repetition": 0, **setting}
    return pl.DataFrame(
        [
            fixed
            | {"edge_cloud_mbps": mbps, "predicted_s": 10.0, "overlapping_s": 9.0}
            | {"measured_s": seconds, "difference_percent": 10 * seconds - 100}
            | {"disturbed": disturbed}
            for mbps, seconds, disturbed in rows
        ],
        schema=MEASURED,
    )


def answer(frame: pl.DataFrame) -> Answer:
    return answers_of([FIG6_MEASURED], {"fig6_measured": frame}).by_claim[CLAIM]


def test_the_farthest_median_counts_either_way() -> None:
    low = measured((1.5, 9.9, False), (3.0, 8.0, False), (3.0, 8.2, False), (3.0, 20.0, False))
    assert answer(low).ours == pytest.approx(-18.0)
    assert answer(low).timed
    high = measured((1.5, 9.9, False), (3.0, 13.0, False))
    assert answer(high).ours == pytest.approx(30.0)


def test_disturbed_runs_count_only_where_there_are_no_others() -> None:
    mixed = answer(measured((3.0, 9.0, False), (3.0, 30.0, True)))
    assert mixed.ours == pytest.approx(-10.0)
    alone = answer(measured((3.0, 30.0, True)))
    assert alone.ours == pytest.approx(200.0)
    assert "disturbed" in alone.detail


@pytest.mark.parametrize("other", [{"batch_size": BATCH_SIZE // 2}, {"device_edge_mbps": 10.0}])
def test_another_setting_answers_nothing(other: dict[str, object]) -> None:
    frames = {"fig6_measured": measured((3.0, 9.0, False), **other)}
    assert answers_of([FIG6_MEASURED], frames).by_claim == {}


def test_the_chart_says_how_far_runs_are_off() -> None:
    frame = measured((1.5, 9.5, False), (3.0, 9.0, False), (5.0, 30.0, True))
    title = str(draw_measured(frame).to_dict()["title"])
    assert "measured on one machine" in title
    assert "2 of 3 runs" in title
    assert "medians at most -10.0 % from the cost model" in title


def test_all_planners_learn_the_same_but_not_as_fast(stored: Frames) -> None:
    frame = stored["accuracy"]
    assert set(frame["planner"]) == set(FAST)
    for _, part in frame.group_by("epoch"):
        assert part["top1"].max() - part["top1"].min() < 0.02  # type: ignore[operator]
    at_s = dict(frame.select("planner", "at_s").iter_rows())
    assert min(at_s, key=lambda name: at_s[name]) == "hiertrain"


def test_training_repeats_with_the_seed_and_changes_with_it(stored: Frames) -> None:
    again, other = (runs.ACCURACY.frame("smoke", seed=seed) for seed in (1, 2))
    assert again.equals(stored["accuracy"])
    assert not again["loss"].equals(other["loss"])


def test_what_diverges_is_a_row_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "LEARNING_RATE", 1e6)
    frame = runs.ACCURACY.frame("smoke")
    assert frame["reason"].str.contains("training diverged").all()
    assert len(frame) == len(FAST)


def test_what_is_recorded_differs_in_time_and_by_chance_alone() -> None:
    recording = recordings.load("hiertrain", "accuracy")
    assert recording is not None
    ends_s = recording.frame.filter(epoch=50).group_by("planner").agg(pl.col("at_s").mean())
    assert dict(ends_s.iter_rows())["hiertrain"] < 0.7 * dict(ends_s.iter_rows())["all_edge"]
    late = recording.frame.filter(pl.col("epoch") > 40).pivot(
        "planner", index="seed", values="top1", aggregate_function="mean"
    )
    alone = late.drop("seed", "hiertrain")
    assert all((column == alone["all_edge"]).all() for column in alone)
    lower = late["hiertrain"] < late["all_edge"]
    assert lower.any()  # as rounding has it
    assert not lower.all()
