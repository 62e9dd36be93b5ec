"""Stored frames to answers: right claims, right settings, honest gaps, orders that can fail."""

from collections.abc import Callable

import polars as pl
import pytest
from workbench.hiertrain.paper.cores import FIG11, NONE_PERCENT
from workbench.hiertrain.paper.iteration_time import FIG7, FIG8, FIG9

from tests.conftest import Smoke
from tests.expectations import Stored
from workbench.hiertrain.paper import calibration, constants
from workbench.hiertrain.paper.figures import FIGURES
from workbench.hiertrain.paper.testbed import MODELS, Constants
from workbench.reproduction.claims import verdicts

KEPT = Stored("hiertrain", FIGURES)
STORED = KEPT.frames
answers, value, with_value = KEPT.answers, KEPT.value, KEPT.with_value


@pytest.fixture(autouse=True, scope="module")
def _read(smoke: Smoke) -> None:
    KEPT.read(smoke)


def curves(figure: str, **total_s: list[float]) -> pl.DataFrame:
    """A stored frame with some planners' seconds, at 1.5, 2, ... 5 Mbit/s, in place of ours."""
    frame = STORED[figure]
    for planner, seconds in total_s.items():
        for mbps, second in zip(frame["edge_cloud_mbps"].unique().sort(), seconds, strict=True):
            at = (pl.col("planner") == planner) & (pl.col("edge_cloud_mbps") == mbps)
            frame = frame.with_columns(total_s=pl.when(at).then(second).otherwise("total_s"))
    return frame


def test_no_claim_waits_for_a_larger_scale() -> None:
    assert not [claim for claim, answer in answers(STORED).items() if answer.not_run]


@pytest.mark.parametrize(
    ("figure", "other"),
    [
        ("fig7", lambda: FIG7.frame(batch_size=64)),
        ("fig7", lambda: FIG7.frame(device_edge_mbps=10.0)),
        ("fig7", lambda: FIG7.frame(edge_cores=2)),
        ("fig8", lambda: FIG8.frame(devices=2)),
        ("fig8", lambda: STORED["fig7"]),
        ("table2", lambda: STORED["table2"].with_columns(batch_size=pl.lit(64, pl.Int64))),
        ("fig9", lambda: FIG9.frame(edge_cores=2)),
        ("fig11", lambda: FIG11.frame(batch_size=64)),
        ("fig11", lambda: FIG11.frame(devices=2)),
        ("fig11", lambda: FIG11.frame(model="lenet5")),
    ],
)
def test_results_at_another_setting_answer_nothing(
    figure: str, other: Callable[[], pl.DataFrame]
) -> None:
    assert answers({figure: other()}) == {}


def test_missing_frames_leave_claims_out() -> None:
    assert set(answers({"fig9": STORED["fig9"]})) == {"hiertrain.fig9.jalad_at_low"}
    assert answers({}) == {}


@pytest.mark.parametrize("planner", ["all_edge", "all_cloud"])
def test_the_largest_speed_up_counts(planner: str) -> None:
    seconds = [8.0, 12.0, 9.0, 8.0, 8.0, 8.0, 8.0, 8.0]
    for figure, model in (("fig7", "alexnet"), ("fig8", "lenet5")):
        changed = curves(figure, hiertrain=[4.0] * 8, **{planner: seconds})
        assert value(f"{figure}.{model}.{planner}", **{figure: changed}) == 3.0


@pytest.mark.parametrize(
    "changed",
    [
        {"all_cloud": [5.0] * 8},
        {"all_edge": [9.0, 9.0, 9.0, 9.1, 9.0, 9.0, 9.0, 9.0]},
        {"hiertrain": [100.0] * 8},
    ],
    ids=["all_cloud", "all_edge", "hiertrain"],
)
@pytest.mark.parametrize("figure", ["fig7", "fig8"])
def test_each_part_of_the_order_of_figs_7_and_8_can_fail(
    figure: str, changed: dict[str, list[float]]
) -> None:
    assert value("fig7.order") is True
    assert value("fig7.order", **{figure: curves(figure, **changed)}) is False


@pytest.mark.parametrize("figure", ["fig9", "fig10"])
def test_each_part_of_the_order_among_rivals_can_fail(figure: str) -> None:
    assert value("fig9.order_jointdnn") is True
    frame = STORED[figure].filter(pl.col("planner") == "jointdnn_plus").sort("edge_cloud_mbps")
    equal = curves(figure, hiertrain=frame["total_s"].to_list())
    assert value("fig9.order_jointdnn", **{figure: equal}) is False
    above = curves(figure, jointdnn=(frame["total_s"] * 0.99).to_list())
    assert value("fig9.order_jointdnn", **{figure: above}) is False


def test_jointdnn_plus_below_at_low_bandwidth_and_equal_in_the_cloud_above() -> None:
    cloud = [40.0, 30.0, 20.0, 18.0, 16.0, 14.0, 12.0, 10.0]
    plus = [15.0, 15.0, *cloud[2:]]
    fig7 = curves("fig7", all_cloud=cloud)
    good = curves("fig9", jointdnn=cloud, jointdnn_plus=plus)
    assert value("fig9.plus_at_low", fig7=fig7, fig9=good) is True
    for wrong in (
        {"jointdnn": cloud, "jointdnn_plus": [15.0, *cloud[1:]]},  # not below at 2
        {"jointdnn": cloud, "jointdnn_plus": [15.0, 15.0, 19.0, *cloud[3:]]},  # below at 2.5
        {"jointdnn": [*plus[:2], *[9.0] * 6], "jointdnn_plus": [14.0, 14.0, *[9.0] * 6]},
    ):  # equal, but not in the cloud
        assert value("fig9.plus_at_low", fig7=fig7, fig9=curves("fig9", **wrong)) is False


