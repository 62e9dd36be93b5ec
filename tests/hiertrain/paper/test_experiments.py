"""Frames behind the figures: what they hold, and what must be so in each."""

import itertools
from dataclasses import replace

import polars as pl
import pytest
from workbench.hiertrain.paper.iteration_time import (
    FIG7,
    RIVALS,
    by_bandwidth,
    draw_planners,
    iterations,
)
from workbench.hiertrain.paper.simulated import overtaken

from tests.conftest import Smoke
from tests.expectations import stored_frames
from workbench import figures
from workbench.hiertrain import PLANNERS, iteration
from workbench.hiertrain.paper import calibration, constants, learning, planning_time
from workbench.hiertrain.paper.testbed import (
    EDGE_CLOUD_MBPS,
    EXPLANATION,
    MODELS,
    Constants,
    Testbed,
)
from workbench.reproduction import recordings
from workbench.reproduction.claims import verdicts

Frames = dict[str, pl.DataFrame]


@pytest.fixture(scope="module")
def stored(smoke: Smoke) -> Frames:
    return stored_frames(smoke, "hiertrain")


def test_a_sweep_is_the_cost_model(stored: Frames) -> None:
    frame = stored["fig9"]
    assert len(frame) == len(EDGE_CLOUD_MBPS) * len(RIVALS)
    row = frame.filter(planner="jalad", edge_cloud_mbps=2.0).row(0, named=True)
    testbed = Testbed(Constants.load(), edge_cloud_mbps=2.0)
    problem = testbed.problem(MODELS["alexnet"])
    policy = PLANNERS["jalad"](problem)
    assert row["total_s"] == iteration(problem, policy).total_s
    assert row["policy"] == str(policy)
    parts = pl.sum_horizontal("forward_s", "backward_s", "update_s")
    assert frame.filter((parts - pl.col("total_s")).abs() > 1e-9).is_empty()


@pytest.mark.parametrize("model", MODELS)
def test_more_bandwidth_slows_nobody(model: str) -> None:
    frame = iterations(MODELS[model], tuple(PLANNERS)).sort("edge_cloud_mbps")
    for _, part in frame.group_by("planner"):
        assert (part["total_s"].diff().drop_nulls() <= 1e-9).all()


def test_what_is_recorded_differs_in_time_and_by_chance_alone() -> None:
    found = recordings.load("hiertrain", "accuracy")
    assert found is not None
    ends_s = found.frame.filter(epoch=50).group_by("planner").agg(pl.col("at_s").mean())
    assert dict(ends_s.iter_rows())["hiertrain"] < 0.7 * dict(ends_s.iter_rows())["all_edge"]
    late = found.frame.filter(pl.col("epoch") > 40).pivot(
        "planner", index="seed", values="top1", aggregate_function="mean"
    )
    alone = late.drop("seed", "hiertrain")
    assert all((column == alone["all_edge"]).all() for column in alone)
    lower = late["hiertrain"] < late["all_edge"]
    assert lower.any()  # as rounding has it
    assert not lower.all()


def test_more_cores_slow_nobody(stored: Frames) -> None:
    frame = stored["fig11"]
    assert frame.filter(edge_cores=1)["gain_percent"].is_null().all()
    assert (frame.filter(pl.col("edge_cores") > 1)["gain_percent"] >= -1e-9).all()


def test_more_devices_at_the_edge_help_nobody(stored: Frames) -> None:
    alone, four = stored["fig7"], FIG7.frame(devices=4)
    assert (four["total_s"] >= alone["total_s"] * (1 - 1e-9)).all()


def test_gains_by_hand(stored: Frames) -> None:
    frame = stored["fig11"].filter(edge_cloud_mbps=1.5).sort("edge_cores")
    seconds = frame["total_s"].to_list()
    expected = [100 * (1 - b / a) for a, b in itertools.pairwise(seconds)]
    assert frame["gain_percent"].to_list()[1:] == pytest.approx(expected)


def test_the_simulation_never_takes_longer_than_the_model_where_links_are_apart(
    stored: Frames,
) -> None:
    frame = stored["sharing"]
    assert len(frame) == len(MODELS) * len(EDGE_CLOUD_MBPS) * len(PLANNERS) * 2
    apart = frame.filter(sharing="none")
    assert (apart["difference_percent"] <= 1e-6).all()
    one_at_a_time = frame.filter(pl.col("planner") != "hiertrain")
    assert one_at_a_time["difference_percent"].abs().max() < 1e-6  # type: ignore[operator]
    wide = frame.pivot(on="sharing", index=["model", "edge_cloud_mbps", "planner"],
                       values="simulated_s")  # fmt: skip
    assert (wide["interfaces"] >= wide["none"] * (1 - 1e-9)).all()


def test_table_2_times_every_model(stored: Frames) -> None:
    frame = stored["table2"]
    assert frame["model"].to_list() == list(planning_time.TIMED)
    assert frame["paper_ms"].to_list() == [520, 1480, 3000, 4000, 5300, 12_000]
    assert (frame["median_ms"] <= frame["worst_ms"]).all()
    assert (frame["median_ms"] > 0).all()


def test_explanations_judge_every_claim(stored: Frames) -> None:
    frame = stored["explanations"]
    assert len(frame) == len(calibration.EXPLANATIONS) * len(calibration.CLAIMS)
    numbers = frame.filter(pl.col("ours").is_not_null())
    assert set(numbers["claim"]) == set(calibration.SPEEDUPS)
    scores = constants.explanation_scores(frame)
    assert scores["explanation"].to_list() == list(calibration.EXPLANATIONS)
    assert (scores["fit_claims"] + scores["predicted_claims"] == len(calibration.CLAIMS)).all()
    assert (scores["mean_factor"] >= 1).all()