def test_jalad_below_hiertrain_at_low_bandwidth_only() -> None:
    ours = [10.0] * 8
    for jalad, holds in (
        ([9.0, 9.0, *[11.0] * 6], True),
        ([9.0, *[11.0] * 7], False),
        ([9.0, 9.0, 9.0, *[11.0] * 5], False),
        ([11.0] * 8, False),
    ):
        changed = curves("fig9", hiertrain=ours, jalad=jalad)
        assert value("fig9.jalad_at_low", fig9=changed) is holds


def test_jalad_overlaps_with_jointdnn_plus_on_both_sides() -> None:
    edge, cloud = [5.0] * 8, [9.0, 8.0, 7.0, 6.0, 5.5, 4.5, 4.0, 3.0]
    fig8 = curves("fig8", all_edge=edge, all_cloud=cloud)
    least = list(map(min, edge, cloud))
    good = curves("fig10", jalad=least, jointdnn_plus=least)
    assert value("fig10.jalad", fig8=fig8, fig10=good) is True
    below = [4.9, *least[1:]]
    for wrong in (
        {"jalad": below, "jointdnn_plus": least},  # apart
        {"jalad": below, "jointdnn_plus": below},  # together, but on neither
        {"jalad": edge, "jointdnn_plus": edge},  # never in the cloud
    ):
        assert value("fig10.jalad", fig8=fig8, fig10=curves("fig10", **wrong)) is False


def test_each_part_of_the_cores_claim_can_fail() -> None:
    def gains(few: tuple[float, float, float], enough: tuple[float, float, float]) -> pl.DataFrame:
        """Figure 11 with such gains up to 1.5 Mbit/s, at 4, and none from 3 on elsewhere."""
        frame = STORED["fig11"].with_columns(total_s=100.0, gain_percent=0.0)
        for where, steps in (
            (pl.col("edge_cloud_mbps") <= 1.5, few),
            (pl.col("edge_cloud_mbps") == 4.0, enough),
        ):
            kept = 1.0
            for cores, gain in zip((2, 3, 4), steps, strict=True):
                kept *= 1 - gain / 100
                at = where & (pl.col("edge_cores") == cores)
                frame = frame.with_columns(
                    total_s=pl.when(at).then(100 * kept).otherwise("total_s"),
                    gain_percent=pl.when(at).then(gain).otherwise("gain_percent"),
                )
        return frame

    def holds(few: tuple[float, float, float], enough: tuple[float, float, float]) -> bool:
        claimed = value("fig11.cores", fig11=gains(few, enough))
        assert isinstance(claimed, bool)
        return claimed

    helps, none = (20.0, 5.0, 2.0), (0.0, 0.0, 0.0)
    assert holds(helps, none)
    assert holds(helps, (0.9 * NONE_PERCENT, 0.0, 0.0))
    assert not holds(helps, (0.0, 1.1 * NONE_PERCENT, 0.0))
    assert not holds(helps, (0.5 * NONE_PERCENT,) * 3)  # each little, together not
    assert not holds((2.0, 5.0, 20.0), none)
    assert not holds((0.9 * NONE_PERCENT, 0.2, 0.1), none)
    detail = answers({"fig11": gains(helps, (1.0, 1.0, 0.0))})["hiertrain.fig11.cores"].detail
    # 1 - 0.8 x 0.95 x 0.98
    assert detail == "4 cores save 25.5 % at 1.5 Mbit/s, at most 2.0 % from 3"


def test_seconds_of_table_2() -> None:
    changed = with_value("table2", "median_ms", 1500.0, model=MODELS["alexnet"])
    assert value("table2.alexnet", table2=changed) == 1.5
    assert value("table2.lenet5", table2=changed) == value("table2.lenet5")


@pytest.mark.parametrize(
    ("claim", "row"),
    [("fig9.plus_at_low", 0), ("fig7.alexnet.all_cloud", 1), ("fig8.lenet5.all_cloud", 2)],
)
def test_causes_have_the_numbers_of_the_contradictions(claim: str, row: int) -> None:
    needed, allowed = constants.contradictions().select("needed", "allowed").row(row)
    assert needed > allowed
    name = f"hiertrain.{claim}"
    (cause,) = (figure.causes[name] for figure in FIGURES if name in figure.causes)
    assert f"{needed:.3g}" in cause.why
    assert f"{allowed:.3g}" in cause.why


def test_what_meets_jointdnn_plus_at_low_bandwidth_misses_the_speed_ups() -> None:
    weighed = calibration.EXPLANATIONS["flops_only"]
    slower = Constants(**weighed.fixed, device_gflops=0.1, edge_core_gflops=2.3)
    judged = verdicts("hiertrain", weighed.answers(slower, ("alexnet",)))
    assert judged["hiertrain.fig9.plus_at_low"] == "holds"
    for claim in ("fig7.alexnet.all_edge", "fig7.alexnet.all_cloud", "fig11.cores"):
        assert judged[f"hiertrain.{claim}"] == "not reproduced"