def test_scores_by_hand() -> None:
    rows = [
        ("one", "fit", 2.0, 4.0, "trend"),
        ("one", "fit", 2.0, 1.0, "near"),
        ("one", "predicted", None, None, "holds"),
        ("one", "predicted", None, None, "not reproduced"),
    ]
    frame = pl.DataFrame(
        rows, schema=["explanation", "role", "paper", "ours", "verdict"], orient="row"
    )
    (row,) = constants.explanation_scores(frame).iter_rows(named=True)
    assert row == {
        "explanation": "one",
        "constants": None,
        "fit_met": 1,
        "fit_claims": 2,
        "predicted_met": 1,
        "predicted_claims": 2,
        "met": 2,
        "trend": 1,
        "mean_factor": pytest.approx(2.0),
    }


def test_sensitivity_is_the_count_of_claims(stored: Frames) -> None:
    frame = stored["sensitivity"]
    weighed, constants = calibration.EXPLANATIONS[EXPLANATION], Constants.load()
    assert frame["constant"].unique(maintain_order=True).to_list() == list(weighed.ranges)
    (row,) = frame.filter(constant="edge_core_gflops", shift_percent=-10).rows(named=True)
    shifted = replace(constants, edge_core_gflops=0.9 * constants.edge_core_gflops)
    judged = list(verdicts("hiertrain", weighed.answers(shifted)).values())
    assert row["met"] == judged.count("near") + judged.count("holds")
    assert row["trend"] == judged.count("trend")
    assert (row["claims"], row["fitted"]) == (len(judged), constants.edge_core_gflops)


def test_two_percent_do_not_change_what_is_met(stored: Frames) -> None:
    """The fit stands on a plateau; that it does not lean on three digits is what it is worth."""
    frame = stored["sensitivity"].filter(pl.col("shift_percent").abs() <= 2)
    assert frame["met"].n_unique() == 1


def test_what_the_contradictions_say_of_the_model_is_so(stored: Frames) -> None:
    """All-Cloud's ratios are within what they allow, whatever the constants."""
    allowed = stored["contradictions"]["allowed"].to_list()
    for name in (EXPLANATION, "speedups"):
        testbed = Testbed(Constants.load(name))
        for model in MODELS:
            frame = by_bandwidth(testbed, MODELS[model])
            seconds = frame.pivot(on="planner", index="edge_cloud_mbps", values="total_s")
            low, first = (seconds.filter(edge_cloud_mbps=mbps) for mbps in (1.5, 2.5))
            assert low["all_cloud"][0] / first["all_cloud"][0] <= allowed[0]
            assert low["all_cloud"][0] / low["jalad"][0] <= allowed[1]
            assert low["all_cloud"][0] / low["all_edge"][0] <= allowed[2]


def test_all_planners_learn_the_same_but_not_as_fast(stored: Frames) -> None:
    frame = stored["accuracy"]
    assert set(frame["planner"]) == set(PLANNERS)
    for _, part in frame.group_by("epoch"):
        assert part["top1"].max() - part["top1"].min() < 0.02  # type: ignore[operator]
    at_s = dict(frame.select("planner", "at_s").iter_rows())
    assert min(at_s, key=lambda name: at_s[name]) == "hiertrain"


def test_fewer_bits_are_faster_and_whole_gradients_slower(stored: Frames) -> None:
    frame = stored["jalad_bits"].filter(epoch=1)
    quantised = frame.filter(pl.col("bits") == pl.col("gradient_bits")).sort("bits")
    assert (quantised["iteration_s"].diff().drop_nulls() > 0).all()
    whole = frame.filter(gradient_bits=32).sort("bits")
    assert (whole["iteration_s"].diff().drop_nulls() > 0).all()
    assert frame["cut"].n_unique() == 1
    assert 0 < frame["cut"][0] < 5


def test_training_repeats_with_the_seed_and_changes_with_it(stored: Frames) -> None:
    again, other = (learning.JALAD_BITS.frame("smoke", seed=seed) for seed in (1, 2))
    assert again.equals(stored["jalad_bits"])
    assert not again["loss"].equals(other["loss"])


def test_what_diverges_is_a_row_with_its_reason(
    stored: Frames, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert learning.diverged(stored["jalad_bits"].filter(pl.col("bits") == 32)) == []
    monkeypatch.setattr(learning, "LEARNING_RATE", 1e6)
    frame = learning.JALAD_BITS.frame("smoke")
    failed = frame.filter(pl.col("reason").is_not_null())
    assert failed["reason"].str.contains("epochs (was|were) done").all()
    assert set(failed["bits"]) == {1, 8, 32}
    assert failed["iteration_s"].is_not_null().all()
    named = learning.diverged(frame)
    assert named[0].startswith("diverged: c = ")
    assert "32 (gradients 32)" in named[0]
    accuracy = learning.ACCURACY.frame("smoke")
    assert accuracy["reason"].str.contains("training diverged").all()
    assert len(accuracy) == len(PLANNERS)


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


def test_a_planner_of_ones_own_stands_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLANNERS, "mine", PLANNERS["all_edge"])
    frame = iterations("alexnet_tiny", ["hiertrain", "mine"])
    assert "mine" in figures.svg(draw_planners(frame))
